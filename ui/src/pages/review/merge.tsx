// The merge preview: what an apply or a merge of this tree would change in the person's checkout, and why one would be refused.
import { useEffect, useState } from "preact/hooks";
import { api, Fault } from "../../api/client";
import type { Effect, Review, Workspace } from "../../api/types";
import { plural, short } from "../../lib/format";
import { Button, Glyph, Note, Pm, Text, Words } from "../../parts/basic";
import { useAction, useDraft, useEvents, useLoad } from "../../parts/hooks";
import { CopyLine } from "../../parts/lines-to-copy";
import { homely, nameOf, projects } from "../../state/store";
import { toast } from "../../state/toast";

export interface Taking {
  effect: Effect | null;
  fault: Fault | Error | null;
  busy: boolean;
  /** Why a merge cannot begin; empty: it can. */
  noMerge: string;
  consent: boolean;
  setConsent: (yes: boolean) => void;
  message: string;
  setMessage: (text: string) => void;
  reload: () => Promise<void>;
  apply: () => void;
  merge: () => void;
}

/** The path of a project's checkout. */
export function checkoutOf(workspace: Workspace): string {
  return homely(projects.value.find((one) => one.name === workspace.project)?.path ?? "the checkout");
}

/** Asks the daemon for the effect, and again when the workspace changed or the person comes back from an editor. */
export function useTaking(workspace: Workspace): Taking {
  const path = { id: workspace.id };
  const { value: effect, fault, reload } = useLoad((signal) => api.get("/api/v1/workspaces/{id}/apply", { path, signal }), [path.id]);
  const [busy, run] = useAction();
  // The paths that the person agreed to; other paths need another consent.
  const [agreed, setAgreed] = useState<string | null>(null);
  const flagged = effect?.flagged.map((one) => one.path).join("\n") ?? "";
  const consent = agreed === flagged;
  const setConsent = (yes: boolean) => setAgreed(yes ? flagged : null);
  const [message, setMessage] = useDraft(`merge.${path.id}`);
  useEvents(
    path.id,
    (type) => type.startsWith("turn."),
    () => void reload(),
  );
  useEffect(() => {
    const back = () => void reload();
    addEventListener("focus", back);
    return () => removeEventListener("focus", back);
  }, [reload]);
  const place = checkoutOf(workspace);
  const apply = () =>
    void run("Cannot apply", async () => {
      const made = await api.post("/api/v1/workspaces/{id}/apply", { path, body: { approved: true, yes: consent } });
      await reload();
      if (!made.changed) toast(`${place} has everything already`);
      else
        toast(`Applied ${plural(made.changed, "file")} to ${place}, uncommitted`, async () => {
          const { undone } = await api.delete("/api/v1/workspaces/{id}/apply", { path });
          toast(`${plural(undone, "file")} in ${place} as before the apply`);
          await reload();
        });
    });
  const merge = () =>
    void run("Cannot merge", async () => {
      const commit = effect?.uncommitted ? message : null;
      const made = await api.post("/api/v1/workspaces/{id}/merge", { path, body: { approved: true, yes: consent, commit } });
      setMessage("");
      await reload();
      const into = effect?.into ?? "HEAD";
      toast(made.merged ? `Merged ${made.branch} into ${into} of ${place}` : `${into} has all of ${made.branch} already`);
    });
  const noMerge = effect?.edited.length
    ? "the checkout has uncommitted edits"
    : effect?.uncommitted && !message.trim()
      ? "files inside need a commit message"
      : "";
  return { effect, fault, busy, noMerge, consent, setConsent, message, setMessage, reload, apply, merge };
}

export function MergePreview({ workspace, review, taking }: { workspace: Workspace; review: Review; taking: Taking }) {
  const { effect, fault } = taking;
  return (
    <div class="mp scroll" tabIndex={0} aria-label="Merge preview">
      <h2 class="mp__into">
        Into <code class="mono">{checkoutOf(workspace)}</code>
        {effect && (
          <span class="dim">
            {effect.into ? "on " : "detached"}
            <span class="mono">
              <Text value={effect.into ?? ""} />
            </span>
          </span>
        )}
        <Button small kind="quiet" onClick={() => void taking.reload()}>
          Look again
        </Button>
      </h2>
      {fault && (
        <Note state="failed" title="It would be refused; nothing was changed">
          <p>
            <Text value={fault.message} />
          </p>
          <p class="note__hint">
            <Words text={(fault as Fault).hint ?? ""} />
          </p>
        </Note>
      )}
      {!effect && !fault && <p class="dim">Merging beside the checkout, which stays as it is …</p>}
      {effect && !fault && <Fits review={review} effect={effect} taking={taking} />}
      <Commands workspace={workspace} />
    </div>
  );
}

const Fits = ({ review, effect, taking }: { review: Review; effect: Effect; taking: Taking }) => (
  <>
    {effect.tree !== review.tree && (
      <Note state="needs" title={`The workspace has another tree by now, ${short(effect.tree)}`}>
        <p>What follows is about that one. An approval of this page's tree does not cover it.</p>
      </Note>
    )}
    <p class="mp__say">
      <Glyph state="ready" says="fits" />
      {effect.changed ? (
        <span>
          <b>{plural(effect.changed, "file")}</b> would change <Pm added={effect.added} removed={effect.removed} />
        </span>
      ) : (
        <span>The checkout has everything already.</span>
      )}
    </p>
    <Paths title="Files" paths={review.files.map((file) => file.path)} />
    {effect.flagged.length > 0 && (
      <Note state="needs" title="Tools run these by themselves">
        <ul class="mp__list">
          {effect.flagged.map((one) => (
            <li key={one.path}>
              <span class="mono">
                <Text value={one.path} />
              </span>{" "}
              <span class="dim">{one.why.join(", ")}</span>
            </li>
          ))}
        </ul>
        <label class="check">
          <input
            type="checkbox"
            checked={taking.consent}
            onChange={(event) => taking.setConsent(event.currentTarget.checked)}
          />
          <span>{effect.flagged.length === 1 ? "I read it; take it over" : `I read all ${effect.flagged.length}; take them over`}</span>
        </label>
      </Note>
    )}
    {effect.edited.length > 0 && (
      <>
        <Paths title="Edited in the checkout, not committed" paths={effect.edited} />
        <p class="dim">Apply leaves these as they are. A merge refuses to begin until they are committed or stashed.</p>
      </>
    )}
    {effect.uncommitted > 0 && (
      <div class="f mp__commit">
        <label class="f__label" for="merge-message">
          Message of the commit for a merge
        </label>
        <div class="field field--tall">
          <input id="merge-message" value={taking.message} onInput={(event) => taking.setMessage(event.currentTarget.value)} />
        </div>
        <p class="f__hint">
          {plural(effect.uncommitted, "file")} inside {effect.uncommitted === 1 ? "is" : "are"} in no commit. A merge commits first, with
          this message; apply needs none.
        </p>
      </div>
    )}
    {(effect.stashes > 0 || effect.aside.length > 0) && (
      <Note state="degraded" title="This stays inside">
        <p>
          <Text value={[...(effect.stashes ? [plural(effect.stashes, "stash", "stashes")] : []), ...effect.aside].join(", ")} />
        </p>
      </Note>
    )}
  </>
);

const Paths = ({ title, paths }: { title: string; paths: string[] }) =>
  paths.length === 0 ? null : (
    <details class="mp__paths" open={paths.length <= 12}>
      <summary>
        {title} <span class="faint">{paths.length}</span>
      </summary>
      <ul class="mp__list">
        {paths.slice(0, 500).map((path) => (
          <li key={path} class="mono">
            <Text value={path} />
          </li>
        ))}
      </ul>
    </details>
  );

/** The same in a terminal; the only way where the checkout is on another machine. */
const Commands = ({ workspace }: { workspace: Workspace }) => (
  <details class="mp__paths">
    <summary>In a terminal</summary>
    {["apply", "merge", "fetch"].map((verb) => (
      <CopyLine key={verb} line={`holm ${verb} ${nameOf(workspace)} --approved`} />
    ))}
  </details>
);
