// The daemon, and what this machine can do for workspaces.
import { api } from "../../api/client";
import { full, plural } from "../../lib/format";
import { Age, Button, Glyph, Note, Text, Words, type State } from "../../parts/basic";
import { Missing } from "../../parts/table";
import { useLoad } from "../../parts/hooks";
import { daemon } from "../../state/store";

const STATES: Record<string, State> = { ok: "ready", warning: "degraded", missing: "failed" };

export function Health() {
  const { value, fault, reload } = useLoad((signal) => api.get("/api/v1/doctor", { signal }), []);
  const one = daemon.value;
  const bad = value?.checks.filter((check) => check.status !== "ok") ?? [];
  const rank = (status: string) => ["missing", "warning", "ok"].indexOf(status);
  return (
    <>
      <h2 class="h">Daemon</h2>
      {one && (
        <dl class="around">
          <div>
            <dt>Version</dt>
            <dd>{one.version}</dd>
          </div>
          <div>
            <dt>Up for</dt>
            <dd title={full(one.started_at)}>
              <Age time={one.started_at} />{" "}
              <span class="faint">
                as {one.user}, process {one.pid}
              </span>
            </dd>
          </div>
          <div>
            <dt>Workspaces</dt>
            <dd>
              {one.workspaces}, {one.running} running
            </dd>
          </div>
          <div>
            <dt>Front door</dt>
            <dd class="mono">{one.port ? `holm.localhost:${one.port}` : "closed"}</dd>
          </div>
          <div>
            <dt>Data</dt>
            <dd class="mono">
              <Text value={one.data_dir} />
            </dd>
          </div>
        </dl>
      )}
      <h2 class="h">
        Doctor{" "}
        <span class="faint">
          {value
            ? bad.length
              ? `${plural(bad.length, "check")} of ${value.checks.length} have something to say`
              : `all ${value.checks.length} are well`
            : "is trying the machine"}
        </span>{" "}
        <Button small kind="quiet" icon="restart" onClick={() => void reload()}>
          Check again
        </Button>
      </h2>
      <Missing what="The doctor did not answer" fault={fault} />
      {value && !value.ok && (
        <Note state="failed" title="This machine cannot run workspaces yet">
          <p>Fix what is missing below.</p>
        </Note>
      )}
      {value && (
        <div class="wide" tabIndex={0}>
          <table class="t t--plain doc">
            <tbody>
              {value.checks
                .toSorted((a, b) => rank(a.status) - rank(b.status))
                .map((check) => (
                  <tr key={check.name}>
                    <td>
                      <Glyph state={STATES[check.status] ?? "degraded"} says={check.status} />
                    </td>
                    <td>
                      <b>
                        <Text value={check.name} />
                      </b>
                    </td>
                    <td class="wrap dim">
                      <Text value={check.detail} />
                      {check.fix && (
                        <>
                          <br />
                          <Words text={check.fix} />
                        </>
                      )}
                    </td>
                    <td class="faint">{check.required ? "required" : ""}</td>
                  </tr>
                ))}
            </tbody>
          </table>
        </div>
      )}
    </>
  );
}
