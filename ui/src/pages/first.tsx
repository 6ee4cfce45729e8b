// No workspace yet: what to type. The page follows along.
import { Button, Glyph, Icon, Text } from "../parts/basic";
import { copy } from "../state/actions";
import { doctor, projects } from "../state/store";

export function FirstRun() {
  const missing = doctor.value?.checks.filter((one) => one.status !== "ok").length ?? 0;
  const up = "cd ~/src/shop && holm up fix-login";
  return (
    <div class="scroll first">
      <div class="first__in">
        <h2 class="first__title">Make the first workspace</h2>
        <p class="dim first__lead">Type this in any git repository. This page follows along.</p>
        <ol class="steps">
          <li class="is-done">
            <span class="steps__n">
              <Icon name="check" />
            </span>
            <div>
              <p>
                <b>holm runs on this machine</b>
              </p>
              <p class="dim">
                {doctor.value
                  ? missing
                    ? `${missing} of ${doctor.value.checks.length} checks have something to say. `
                    : `All ${doctor.value.checks.length} checks are well. `
                  : ""}
                <a class="link" href="/settings/health">
                  See what was tested
                </a>
              </p>
            </div>
          </li>
          <li class="is-now">
            <span class="steps__n">2</span>
            <div>
              <p>
                <b>Start a workspace</b>{" "}
                <span class="steps__wait">
                  <Glyph state="running" says="waiting" />
                  waiting for it
                </span>
              </p>
              <div class="cmdline">
                <code>{up}</code>
                <Button small icon="copy" cap="y" onClick={() => void copy(up)}>
                  Copy
                </Button>
              </div>
            </div>
          </li>
          <li>
            <span class="steps__n">3</span>
            <div>
              <p>
                <b>Give an agent something to do</b>
              </p>
              <div class="cmdline">
                <code>holm run fix-login --agent claude "fix the login redirect"</code>
              </div>
              <p class="dim">When the run ends, or the agent asks something, it appears here.</p>
            </div>
          </li>
        </ol>
        {projects.value.length > 0 && (
          <>
            <h2 class="h">
              Or begin here <span class="faint">projects that holm knows</span>
            </h2>
            <table class="t t--plain t--found">
              <tbody>
                {projects.value.map((one) => (
                  <tr key={one.id}>
                    <td class="mono">
                      <Text value={one.name} />
                    </td>
                    <td class="dim mono">
                      <Text value={one.path} />
                    </td>
                    <td class="num">
                      <a class="btn btn--small" href={`/new?project=${encodeURIComponent(one.name)}`}>
                        New workspace
                      </a>
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </>
        )}
      </div>
    </div>
  );
}
