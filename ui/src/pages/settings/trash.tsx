// Removed workspaces, until their time is over.
import { api } from "../../api/client";
import { clock, full } from "../../lib/format";
import { Age, Button, Text } from "../../parts/basic";
import { Missing, PlainTable } from "../../parts/table";
import { useAction, useEvents, useLoad } from "../../parts/hooks";
import { restore } from "../../state/actions";
import { nameOf } from "../../state/store";

export function Trash() {
  const { value, fault, reload } = useLoad(
    async (signal) => (await api.get("/api/v1/workspaces", { query: { trash: true }, signal })).workspaces,
    [],
  );
  const [busy, run] = useAction();
  useEvents(
    null,
    (type) => /^workspace\.(removed|restored)/.test(type),
    () => void reload(),
  );
  return (
    <>
      <h2 class="h">Trash</h2>
      <p class="dim">
        A removed workspace keeps its code, data and turns here until the time below, or until the disk needs the room.
      </p>
      <Missing what="Cannot read the trash" fault={fault} />
      {value?.length === 0 && <p class="dim">Nothing is in the trash.</p>}
      {value && value.length > 0 && (
        <PlainTable heads={["Workspace", "Removed", "Deleted for good", ""]}>
          {value.map((one) => (
            <tr key={one.id}>
              <td class="mono">
                <Text value={nameOf(one)} />
              </td>
              <td>
                {one.removed_at && (
                  <>
                    <Age time={one.removed_at} /> ago
                  </>
                )}
              </td>
              <td title={one.expires_at ? full(one.expires_at) : undefined}>
                {one.expires_at ? clock(one.expires_at) : "when the disk needs room"}
              </td>
              <td class="num">
                <Button
                  small
                  icon="undo"
                  disabled={busy}
                  onClick={() => void run(`Cannot restore ${nameOf(one)}`, () => restore(one.id)).then(() => reload())}
                >
                  Restore
                </Button>
              </td>
            </tr>
          ))}
        </PlainTable>
      )}
    </>
  );
}
