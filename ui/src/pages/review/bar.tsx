// What stands above a review: which difference, which layout, and what is missing for one.
import { api } from "../../api/client";
import { Button, Icon, Seg, Text } from "../../parts/basic";
import { ProjectCrumb } from "../../parts/table";
import { useAction } from "../../parts/hooks";
import { useKeys } from "../../state/keys";
import { diffLayout } from "../../state/look";
import { go, paths } from "../../state/route";
import { byId } from "../../state/store";
import { toast } from "../../state/toast";
import { openItems } from "../inbox-items";
import type { ReviewData } from "./data";

export function Bar({ id, since, data }: { id: string; since: string; data: ReviewData }) {
  const workspace = byId.value.get(id);
  const last = data.turns.at(-1)?.n ?? 0;
  const start = workspace?.ref ?? "base";
  const pick = (value: string) =>
    go(value === "look" ? paths.review(id) : `${paths.review(id)}?since=${encodeURIComponent(value)}`, "replace");
  const looked = data.lookedFrom;
  const toRead = openItems.value.filter(
    (item) => item.reason === "ready" || item.reason === "comment" || item.reason === "failed",
  );
  const at = toRead.findIndex((item) => item.workspace === id);
  const step = (by: number) => {
    const next = toRead[(at + by + toRead.length) % toRead.length];
    if (next) go(paths.review(next.workspace));
  };
  useKeys({ "review.previous": () => step(-1), "review.next": () => step(1) });
  return (
    <header class="bar">
      <div class="crumb">
        {workspace && <ProjectCrumb name={workspace.project} />}
        <a class="dim mono" href={paths.workspace(id)}>
          <Text value={workspace?.label ?? id} />
        </a>
        <Icon name="right" />
        <h1 class="bar__title">Review</h1>
      </div>
      {last > 0 && (
        <Seg
          says="Which difference"
          value={since}
          onPick={pick}
          options={[
            {
              value: "look",
              label: (
                <>
                  Since you looked{" "}
                  <span class="faint mono">
                    {looked === null ? start : `@${looked}`}→@{last}
                  </span>
                </>
              ),
            },
            ...(last > 1 ? [{ value: `@${last - 1}`, label: "This turn" }] : []),
            {
              value: "base",
              label: (
                <>
                  Whole{" "}
                  <span class="faint mono">
                    <Text value={start} />
                    →@{last}
                  </span>
                </>
              ),
            },
            { value: "merge", label: "Merge preview" },
          ]}
        />
      )}
      <div class="bar__end">
        <Seg
          says="Layout"
          className="seg--icons hide-phone"
          value={diffLayout.value}
          onPick={(value) => {
            diffLayout.value = value;
          }}
          options={[
            {
              value: "split",
              label: (
                <>
                  <Icon name="split" />
                  <span class="vh">Side by side</span>
                </>
              ),
            },
            {
              value: "unified",
              label: (
                <>
                  <Icon name="unified" />
                  <span class="vh">One column</span>
                </>
              ),
            },
          ]}
        />
        {toRead.length > 1 && (
          <>
            <Button kind="quiet" title="Previous in the inbox" onClick={() => step(-1)}>
              <kbd>[</kbd>
            </Button>
            <span class="faint nowrap">{at < 0 ? `${toRead.length} to read` : `${at + 1} of ${toRead.length} to read`}</span>
            <Button kind="quiet" title="Next in the inbox" onClick={() => step(1)}>
              <kbd>]</kbd>
            </Button>
          </>
        )}
      </div>
    </header>
  );
}

export function NoTurn({ id, data }: { id: string; data: ReviewData }) {
  const [busy, run] = useAction();
  const record = () =>
    void run("Cannot record a turn", async () => {
      const { recorded } = await api.post("/api/v1/workspaces/{id}/turns", { path: { id } });
      if (!recorded) toast("Nothing changed yet");
      await data.reload();
    });
  return (
    <div class="empty">
      <p>No turn is recorded yet. holm records one when a run ends, when a session goes quiet, and at a stop.</p>
      <p class="reply">
        <Button kind="primary" busy={busy} onClick={record}>
          Record this moment
        </Button>
      </p>
    </div>
  );
}

/** The workspace went on after the turn that is shown. */
export function Changed({ id, data }: { id: string; data: ReviewData }) {
  const [busy, run] = useAction();
  const record = () =>
    void run("Cannot record a turn", async () => {
      await api.post("/api/v1/workspaces/{id}/turns", { path: { id } });
      await data.reload();
    });
  return (
    <div class="banner banner--needs">
      <span>The workspace changed after this turn. An approval here would be refused.</span>
      <Button small busy={busy} onClick={record}>
        Record this moment
      </Button>
    </div>
  );
}
