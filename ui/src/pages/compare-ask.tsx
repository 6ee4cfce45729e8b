// One message to the agents of all compared workspaces, typed into their sessions.
import { api } from "../api/client";
import type { Session, Workspace } from "../api/types";
import { plural } from "../lib/format";
import { Button, Glyph, Text } from "../parts/basic";
import { useAction, useDraft } from "../parts/hooks";
import { Dialog } from "../parts/overlay";
import { sessionsOf } from "../state/store";
import { toast } from "../state/toast";

/** The only live session of an agent; a message typed into a shell would be a command. */
function agentOf(one: Workspace): Session | undefined {
  const live = (sessionsOf.value.get(one.id) ?? []).filter((session) => session.state === "running" && session.agent);
  return live.length === 1 ? live[0] : undefined;
}

export function AskAll({ all, onClose }: { all: Workspace[]; onClose: () => void }) {
  const [text, setText] = useDraft(`follow-up.${all.map((one) => one.id).join(".")}`);
  const [busy, run] = useAction();
  const reached = all.flatMap((one) => agentOf(one) ?? []);
  const send = async () => {
    if (busy || !text.trim() || !reached.length) return;
    const sent = await run("Cannot send the follow-up to all", () =>
      Promise.all(
        reached.map(({ workspace: id, id: session }) =>
          api.post("/api/v1/workspaces/{id}/sessions/{session}/send", {
            path: { id, session },
            body: { text, enter: true },
          }),
        ),
      ),
    );
    if (!sent) return;
    setText("");
    toast(`Sent to ${plural(reached.length, "session")}`);
    onClose();
  };
  return (
    <Dialog
      title="Ask all a follow-up"
      onClose={onClose}
      acts={
        <>
          <Button kind="quiet" cap="Esc" onClick={onClose}>
            Cancel
          </Button>
          <Button
            kind="primary"
            cap="Ctrl ⏎"
            busy={busy}
            disabled={!text.trim() || !reached.length}
            onClick={() => void send()}
          >
            Send to {plural(reached.length, "session")}
          </Button>
        </>
      }
    >
      <label class="f__label" for="follow-up">
        Message
      </label>
      <textarea
        id="follow-up"
        data-first
        class="f__area"
        rows={3}
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) void send();
        }}
      />
      <ul class="rows">
        {all.map((one) => {
          const session = agentOf(one);
          return (
            <li key={one.id}>
              <Glyph state={session ? "ready" : "needs"} says={session ? "gets it" : "does not get it"} />
              <span class="mono">
                <Text value={one.label} />
              </span>
              <span class="dim">
                {session ? <Text value={session.agent!} /> : "not exactly one live agent session, gets no message"}
              </span>
            </li>
          );
        })}
      </ul>
    </Dialog>
  );
}
