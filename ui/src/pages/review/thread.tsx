// Comments below their line: a thread that was sent, one that was not, and the field of a new one.
import { useEffect, useRef, useState } from "preact/hooks";
import { api } from "../../api/client";
import type { Comment } from "../../api/types";
import { clock } from "../../lib/format";
import { Button, Icon, Text, Words } from "../../parts/basic";
import { useAction, useDraft } from "../../parts/hooks";
import { runsOf } from "../../state/store";

export function Thread({ comment, workspace, onChange }: { comment: Comment; workspace: string; onChange: () => void }) {
  const [busy, run] = useAction();
  const [replying, setReplying] = useState(false);
  const act = (action: "reply" | "resolve" | "reopen", text?: string) =>
    run(`Cannot ${action} ${comment.id}`, async () => {
      await api.post("/api/v1/workspaces/{id}/comments/act", {
        path: { id: workspace },
        body: { action, ids: [comment.id], text: text ?? null },
      });
      setReplying(false);
      onChange();
    });
  const last = comment.replies.at(-1);
  const unsent = comment.round === null;
  return (
    <div class={`thread ${unsent ? "thread--draft" : ""}`}>
      <div class="thread__head">
        {comment.state === "resolved" ? (
          <span class="tag tag--ready">
            <Icon name="check" />
            Resolved
            {last && (
              <>
                {" "}
                by <Author name={last.author} />
              </>
            )}
          </span>
        ) : last ? (
          <span class="tag tag--needs">Answered</span>
        ) : unsent ? (
          <span class="tag">Draft, not sent</span>
        ) : (
          <span class="tag tag--running">Sent</span>
        )}
        {comment.stale && (
          <span class="tag tag--degraded" title="The lines changed since the comment was made">
            stale
          </span>
        )}
        <span class="faint">
          {comment.id}
          {comment.round !== null && ` · round ${comment.round}`} · {comment.lines.includes("-") ? "lines" : "line"}{" "}
          {comment.lines}
        </span>
        <span class="thread__acts">
          {!unsent && (
            <Button small disabled={busy} onClick={() => setReplying(!replying)}>
              Reply
            </Button>
          )}
          {comment.state === "resolved" ? (
            <Button small disabled={busy} onClick={() => void act("reopen")}>
              Reopen
            </Button>
          ) : (
            <Button small disabled={busy} onClick={() => void act("resolve")}>
              {last ? "Agree" : "Resolve"}
            </Button>
          )}
        </span>
      </div>
      {comment.stale && (
        <pre class="snippet">
          <Text value={comment.snippet} />
        </pre>
      )}
      {comment.origin === "elsewhere" ? (
        <div class="foreign">
          <p class="foreign__head">Text from elsewhere: shown to the agent as data, not as instruction</p>
          <p>
            <Words text={comment.text} />
          </p>
        </div>
      ) : (
        <p>
          <b>
            <Author name={comment.author} />
          </b>{" "}
          <span class="faint">
            {clock(comment.at)} on @{comment.turn}
          </span>
          <br />
          <Words text={comment.text} />
        </p>
      )}
      {comment.replies.map((reply, i) => (
        <p key={i}>
          <b>
            <Author name={reply.author} />
          </b>{" "}
          <span class="faint">{clock(reply.at)}</span>
          <br />
          <Words text={reply.text} />
        </p>
      ))}
      {replying && (
        <Field
          name={`reply.${workspace}.${comment.id}`}
          says={`Reply to ${comment.id}`}
          verb="Reply"
          note=""
          busy={busy}
          onClose={() => setReplying(false)}
          onGive={(text) => act("reply", text)}
        />
      )}
    </div>
  );
}

/** The person at this page is `user NAME` to the daemon. */
/** A program in a workspace has no name of its own; the agent of its runs stands for it. */
function Author({ name }: { name: string }) {
  if (name.startsWith("user ")) return <>You</>;
  const inside = /^workspace (\w+)$/.exec(name)?.[1];
  const agent = inside && runsOf.value.get(inside)?.find((run) => run.agent)?.agent;
  return <Text value={agent || name} />;
}

export function NewThread({
  workspace,
  path,
  first,
  last,
  onClose,
  onChange,
}: {
  workspace: string;
  path: string;
  first: number;
  last: number;
  onClose: () => void;
  onChange: () => void;
}) {
  const [busy, run] = useAction();
  const where = first === last ? `line ${first}` : `lines ${first}–${last}`;
  const give = (text: string) =>
    run(`Cannot comment on ${path}`, async () => {
      await api.post("/api/v1/workspaces/{id}/comments", {
        path: { id: workspace },
        body: { path, first, last, text },
      });
      onChange();
      onClose();
    });
  return (
    <div class="thread thread--draft">
      <Field
        name={`comment.${workspace}.${path}`}
        says={`Comment on ${where}`}
        verb="Keep draft"
        note={`Draft on ${where}, not sent yet`}
        busy={busy}
        onClose={onClose}
        onGive={give}
      />
    </div>
  );
}

function Field({
  name,
  says,
  verb,
  note,
  busy,
  onClose,
  onGive,
}: {
  name: string;
  says: string;
  verb: string;
  note: string;
  busy: boolean;
  onClose: () => void;
  /** True when the text has arrived; until then it stays. */
  onGive: (text: string) => Promise<boolean>;
}) {
  const [text, setText] = useDraft(name);
  const field = useRef<HTMLTextAreaElement>(null);
  useEffect(() => field.current!.focus({ preventScroll: true }), []);
  const give = async () => {
    if (text.trim() && (await onGive(text))) setText("");
  };
  return (
    <div class="thread__reply">
      <textarea
        ref={field}
        rows={2}
        aria-label={says}
        placeholder={says}
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
            event.preventDefault();
            void give();
          }
          if (event.key === "Escape") {
            event.stopPropagation();
            onClose();
          }
        }}
      />
      <div class="thread__foot">
        <span class="faint">{note}</span>
        <Button
          small
          kind="quiet"
          onClick={() => {
            setText("");
            onClose();
          }}
        >
          Discard
        </Button>
        <Button small cap="Ctrl ⏎" busy={busy} disabled={!text.trim()} onClick={() => void give()}>
          {verb}
        </Button>
      </div>
    </div>
  );
}
