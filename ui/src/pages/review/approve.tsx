// The bar at the end of a review. Its filled button is what the facts suggest; an approval names the tree on the screen.
import { api, Fault, request } from "../../api/client";
import type { Review } from "../../api/types";
import { plural, short } from "../../lib/format";
import { Button, Text, Words } from "../../parts/basic";
import { useAction } from "../../parts/hooks";
import { Menu, Sheet } from "../../parts/overlay";
import { copy } from "../../state/actions";
import { useKeys } from "../../state/keys";
import { byId, nameOf } from "../../state/store";
import { toast } from "../../state/toast";
import type { ReviewData } from "./data";
import { checkState } from "./strips";

export function ApprovalBar({
  id,
  data,
  review,
  onApproved,
}: {
  id: string;
  data: ReviewData;
  review: Review;
  onApproved: () => void;
}) {
  const [busy, run] = useAction();
  const { comments, checks, approval } = data;
  const drafts = comments.filter((one) => one.round === null).length;
  const answered = comments.filter((one) => one.state === "open" && one.replies.length).length;
  const viewed = review.files.filter((file) => file.viewed).length;
  const approved = approval?.tree != null && approval.tree === review.tree;
  const running = checks?.some((one) => checkState(one) === "running") ?? false;
  const workspace = byId.value.get(id);
  const root = workspace?.root ?? "your checkout";

  const approve = () =>
    void run("Cannot approve", async () => {
      try {
        await api.post("/api/v1/workspaces/{id}/approve", { path: { id }, body: { tree: review.tree } });
      } catch (cause) {
        if (cause instanceof Fault && cause.status === 409) await data.reload();
        throw cause;
      }
      await data.reload();
      onApproved();
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
  useKeys({
    "review.approve": approved ? onApproved : approve,
    ...(drafts ? { "review.send": send } : {}),
    ...(checks?.length ? { "review.checks": check } : {}),
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
          Apply puts {plural(review.files.length, "file")} into <Text value={root} />, uncommitted.
        </span>
      </p>
      <div class="approve__acts">
        {checks && checks.length > 0 && (
          <Button cap="t" busy={busy || running} onClick={check}>
            Run checks
          </Button>
        )}
        <span class="btn-pair">
          <Button
            cap="a"
            kind={primary === "approve" ? "primary" : undefined}
            disabled={busy}
            onClick={approved ? onApproved : approve}
          >
            {approved ? "Apply…" : "Approve"}
          </Button>
          <Menu
            says="Other ways"
            icon="down"
            choices={[
              { label: `Looked at @${review.to}: begin the next review here`, icon: "eye", run: looked },
              ...(workspace
                ? [
                    {
                      label: "Copy the command that merges it",
                      icon: "copy",
                      run: () => void copy(`holm merge ${nameOf(workspace)} --approved`),
                    },
                  ]
                : []),
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

/** What can be done with an approved tree; your checkout is yours, so your terminal changes it. */
export function ApprovedSheet({ name, root, tree, onClose }: { name: string; root: string; tree: string; onClose: () => void }) {
  const ways = [
    {
      what: "Put the files into your checkout, uncommitted",
      command: `holm apply ${name} --approved`,
      note: "Refuses when a file that it would touch is dirty. `holm apply --undo` takes it back.",
    },
    {
      what: "Merge its commits into your branch",
      command: `holm merge ${name} --approved`,
      note: "Nothing changes when there are conflicts.",
    },
    {
      what: "Fetch its branch only",
      command: `holm fetch ${name} --approved`,
      note: "Your working tree stays as it is.",
    },
  ];
  return (
    <Sheet
      title={
        <>
          Approved <span class="mono">{tree}</span>
        </>
      }
      onClose={onClose}
    >
      <p class="dim">
        One more edit inside voids the approval. Type one of these in{" "}
        <span class="mono">
          <Text value={root} />
        </span>
        :
      </p>
      {ways.map((way) => (
        <section key={way.command} class="f">
          <h2 class="f__label">{way.what}</h2>
          <div class="cmdline">
            <code>
              <Text value={way.command} />
            </code>
            <Button small icon="copy" onClick={() => void copy(way.command)}>
              Copy
            </Button>
          </div>
          <p class="f__hint">
            <Words text={way.note} />
          </p>
        </section>
      ))}
      <p class="f__hint">
        <code>--approved</code> takes exactly this tree, or refuses.
      </p>
    </Sheet>
  );
}
