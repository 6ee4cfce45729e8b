// One file of the review: its head, and its difference once it is opened.
import type { RefObject } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { Fault, request } from "../../api/client";
import type { Comment, Hunk, Hunks, Line, ReviewFile } from "../../api/types";
import { count, plural } from "../../lib/format";
import { Button, Cap, Icon, IconButton, Pm, Text, Words } from "../../parts/basic";
import { useAction, useLoad } from "../../parts/hooks";
import { visible } from "../../lib/odd";
import { Lazy } from "../../parts/virtual";
import { copy } from "../../state/actions";
import { useKeys } from "../../state/keys";
import { diffLayout, oneColumn } from "../../state/look";
import { colours } from "./highlight";
import { Lines, Said, type Range } from "./lines";
import { changeStarts, linesOf, newLine, rowsOf, type Tones } from "./rows";
import { NewThread, Thread } from "./thread";

/** What keys move through: the lines and the changes of a file that is open. */
export interface Open {
  lines: number[];
  changes: number[];
}

export interface FileProps {
  workspace: string;
  file: ReviewFile;
  span: { from: string | null; to: string };
  comments: Comment[];
  root: RefObject<HTMLElement | null>;
  open: boolean;
  range: Range | null;
  writing: boolean;
  current: boolean;
  onFold: () => void;
  onViewed: () => void;
  onPick: (line: number, extend: boolean) => void;
  onWritten: () => void;
  onChange: () => void;
  onOpened: (path: string, lines: Open | null) => void;
}

export function FileOf(props: FileProps) {
  const { file } = props;
  const cut = file.path.lastIndexOf("/") + 1;
  return (
    <section class={`file ${props.open ? "" : "file--folded"}`} id={`file-${file.path}`} aria-label={visible(file.path)}>
      <header class="file__head">
        <IconButton
          icon={props.open ? "down" : "right"}
          says={props.open ? "Fold" : "Unfold"}
          small
          aria-expanded={props.open}
          onClick={props.onFold}
        />
        <span class="mono file__path cut">
          <span class="faint">
            <Text value={file.path.slice(0, cut)} />
          </span>
          <Text value={file.path.slice(cut)} />
        </span>
        <Pm added={file.added} removed={file.removed} />
        {file.from && (
          <span class="tag">
            was <Text value={file.from} />
          </span>
        )}
        {file.risks.map((risk) => (
          <span key={risk} class="tag tag--needs">
            {risk}
          </span>
        ))}
        <span class="file__end">
          <Button small kind="quiet" icon="copy" title="Copy path" onClick={() => void copy(file.path)}>
            <span class="vh">Copy path</span>
          </Button>
          {file.viewed ? (
            <span class="viewed">
              <Icon name="check" />
              Viewed
            </span>
          ) : (
            <Button small onClick={props.onViewed}>
              Viewed{props.current && <Cap keys="v" />}
            </Button>
          )}
        </span>
      </header>
      {props.open && (
        <Lazy stay root={props.root} height={((file.added ?? 0) + (file.removed ?? 0) + 8) * 20}>
          {() => <Body {...props} />}
        </Lazy>
      )}
    </section>
  );
}

/** So many unchanged lines that a file is listed whole. */
const WHOLE = 100_000;

function Body({
  workspace,
  file,
  span,
  comments,
  root,
  range,
  writing,
  current,
  onPick,
  onWritten,
  onChange,
  onOpened,
}: FileProps) {
  const layout = oneColumn.value ? "unified" : diffLayout.value;
  const read = (context?: number, signal?: AbortSignal) =>
    request<Hunks>("get", "/api/v1/workspaces/{id}/hunks", {
      path: { id: workspace },
      query: { from: span.from, to: span.to, path: file.path, context },
      signal,
    });
  const { value, fault } = useLoad((signal) => read(undefined, signal), [workspace, file.path, span.from, span.to]);
  const [whole, setWhole] = useState<Hunk[]>([]);
  const [gaps, setGaps] = useState<Set<number>>(new Set());
  useEffect(() => {
    setWhole([]);
    setGaps(new Set());
  }, [value]);
  const rows = useMemo(
    () => rowsOf(value?.hunks ?? [], layout, whole.length ? { lines: unchanged(whole), gaps } : undefined),
    [value, layout, whole, gaps],
  );
  const [, run] = useAction();
  const unfold = (...more: number[]) =>
    void run(`Cannot read ${file.path}`, async () => {
      if (!whole.length) setWhole((await read(WHOLE)).hunks);
      setGaps((before) => new Set([...before, ...more]));
    });
  useKeys(current && value ? { "review.unfold": () => unfold(...value.hunks.keys(), value.hunks.length) } : {});
  const [tones, setTones] = useState<Map<Line, Tones>>(new Map());
  useEffect(() => {
    if (!value) return;
    let live = true;
    void colours(file.path, [...value.hunks, ...whole]).then((found) => {
      if (live) setTones(found);
    });
    return () => {
      live = false;
    };
  }, [value, whole]);
  useEffect(() => {
    const lines = rows.flatMap((row) => {
      const line = newLine(row);
      return line === null ? [] : [line];
    });
    onOpened(file.path, { lines, changes: changeStarts(rows) });
    return () => onOpened(file.path, null);
  }, [rows]);
  if (fault)
    return (
      <Said icon="x">
        <Text value={fault.message} /> {fault instanceof Fault && <Words text={fault.hint} />}
      </Said>
    );
  if (!value)
    return (
      <div class="file__say">
        <span class="bone bone--long" />
      </div>
    );
  const there = new Set(rows.flatMap((row) => newLine(row) ?? []));
  const placed = comments.filter((one) => !one.stale && there.has(linesOf(one.lines).last));
  const loose = comments.filter((one) => !placed.includes(one));
  const below = (line: number) => {
    const threads = placed.filter((one) => linesOf(one.lines).last === line);
    const field = writing && range?.last === line;
    if (!threads.length && !field) return null;
    return (
      <>
        {threads.map((one) => (
          <Thread key={one.id} comment={one} workspace={workspace} onChange={onChange} />
        ))}
        {field && (
          <NewThread
            workspace={workspace}
            path={file.path}
            first={range.first}
            last={range.last}
            onClose={onWritten}
            onChange={onChange}
          />
        )}
      </>
    );
  };
  return (
    <>
      {loose.map((one) => (
        <Thread key={one.id} comment={one} workspace={workspace} onChange={onChange} />
      ))}
      {value.binary && <Said icon="file">A binary file. Its content is not shown.</Said>}
      {!value.binary && rows.length === 0 && (
        <Said icon="file">
          {file.operation === "delete" ? "Deleted; it was empty." : "No line changed: the mode or the name did."}
        </Said>
      )}
      <Lines
        rows={rows}
        layout={layout}
        tones={tones}
        range={range}
        root={root}
        path={file.path}
        below={below}
        onPick={onPick}
        onUnfold={unfold}
      />
      {value.truncated && (
        <Said icon="more">
          Too long to be shown whole: {plural((file.added ?? 0) + (file.removed ?? 0), "changed line")}. <code>holm diff</code>{" "}
          has the rest ({count(rows.length)} rows are here).
        </Said>
      )}
    </>
  );
}

function unchanged(whole: Hunk[]): Map<number, Line> {
  const found = new Map<number, Line>();
  for (const line of whole.flatMap((hunk) => hunk.lines)) {
    if (line.kind === "context" && line.new !== null) found.set(line.new, line);
  }
  return found;
}
