// The bar at the end of a review. Its filled button is what the facts suggest; an approval names the tree on the screen.
import { api, Fault, request } from "../../api/client";
import type { Review } from "../../api/types";
import { plural, short } from "../../lib/format";
import { Button } from "../../parts/basic";
import { useAction } from "../../parts/hooks";
import { Menu } from "../../parts/overlay";
import { useKeys } from "../../state/keys";
import { toast } from "../../state/toast";
import type { ReviewData } from "./data";
import type { Taking } from "./merge";
import { checkState } from "./strips";

export function ApprovalBar({
  id,
  data,
  review,
  place,
  taking,
  onPreview,
}: {
  id: string;
  data: ReviewData;
  review: Review;
  /** The path of the checkout. */
  place: string;
  /** The merge preview, while it is on the page. */
  taking: Taking | null;
  onPreview: () => void;
}) {
  const [busy, run] = useAction();
  const { comments, checks, approval } = data;
  const drafts = comments.filter((one) => one.round === null).length;
  const answered = comments.filter((one) => one.state === "open" && one.replies.length).length;
  const viewed = review.files.filter((file) => file.viewed).length;
  const approved = approval?.tree != null && approval.tree === review.tree;
  const running = checks?.some((one) => checkState(one) === "running") ?? false;
  const effect = approved && taking && !taking.fault ? taking.effect : null;
  const mayTake = effect !== null && effect.changed > 0 && (effect.flagged.length === 0 || taking!.consent);
  const mayMerge = mayTake && !taking!.noMerge;

  const approve = () =>
    void run("Cannot approve", async () => {
      try {
        await api.post("/api/v1/workspaces/{id}/approve", { path: { id }, body: { tree: review.tree } });
      } catch (cause) {
        if (cause instanceof Fault && cause.status === 409) await data.reload();
        throw cause;
      }
      await data.reload();
      onPreview();
    });
  const send = () =>
    void run("Cannot send the round", async () => {
      const round = await api.post("/api/v1/workspaces/{id}/comments/send", { path: { id }, body: {} });
      toast(`Sent round ${round.round}: ${plural(round.ids.length, "comment")} to ${round.to}`);
      await data.reloadComments();
    });
  const check = () =>
    void run("Cannot run the checks", async () => {
      await request("post", "/api/v1/workspaces/{id}/checks", { path: { id }, body: {} });
      await data.reloadChecks();
    });
  const looked = () => void data.look({ turn: review.to });
  const next = !approved ? approve : effect ? taking!.apply : onPreview;
  useKeys({
    ...(effect && !mayTake ? {} : { "review.approve": next }),
    "review.merge": mayMerge ? taking!.merge : onPreview,
    "review.looked": looked,
    ...(drafts ? { "review.send": send } : {}),
    ...(checks ? { "review.checks": check } : {}),
  });
  const primary = drafts > 0 ? "send" : "approve";
  return (
    <footer class="approve">
      <p class="approve__state">
        <b>
          Tree <span class="mono">{short(review.tree)}</span>
        </b>
        <span>
          {viewed} of {review.files.length} viewed
        </span>
        {approved && <span class="is-ready">approved</span>}
        {answered > 0 && <span class="is-needs">{answered} answered</span>}
        {drafts > 0 && <span>{plural(drafts, "draft")}</span>}
        <span class="faint hide-1280">
          Apply puts {plural(review.files.length, "file")} into {place}, uncommitted.
        </span>
      </p>
      <div class="approve__acts">
        {/* The list has checks that ran; the daemon names what to write where a project declares none. */}
        {checks && (
          <Button cap="t" busy={busy || running} onClick={check}>
            Run checks
          </Button>
        )}
        {effect && (
          <Button cap="m" title={taking!.noMerge} disabled={!mayMerge || taking!.busy} onClick={taking!.merge}>
            Merge into {effect.into ?? "HEAD"}
          </Button>
        )}
        <span class="btn-pair">
          <Button
            cap="a"
            kind={primary === "approve" ? "primary" : undefined}
            busy={taking?.busy}
            disabled={busy || (effect !== null && !mayTake)}
            onClick={next}
          >
            {effect ? `Apply ${plural(effect.changed, "file")}` : approved ? "Apply…" : "Approve and apply…"}
          </Button>
          <Menu
            says="Other ways"
            icon="down"
            choices={[
              { label: "See what would change in the checkout", icon: "eye", note: "m", run: onPreview },
              { label: `Looked at @${review.to}: begin the next review here`, icon: "check", note: "l", run: looked },
            ]}
          />
        </span>
        {drafts > 0 && (
          <Button kind="primary" cap="Shift ⏎" busy={busy} onClick={send}>
            Send round {data.nextRound}
          </Button>
        )}
      </div>
    </footer>
  );
}
