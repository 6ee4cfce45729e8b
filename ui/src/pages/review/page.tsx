// The review of a workspace: risks and evidence, then the difference file by file, comments, checks, approval.
import { useEffect, useRef, useState } from "preact/hooks";
import type { Comment, Review, Risk, Workspace } from "../../api/types";
import { Kbd, Note, Text, Words } from "../../parts/basic";
import { command, hints, useKeys } from "../../state/keys";
import { diffLayout } from "../../state/look";
import { go, paths } from "../../state/route";
import { byId, nameOf } from "../../state/store";
import { ApprovalBar } from "./approve";
import { useReview, type ReviewData } from "./data";
import { FileOf, type Open } from "./file";
import type { Range } from "./lines";
import { checkoutOf, MergePreview, useTaking } from "./merge";
import { linesOf } from "./rows";
import { EvidenceSheet, Strips } from "./strips";
import { Rounds, Tree } from "./tree";
import { Bar, NoTurn, Changed } from "./bar";

export function ReviewPage({ id, since, file }: { id: string; since: string | null; file: string | null }) {
  // The preview is about the whole difference.
  const data = useReview(id, since === "merge" ? "base" : (since ?? "look"));
  const workspace = byId.value.get(id);
  const title = workspace ? nameOf(workspace) : id;
  useEffect(() => {
    document.title = `Review ${title} · holm`;
  }, [title]);
  return (
    <>
      <Bar id={id} since={since ?? "look"} data={data} />
      {data.fault ? (
        <div class="empty">
          <Note state="failed" title={`Cannot review ${title}`}>
            <p>
              <Text value={data.fault.message} />
            </p>
            <p class="note__hint">
              <Words text={(data.fault as { hint?: string }).hint ?? ""} />
            </p>
          </Note>
        </div>
      ) : data.review && data.review.to === null ? (
        <NoTurn data={data} id={id} />
      ) : (
        data.review &&
        (since === "merge" && workspace ? (
          <Preview workspace={workspace} data={data} review={data.review} />
        ) : (
          <Loaded id={id} data={data} review={data.review} file={file} />
        ))
      )}
    </>
  );
}

function Preview({ workspace, data, review }: { workspace: Workspace; data: ReviewData; review: Review }) {
  const taking = useTaking(workspace);
  const [evidence, setEvidence] = useState(false);
  const checks = data.checks ?? [];
  const showEvidence = () => setEvidence(true);
  useEffect(() => {
    command.value = `holm apply ${nameOf(workspace)} --dry-run`;
    hints.value = [
      ["review.approve", "apply"],
      ["review.merge", "merge"],
      ["review.evidence", "evidence"],
    ];
  }, [workspace.id]);
  useKeys({ "review.evidence": showEvidence, "review.workspace": () => go(paths.workspace(workspace.id)) });
  return (
    <>
      <Strips workspace={workspace.id} review={review} checks={checks} onRisk={showEvidence} onEvidence={showEvidence} />
      {review.changed_since && <Changed id={workspace.id} data={data} />}
      <MergePreview workspace={workspace} review={review} taking={taking} />
      <ApprovalBar
        id={workspace.id}
        data={data}
        review={review}
        place={checkoutOf(workspace)}
        taking={taking}
        onPreview={() => void taking.reload()}
      />
      {evidence && <EvidenceSheet review={review} checks={checks} onClose={() => setEvidence(false)} />}
    </>
  );
}

const AUTO_OPEN = 400;

function Loaded({ id, data, review, file }: { id: string; data: ReviewData; review: Review; file: string | null }) {
  const { comments, checks } = data;
  const workspace = byId.value.get(id);
  const root = useRef<HTMLDivElement>(null);
  const open = useRef(new Map<string, Open>());
  const [folds, setFolds] = useState<Record<string, boolean>>({});
  const [current, setCurrent] = useState<string | null>(review.files[0]?.path ?? null);
  const [range, setRange] = useState<(Range & { anchor: number }) | null>(null);
  const [writing, setWriting] = useState(false);
  const [sheet, setSheet] = useState<"evidence" | null>(null);
  const drafts = comments.filter((one) => one.round === null);
  const isOpen = (path: string) => folds[path] ?? opensByItself(review, path);
  useEffect(() => {
    command.value = workspace
      ? drafts.length
        ? `holm comments send ${nameOf(workspace)}`
        : `holm review ${nameOf(workspace)}`
      : "holm review";
    hints.value = [
      ["review.change review.change.back", "change"],
      ["review.line review.line.back", "line"],
      ["review.file review.file.back", "file"],
      ["review.comment", "comment"],
      ["review.viewed", "viewed"],
      ["review.evidence", "evidence"],
      ["review.approve", "approve"],
    ];
  }, [workspace?.id, drafts.length]);

  const show = (path: string, line?: number) => {
    setCurrent(path);
    setFolds((before) => ({ ...before, [path]: true }));
    setRange(line ? { first: line, last: line, anchor: line } : null);
    setWriting(false);
    scrollTo(path, line);
  };
  useEffect(() => {
    if (file && review.files.some((one) => one.path === file)) show(file);
  }, [file]);
  const viewed = async (path: string, thenNext: boolean) => {
    await data.look({ paths: [path], turn: review.to });
    setFolds((before) => ({ ...before, [path]: false }));
    if (thenNext) moveFile(1, path);
  };
  const moveFile = (by: number, from = current) => {
    const order = orderOf(review);
    const next = order[order.indexOf(from ?? "") + by];
    if (next) {
      setCurrent(next);
      setRange(null);
      scrollTo(next);
    }
  };
  const moveTo = (list: (one: Open) => number[], by: 1 | -1) => {
    const at = current ? open.current.get(current) : undefined;
    if (!at) {
      if (current) show(current);
      return;
    }
    const now = range ? (by > 0 ? range.last : range.first) : by > 0 ? 0 : Infinity;
    const next = by > 0 ? list(at).find((line) => line > now) : list(at).findLast((line) => line < now);
    if (next !== undefined) {
      setRange({ first: next, last: next, anchor: next });
      scrollTo(current!, next);
    } else moveFile(by);
  };
  const grow = (by: 1 | -1) => {
    if (!range) {
      moveTo((one) => one.lines, by);
      return;
    }
    const lines = open.current.get(current!)?.lines ?? [];
    const edge = range.anchor === range.first ? range.last : range.first;
    const next = lines[lines.indexOf(edge) + by];
    if (next !== undefined)
      setRange({ anchor: range.anchor, first: Math.min(range.anchor, next), last: Math.max(range.anchor, next) });
  };
  const pick = (path: string, line: number, extend: boolean) => {
    setCurrent(path);
    if (extend && range && path === current)
      setRange({ anchor: range.anchor, first: Math.min(range.anchor, line), last: Math.max(range.anchor, line) });
    else {
      setRange({ first: line, last: line, anchor: line });
      setWriting(!extend);
    }
  };
  useKeys({
    "review.change": () => moveTo((one) => one.changes, 1),
    "review.change.back": () => moveTo((one) => one.changes, -1),
    "review.line": () => moveTo((one) => one.lines, 1),
    "review.line.back": () => moveTo((one) => one.lines, -1),
    "review.more": () => grow(1),
    "review.less": () => grow(-1),
    "review.file": () => moveFile(1),
    "review.file.back": () => moveFile(-1),
    "review.evidence": () => setSheet("evidence"),
    "review.layout": () => {
      diffLayout.value = diffLayout.value === "split" ? "unified" : "split";
    },
    "review.workspace": () => go(paths.workspace(id)),
    "review.comment": () => (range ? setWriting(true) : moveTo((one) => one.changes, 1)),
    ...(current
      ? {
          "review.viewed": () => void viewed(current, true),
          "review.fold": () => setFolds({ ...folds, [current]: !isOpen(current) }),
        }
      : {}),
  });
  const span = { from: review.from === null ? null : `@${review.from}`, to: `@${review.to}` };
  return (
    <>
      <Strips
        workspace={id}
        review={review}
        checks={checks ?? []}
        onRisk={(risk: Risk) => (risk.path ? show(risk.path) : setSheet("evidence"))}
        onEvidence={() => setSheet("evidence")}
      />
      {review.changed_since && <Changed id={id} data={data} />}
      <div class="rv">
        <aside class="rv__side scroll" tabIndex={0} aria-label="Files and rounds">
          <Tree
            files={review.files}
            comments={comments}
            current={current}
            onOpen={show}
            onViewed={(path) => void viewed(path, false)}
          />
          <div class="rv__head rv__head--line">
            <h2>Rounds</h2>
          </div>
          <Rounds comments={comments} next={data.nextRound} onOpen={(one: Comment) => show(one.path, linesOf(one.lines).last)} />
        </aside>
        <div class="rv__diff scroll" ref={root} tabIndex={0} aria-label="Difference">
          {review.files.length === 0 && (
            <p class="empty">
              Nothing changed since you looked. <Kbd keys="]" /> goes to the next one.
            </p>
          )}
          {orderOf(review)
            .map((path) => review.files.find((file) => file.path === path)!)
            .map((file) => (
              <FileOf
                key={file.path}
                workspace={id}
                file={file}
                span={span}
                comments={comments.filter((one) => one.path === file.path)}
                root={root}
                open={isOpen(file.path)}
                current={file.path === current}
                range={file.path === current ? range : null}
                writing={writing && file.path === current}
                onFold={() => setFolds({ ...folds, [file.path]: !isOpen(file.path) })}
                onViewed={() => void viewed(file.path, false)}
                onPick={(line, extend) => pick(file.path, line, extend)}
                onWritten={() => setWriting(false)}
                onChange={() => void data.reloadComments()}
                onOpened={(path, lines) => {
                  if (lines) open.current.set(path, lines);
                  else open.current.delete(path);
                }}
              />
            ))}
        </div>
      </div>
      <ApprovalBar
        id={id}
        data={data}
        review={review}
        place={workspace ? checkoutOf(workspace) : "your checkout"}
        taking={null}
        onPreview={() => go(`${paths.review(id)}?since=merge`)}
      />
      {sheet === "evidence" && <EvidenceSheet review={review} checks={checks ?? []} onClose={() => setSheet(null)} />}
    </>
  );
}

/** Risky files first, then by directory, as the tree has them. */
function orderOf(review: Review): string[] {
  const dir = (path: string) => path.slice(0, Math.max(0, path.lastIndexOf("/")));
  const calm = review.files.filter((file) => !file.risks.length);
  const dirs = [...new Set(calm.map((file) => dir(file.path)))];
  return [
    ...review.files.filter((file) => file.risks.length),
    ...dirs.flatMap((name) => calm.filter((file) => dir(file.path) === name)),
  ].map((file) => file.path);
}

function opensByItself(review: Review, path: string): boolean {
  const file = review.files.find((one) => one.path === path)!;
  return !file.viewed && !file.risks.includes("lock") && file.added !== null && file.added + (file.removed ?? 0) <= AUTO_OPEN;
}

function scrollTo(path: string, line?: number): void {
  requestAnimationFrame(() => {
    const target = (line && document.getElementById(`L-${path}-${line}`)) || document.getElementById(`file-${path}`);
    target?.scrollIntoView({ block: line ? "nearest" : "start" });
  });
}
