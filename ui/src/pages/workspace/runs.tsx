// The runs of a workspace: a message for an agent, live output, and the files that a run changed.
import { useEffect, useRef, useState } from "preact/hooks";
import { KNOWN_AGENTS } from "../../lib/agents";
import type { Run, Workspace } from "../../api/types";
import { api } from "../../api/client";
import { clock, duration } from "../../lib/format";
import { Button, Coloured, Text } from "../../parts/basic";
import { useAction, useDraft, useLoad } from "../../parts/hooks";
import { useRunOutput } from "../../parts/run-output";
import { runs as allRuns } from "../../state/store";
import { failed } from "../../state/toast";

export function Runs({ one, runs }: { one: Workspace; runs: Run[] }) {
  return (
    <>
      <Ask one={one} />
      {runs.length === 0 ? <p class="inbox__end">No run yet.</p> : <List runs={runs} />}
    </>
  );
}

/** A message that an agent gets as one run. */
function Ask({ one }: { one: Workspace }) {
  const [text, setText] = useDraft(`run.${one.id}`);
  const agents = [...new Set([...allRuns.value.flatMap((run) => run.agent ?? []), ...KNOWN_AGENTS])];
  const [agent, setAgent] = useState(agents[0]!);
  const [busy, run] = useAction();
  const start = async () => {
    const begun = await run(`Cannot run ${agent}`, () =>
      api.post("/api/v1/workspaces/{id}/runs", {
        path: { id: one.id },
        key: crypto.randomUUID(),
        body: { agent, message: text.trim() },
      }),
    );
    if (begun) setText("");
  };
  return (
    <form
      class="runs__ask"
      onSubmit={(event) => {
        event.preventDefault();
        if (text.trim()) void start();
      }}
    >
      <label class="field grow">
        <span class="vh">Message to an agent</span>
        <input
          type="text"
          placeholder="Message to an agent"
          value={text}
          onInput={(event) => setText(event.currentTarget.value)}
        />
      </label>
      <label class="field">
        <span class="vh">Agent</span>
        <select value={agent} onChange={(event) => setAgent(event.currentTarget.value)}>
          {agents.map((name) => (
            <option key={name}>{name}</option>
          ))}
        </select>
      </label>
      <Button small busy={busy} disabled={!text.trim()} onClick={() => void start()}>
        Run
      </Button>
    </form>
  );
}

function List({ runs }: { runs: Run[] }) {
  const [open, setOpen] = useState<string | null>(null);
  return (
    <table class="t t--tight">
      <thead>
        <tr>
          <th>Run</th>
          <th>Message</th>
          <th>Agent</th>
          <th>Result</th>
          <th class="num">Time</th>
          <th class="num">Files</th>
        </tr>
      </thead>
      <tbody>
        {runs.map((run) => (
          <>
            <tr key={run.id} class={open === run.id ? "is-selected" : ""}>
              <td class="mono">
                <button
                  type="button"
                  class="linkish"
                  aria-expanded={open === run.id}
                  onClick={() => setOpen(open === run.id ? null : run.id)}
                >
                  {run.id.slice(0, 6)}
                </button>
              </td>
              <td class="cut">
                <Text value={(run.message ?? run.command.join(" ")).slice(0, 160)} />
              </td>
              <td>{run.agent && <Text value={run.agent} />}</td>
              <td>
                <Result run={run} />
              </td>
              <td class="num">{run.duration_ms != null ? duration(run.duration_ms) : clock(run.created_at)}</td>
              <td class="num">{run.changed ?? <span class="faint">–</span>}</td>
            </tr>
            {open === run.id && (
              <tr key={`${run.id}o`} class="runs__more">
                <td colSpan={6}>
                  <Output run={run} />
                </td>
              </tr>
            )}
          </>
        ))}
      </tbody>
    </table>
  );
}

function Result({ run }: { run: Run }) {
  if (run.state === "running" || run.state === "queued") return <span class="is-running">{run.state}</span>;
  const good = run.state === "succeeded";
  return (
    <span class={good ? "is-ready" : "is-failed"}>
      {run.exit_code != null ? `exit ${run.exit_code}` : run.state.replace("_", " ")}
      {run.reason && (
        <>
          , <Text value={run.reason} />
        </>
      )}
    </span>
  );
}

/** A run's output, live until it ends. */
function Output({ run }: { run: Run }) {
  const whole = useLoad(
    (signal) => api.get("/api/v1/workspaces/{id}/runs/{run}", { path: { id: run.workspace, run: run.id }, signal }),
    [run.id, run.state],
  );
  const text = useRunOutput(run);
  const box = useRef<HTMLPreElement>(null);
  useEffect(() => {
    if (box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [text]);
  const stop = async () => {
    try {
      await api.post("/api/v1/workspaces/{id}/runs/{run}/cancel", { path: { id: run.workspace, run: run.id } });
    } catch (cause) {
      failed("Cannot cancel the run", cause);
    }
  };
  return (
    <>
      <pre ref={box} class="term runs__out" tabIndex={0} aria-label="Output">
        {text.map((line, i) => (
          <span key={i}>
            <Coloured value={line} />
            {"\n"}
          </span>
        ))}
      </pre>
      {whole.value?.changes && whole.value.changes.length > 0 && (
        <p class="file__say">
          <span class="faint">Changed</span>
          <span class="mono">
            <Text value={whole.value.changes.map((change) => change.path).join(", ")} />
          </span>
        </p>
      )}
      {run.state === "running" && (
        <p class="file__say">
          <Button small kind="danger" onClick={() => void stop()}>
            Cancel the run
          </Button>
        </p>
      )}
    </>
  );
}
