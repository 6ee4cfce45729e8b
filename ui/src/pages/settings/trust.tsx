// What the person decided per project. A holm.toml that asks for more is approved where it can be read: in its checkout.
import { Button, Text } from "../../parts/basic";
import { PlainTable } from "../../parts/table";
import { copy } from "../../state/actions";
import { projects } from "../../state/store";

export const Trust = () => (
  <>
    <h2 class="h">Trust</h2>
    <p class="dim">
      A <code>holm.toml</code> can ask for things outside of its workspace: secrets, hosts, programs of yours. holm gives none of
      them before you approved exactly that content. Type the command in the project's directory; it shows what is asked and what
      changed since the last time.
    </p>
    {projects.value.length === 0 && <p class="dim">No project yet.</p>}
    {projects.value.length > 0 && (
      <PlainTable heads={["Project", "Isolation", "Protected paths", "See and approve"]}>
        {projects.value.map((one) => {
          const line = `cd ${one.path} && holm trust`;
          return (
            <tr key={one.id}>
              <td>
                <span class="mono">
                  <Text value={one.name} />
                </span>
              </td>
              <td class="dim">{one.isolation ?? "default"}</td>
              <td class="mono dim wrap">
                <Text value={one.protected_paths?.join(", ") || "–"} />
              </td>
              <td>
                <code class="dim">
                  <Text value={line} />
                </code>{" "}
                <Button small kind="quiet" icon="copy" title="Copy" onClick={() => void copy(line)}>
                  <span class="vh">Copy</span>
                </Button>
              </td>
            </tr>
          );
        })}
      </PlainTable>
    )}
  </>
);
