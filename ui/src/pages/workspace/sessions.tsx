// The terminals of a workspace: one tab each; the terminal itself is a chunk that is loaded when one is shown.
import { useEffect, useRef, useState } from "preact/hooks";
import { api } from "../../api/client";
import type { Session, Workspace } from "../../api/types";
import { visible } from "../../lib/odd";
import { age, plural } from "../../lib/format";
import { Button, IconButton, Text } from "../../parts/basic";
import { useAction, useDraft } from "../../parts/hooks";
import { Menu } from "../../parts/overlay";
import { command, useKeys } from "../../state/keys";
import { minute } from "../../state/look";
import { nameOf, runs, sessionsOf } from "../../state/store";
import { toast } from "../../state/toast";
import type { Attached, Writer } from "./terminal";

const nameFor = (one: Session): string => one.name ?? one.agent ?? one.command[0]?.split("/").at(-1) ?? "shell";

export function Sessions({ one }: { one: Workspace }) {
  const all = sessionsOf.value.get(one.id) ?? [];
  const live = all.filter((session) => session.state === "running");
  const [chosen, setChosen] = useState<string | null>(null);
  const [writer, setWriter] = useState<Writer>({ writes: false, writer: null });
  const [busy, run] = useAction();
  const attached = useRef<Attached | null>(null);
  const current = live.find((session) => session.id === chosen) ?? live.find((session) => session.attention) ?? live[0];
  const make = (agent: string | null) =>
    void run("Cannot start a session", async () => {
      const made = await api.post("/api/v1/workspaces/{id}/sessions", { path: { id: one.id }, body: { agent } });
      setChosen(made.id);
    });
  const end = (session: Session) =>
    void run("Cannot end the session", async () => {
      await api.delete("/api/v1/workspaces/{id}/sessions/{session}", {
        path: { id: one.id, session: session.id },
      });
      toast(`Ended session ${nameFor(session)}`);
    });
  useEffect(() => {
    if (current) command.value = `holm session attach ${current.name ? `${one.label}/${current.name}` : current.id}`;
  }, [current?.id, one.label]);
  useKeys({
    "workspace.session": (stroke) => {
      const next = live[Number(stroke) - 1];
      if (next) setChosen(next.id);
    },
    "workspace.take": () => attached.current?.take(),
    "workspace.give": () => (document.activeElement as HTMLElement | null)?.blur(),
  });
  // Agents that ran before are offered again; others by their name at the command line.
  const agents = [...new Set([...runs.value, ...all].flatMap((past) => past.agent ?? []))];
  return (
    <>
      <div class="tabs">
        <div role="tablist" aria-label="Sessions">
          {live.map((session) => (
            <button
              key={session.id}
              role="tab"
              type="button"
              id={`tab-${session.id}`}
              aria-selected={session.id === current?.id}
              aria-controls="session"
              onClick={() => setChosen(session.id)}
            >
              {session.attention && (
                <span class="is-needs" title={visible(session.attention.text ?? "rang")}>
                  !
                </span>
              )}
              <Text value={nameFor(session)} />
              <span class="faint mono">{session.id.slice(0, 4)}</span>
              {session.id === current?.id && session.last_output_at && <span class="faint hide-phone">{quiet(session)}</span>}
            </button>
          ))}
        </div>
        {one.state === "running" &&
          (agents.length === 0 ? (
            <IconButton icon="plus" says="New session" disabled={busy} onClick={() => make(null)} />
          ) : (
            <Menu
              says="New session"
              icon="plus"
              choices={[
                { label: "Shell", icon: "terminal", run: () => make(null) },
                ...agents.map((agent) => ({ label: agent, icon: "user", run: () => make(agent) })),
              ]}
            />
          ))}
        {current && (
          <div class="tabs__end">
            {current.viewers > 1 && <span class="faint hide-phone">{current.viewers} watch</span>}
            {!writer.writes && (
              <Button small cap="t" onClick={() => attached.current?.take()}>
                Take over
              </Button>
            )}
            <Menu says="More" choices={[{ label: "End this session", icon: "x", danger: true, run: () => end(current) }]} />
          </div>
        )}
      </div>
      {current ? (
        <Terminal key={current.id} session={current} attached={attached} onWriter={setWriter} />
      ) : (
        <div class="ws__term" id="session">
          <div class="ws__none">
            {one.state === "running" ? (
              <>
                <p>No session is open.</p>
                <Button icon="terminal" busy={busy} onClick={() => make(null)}>
                  Open a shell
                </Button>
              </>
            ) : (
              <p>The workspace is stopped.</p>
            )}
          </div>
        </div>
      )}
      {current && <Talk session={current} name={nameFor(current)} />}
      <span class="vh" aria-live="polite">
        {current ? `${nameOf(one)}, ${plural(live.length, "session")}` : ""}
      </span>
    </>
  );
}

const quiet = (session: Session): string => {
  const text = age(session.last_output_at!, minute.value);
  return text === "now" ? "" : `quiet for ${text}`;
};

function Terminal({
  session,
  attached,
  onWriter,
}: {
  session: Session;
  attached: { current: Attached | null };
  onWriter: (writer: Writer) => void;
}) {
  const box = useRef<HTMLDivElement>(null);
  const [problem, setProblem] = useState("");
  useEffect(() => {
    let live = true;
    let mine: Attached | undefined;
    void import("./terminal").then(({ attach }) => {
      if (!live) return;
      mine = attach(box.current!, session, { onWriter, onProblem: setProblem });
      attached.current = mine;
    });
    return () => {
      live = false;
      mine?.close();
      attached.current = null;
    };
  }, [session.id]);
  return (
    <>
      <div class="ws__term" id="session" role="tabpanel" aria-labelledby={`tab-${session.id}`} ref={box} />
      {problem && (
        <div class="banner banner--needs" role="status">
          <span>
            <Text value={problem} />
          </span>
        </div>
      )}
    </>
  );
}

/** On a phone a field is easier than a terminal. */
function Talk({ session, name }: { session: Session; name: string }) {
  const [text, setText] = useDraft(`talk.${session.id}`);
  const [busy, run] = useAction();
  const send = () =>
    void run("Cannot send", async () => {
      await api.post("/api/v1/workspaces/{id}/sessions/{session}/send", {
        path: { id: session.workspace, session: session.id },
        body: { text, enter: true },
      });
      setText("");
    });
  return (
    <form
      class="talk"
      onSubmit={(event) => {
        event.preventDefault();
        send();
      }}
    >
      <label class="field">
        <span class="vh">
          Message to <Text value={name} />
        </span>
        <input
          type="text"
          placeholder={visible(`Message to ${name}`)}
          value={text}
          onInput={(event) => setText(event.currentTarget.value)}
        />
      </label>
      <Button kind="primary" busy={busy} disabled={!text} onClick={send}>
        Send
      </Button>
    </form>
  );
}
