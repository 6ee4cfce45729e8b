// What each reason of an item shows, and the field or line that answers it.
import { api, lines } from "../api/client";
import type { Session, Workspace } from "../api/types";
import { bytes, plural, seconds, sizeText } from "../lib/format";
import { Button, Cap, Coloured, Pm, Text } from "../parts/basic";
import { useAction, useDraft, useEvents, useLoad } from "../parts/hooks";
import { AllowLine, LineToAdd } from "../parts/lines-to-copy";
import { serviceState } from "../state/attention";
import { paths } from "../state/route";
import { numbers, runsOf } from "../state/store";
import { toast } from "../state/toast";

const ROWS = 16;

export function Question({ session }: { session: Session }) {
  const screen = useScreen(session);
  return (
    <>
      <Excerpt session={session} screen={screen?.coloured ?? screen?.text ?? ""} />
      <Reply session={session} screen={screen?.text ?? ""} />
    </>
  );
}

/** The end of the session's screen. */
function Excerpt({ session, screen }: { session: Session; screen: string }) {
  const lines = screen.trimEnd().split("\n").slice(-ROWS);
  return (
    <figure class="excerpt">
      <figcaption>
        <span>
          Session{" "}
          <span class="mono">
            <Text value={session.name ?? session.id.slice(0, 5)} />
          </span>
          , last {plural(lines.length, "line")}
        </span>
        <a class="link" href={paths.workspace(session.workspace)}>
          Attach
          <Cap keys="t" />
        </a>
      </figcaption>
      <Tail lines={lines} />
    </figure>
  );
}

/** The end of the session's screen; the text with colours has no sequences but those. */
export function useScreen(session: Session): { text: string; coloured?: string | null } | null {
  const { value, reload } = useLoad(
    (signal) =>
      api.get("/api/v1/workspaces/{id}/sessions/{session}/read", {
        path: { id: session.workspace, session: session.id },
        query: { colours: true },
        signal,
      }),
    [session.id, session.cursor],
  );
  useEvents(
    session.workspace,
    (type) => type.startsWith("session."),
    () => void reload(),
  );
  return value;
}

/** The last line at the end of a screen that asks something. */
export const questionOf = (screen: string): string | undefined =>
  screen
    .split("\n")
    .slice(-16)
    .findLast((line) => /\S.*\?\s*$/.test(line))
    ?.replace(/^[\s│❯>*●]+/, "")
    .trim();

/** Numbered choices at the end of a screen become buttons. */
export function choicesOf(screen: string): { key: string; label: string }[] {
  const found = screen
    .split("\n")
    .slice(-12)
    .flatMap((line) => {
      const match = /^[\s│❯>*]*([1-9])[.)]\s+(.{1,60})/.exec(line);
      return match ? [{ key: match[1]!, label: match[2]!.replace(/[\s│]+$/, "").split(/[:,(]/, 1)[0]! }] : [];
    });
  return found.length > 1 && found.every((one, i) => one.key === String(i + 1)) ? found : [];
}

function Reply({ session, screen }: { session: Session; screen: string }) {
  const [text, setText] = useDraft(`answer.${session.id}`);
  const [busy, run] = useAction();
  const send = (answer: string) =>
    void run("Cannot send the answer", async () => {
      await api.post("/api/v1/workspaces/{id}/sessions/{session}/send", {
        path: { id: session.workspace, session: session.id },
        body: { text: answer, enter: true },
      });
      setText("");
      toast(`Sent to session ${session.name ?? session.id.slice(0, 5)}`);
    });
  const choices = choicesOf(screen);
  return (
    <form
      class="reply"
      onSubmit={(event) => {
        event.preventDefault();
        if (text) send(text);
      }}
    >
      {choices.length > 0 && (
        <div class="reply__quick" role="group" aria-label="Quick answers">
          {choices.map((one) => (
            <button key={one.key} class="btn" type="button" onClick={() => send(one.key)}>
              <kbd>{one.key}</kbd>
              <Text value={one.label} />
            </button>
          ))}
        </div>
      )}
      <div class="reply__box">
        <label class="vh" for="reply">
          Answer
        </label>
        <textarea
          id="reply"
          rows={2}
          placeholder="Type an answer"
          value={text}
          onInput={(event) => setText(event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && text) send(text);
          }}
        />
        <div class="reply__foot">
          <span class="faint">Goes to the session as typed text. The delivery is recorded.</span>
          <Button kind="primary" cap="Ctrl ⏎" busy={busy} disabled={!text} onClick={() => send(text)}>
            Send answer
          </Button>
        </div>
      </div>
    </form>
  );
}

/** The last output of a failed check, a failed service and the newest failed run. */
export function RunTail({ workspace }: { workspace: Workspace }) {
  const broken = workspace.services.find((one) => serviceState(one) === "failed");
  const run = runsOf.value.get(workspace.id)?.find((one) => one.state !== "succeeded" && one.state !== "running");
  const tail = useLogTail(workspace.id, broken?.name ?? null);
  const checks = useLoad(
    async (signal) => (await api.get("/api/v1/workspaces/{id}/checks", { path: { id: workspace.id }, signal })).checks,
    [workspace.id],
  );
  const check = checks.value?.find((one) => one.state === "failed")?.name ?? null;
  const checkTail = useLogTail(workspace.id, check && `check/${check}`);
  return (
    <>
      {check && (
        <figure class="excerpt">
          <figcaption>
            <span>
              Check{" "}
              <span class="mono">
                <Text value={check} />
              </span>
              {checkTail.length ? `, last ${plural(checkTail.length, "line")}` : " wrote nothing"}
            </span>
          </figcaption>
          {checkTail.length > 0 && <Tail lines={checkTail} />}
        </figure>
      )}
      {broken && (
        <figure class="excerpt">
          <figcaption>
            <span>
              Service <span class="mono">{broken.name}</span>: <Text value={broken.reason ?? broken.state} />
            </span>
            <a class="link" href={paths.workspace(workspace.id)}>
              Logs
            </a>
          </figcaption>
          <Tail lines={tail} />
        </figure>
      )}
      {run && (
        <dl class="around">
          <div>
            <dt>Run</dt>
            <dd>
              <span class="mono">{run.id.slice(0, 6)}</span>{" "}
              <span class="is-failed">
                {run.state.replace("_", " ")}
                {run.exit_code == null ? "" : `, exit ${run.exit_code}`}
              </span>{" "}
              <span class="faint">{run.reason && <Text value={run.reason} />}</span>
            </dd>
          </div>
        </dl>
      )}
    </>
  );
}

const Tail = ({ lines }: { lines: string[] }) => (
  <pre class="term" tabIndex={0}>
    {lines.map((line, i) => (
      <span key={i}>
        <Coloured value={line} />
        {"\n"}
      </span>
    ))}
  </pre>
);

function useLogTail(id: string, source: string | null): string[] {
  const { value } = useLoad(
    async (signal) => {
      if (!source) return [];
      const found: string[] = [];
      for await (const line of lines<{ text: string }>("get", `/api/v1/workspaces/${id}/logs`, {
        query: { services: source, last: ROWS },
        signal,
      }))
        found.push(line.text);
      return found;
    },
    [id, source],
  );
  return value ?? [];
}

/** Refused addresses, each with the line that would allow it. The page writes nothing. */
export function Refused({ workspace }: { workspace: Workspace }) {
  const { value } = useLoad(
    async (signal) =>
      (
        await api.get("/api/v1/workspaces/{id}/egress", {
          path: { id: workspace.id },
          query: { limit: 500 },
          signal,
        })
      ).egress,
    [workspace.id],
  );
  const seen = new Map<string, { allow: string | null; reason: string; count: number; last: string; by: string }>();
  for (const one of value ?? []) {
    if (!one.reason) continue;
    const name = `${one.name ?? one.address ?? "?"}${one.port ? `:${one.port}` : ""}`;
    const before = seen.get(name);
    seen.set(name, {
      allow: one.allow ?? null,
      reason: one.reason,
      count: (before?.count ?? 0) + (one.count ?? 1),
      last: one.time,
      by: one.process?.name ?? before?.by ?? "",
    });
  }
  return (
    <div class="reply">
      {[...seen].map(([name, one]) => (
        <section key={name}>
          <h3 class="h">
            <span class="mono">
              <Text value={name} />
            </span>{" "}
            <span class="faint">
              {plural(one.count, "time")}, last {seconds(one.last)}
              {one.by && (
                <>
                  , by <Text value={one.by} />
                </>
              )}
            </span>
          </h3>
          <p class="dim">
            <Text value={one.reason} />
          </p>
          {one.allow && <AllowLine line={one.allow} />}
        </section>
      ))}
      {value && seen.size === 0 && <p class="dim">Nothing is refused any more.</p>}
    </div>
  );
}

export function Limit({ workspace }: { workspace: Workspace }) {
  const now = numbers.value.get(workspace.id);
  const { memory } = workspace.limits;
  const line = memory ? `memory = "${sizeText(memory * 2)}"` : "";
  return (
    <div class="reply">
      <p class="dim">
        {workspace.isolation.limits_reached?.length ? (
          <>
            Reached: <Text value={workspace.isolation.limits_reached.join(", ")} />.{" "}
          </>
        ) : null}
        {workspace.isolation.oom_kills
          ? `${plural(workspace.isolation.oom_kills, "process", "processes")} killed for memory. `
          : ""}
        {now && memory ? `Now ${bytes(now.memory)} of ${bytes(memory)}.` : ""}
      </p>
      {line && <LineToAdd file="holm.toml" table="limits" line={line} what="raise it" then="holm reload" />}
    </div>
  );
}

export function Summary({ workspace }: { workspace: Workspace }) {
  const { value } = useLoad(
    (signal) => api.get("/api/v1/workspaces/{id}/review", { path: { id: workspace.id }, signal }),
    [workspace.id],
  );
  if (!value) return null;
  return (
    <dl class="around">
      <div>
        <dt>Changed</dt>
        <dd>
          {plural(value.files.length, "file")} <Pm added={sum(value.files, "added")} removed={sum(value.files, "removed")} />
        </dd>
      </div>
      <div>
        <dt>Risks</dt>
        <dd>
          {value.risks.length ? (
            value.risks.slice(0, 6).map((risk) => (
              <p key={risk.path + risk.kind}>
                <span class="is-needs">{risk.kind}</span>{" "}
                <span class="mono">
                  <Text value={risk.path || risk.text} />
                </span>
              </p>
            ))
          ) : (
            <span class="faint">none found</span>
          )}
        </dd>
      </div>
    </dl>
  );
}

const sum = (files: { added: number | null; removed: number | null }[], what: "added" | "removed") =>
  files.reduce((all, file) => all + (file[what] ?? 0), 0);

export function Answers({ workspace }: { workspace: Workspace }) {
  const { value } = useLoad(
    async (signal) => (await api.get("/api/v1/workspaces/{id}/comments", { path: { id: workspace.id }, signal })).comments,
    [workspace.id],
  );
  return (
    <div class="reply">
      {(value ?? [])
        .filter((one) => one.replies.length)
        .slice(-4)
        .map((one) => (
          <div key={one.id} class="foreign">
            <p class="foreign__head">
              {one.id} on{" "}
              <span class="mono">
                <Text value={`${one.path}:${one.lines}`} />
              </span>
            </p>
            <p>
              <Text value={one.text} />
            </p>
            <p>
              <b>
                <Text value={one.replies.at(-1)!.author} />
              </b>{" "}
              <Text value={one.replies.at(-1)!.text} />
            </p>
          </div>
        ))}
    </div>
  );
}
