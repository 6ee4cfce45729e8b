// Hunks become rows of a table: one column, or side by side. Pure; test/rows.test.ts has the cases.
import type { Hunk, Line } from "../../api/types";

export type DiffRow =
  | { kind: "gap"; at: number; lines: number | null; header: string; key: string }
  | { kind: "line"; line: Line; key: string }
  | { kind: "pair"; left: Line | null; right: Line | null; key: string };

/** The unchanged lines of a file by their number, and the gaps that show them. A gap is named by the hunk below it. */
export interface Unfolded {
  lines: Map<number, Line>;
  gaps: Set<number>;
}

/** git lists this many unchanged lines after a change, unless the file ends. */
const CONTEXT = 3;

export function rowsOf(hunks: Hunk[], layout: "split" | "unified", unfolded?: Unfolded): DiffRow[] {
  const rows: DiffRow[] = [];
  let last = 0;
  const hidden = (h: number, until: number, header: string) => {
    if (unfolded?.gaps.has(h)) {
      for (let line = unfolded.lines.get(last + 1); line && last < until; line = unfolded.lines.get(last + 1)) {
        rows.push(layout === "unified" ? { kind: "line", line, key: `u${last}` } : pair(line, line, `u${last}`));
        last += 1;
      }
    }
    const left = Math.max(0, until - last);
    if (left > 0) rows.push({ kind: "gap", at: h, lines: left === Infinity ? null : left, header, key: `g${h}` });
    else if (header && !unfolded?.gaps.has(h)) rows.push({ kind: "gap", at: h, lines: 0, header, key: `g${h}` });
  };
  hunks.forEach((hunk, h) => {
    hidden(h, hunk.new_start - 1, hunk.header);
    last = hunk.new_start + hunk.new_lines - 1;
    // A hunk with one side only takes the whole width.
    const oneSided = !hunk.lines.some((line) => line.kind === "add") || !hunk.lines.some((line) => line.kind === "delete");
    if (layout === "unified" || oneSided) hunk.lines.forEach((line, i) => rows.push({ kind: "line", line, key: `${h}.${i}` }));
    else rows.push(...pairs(hunk.lines, h));
  });
  const end = hunks.at(-1)?.lines.slice(-CONTEXT) ?? [];
  if (end.length === CONTEXT && end.every((line) => line.kind === "context" && !line.unended))
    hidden(hunks.length, unfolded ? ([...unfolded.lines.keys()].at(-1) ?? 0) : Infinity, "");
  return rows;
}

const pair = (left: Line | null, right: Line | null, key: string): DiffRow => ({ kind: "pair", left, right, key });

function pairs(lines: Line[], h: number): DiffRow[] {
  const rows: DiffRow[] = [];
  let left: Line[] = [];
  let right: Line[] = [];
  const flush = () => {
    for (let i = 0; i < Math.max(left.length, right.length); i += 1) {
      rows.push(pair(left[i] ?? null, right[i] ?? null, `${h}.${rows.length}`));
    }
    left = [];
    right = [];
  };
  for (const line of lines) {
    if (line.kind === "delete") {
      if (right.length) flush();
      left.push(line);
    } else if (line.kind === "add") right.push(line);
    else {
      flush();
      rows.push(pair(line, line, `${h}.${rows.length}`));
    }
  }
  flush();
  return rows;
}

/** The line of a row that a comment can name: comments belong to lines of the new side. */
export const newLine = (row: DiffRow): number | null =>
  row.kind === "line" ? row.line.new : row.kind === "pair" ? (row.right?.new ?? null) : null;

const isChange = (row: DiffRow): boolean =>
  row.kind === "line"
    ? row.line.kind !== "context"
    : row.kind === "pair" && (row.left?.kind === "delete" || row.right?.kind === "add");

/** The first commentable line of each run of changed rows, for j and k. */
export function changeStarts(rows: DiffRow[]): number[] {
  const starts: number[] = [];
  rows.forEach((row, i) => {
    if (!isChange(row) || (i > 0 && isChange(rows[i - 1]!))) return;
    for (let at = i; at < rows.length; at += 1) {
      const line = newLine(rows[at]!);
      if (line !== null) {
        starts.push(line);
        return;
      }
    }
  });
  return starts;
}

/** `12` or `12-14`, as comments carry them. */
export function linesOf(text: string): { first: number; last: number } {
  const [first, last] = text.split(/[-–]/).map(Number);
  return { first: first ?? 0, last: last || first || 0 };
}

export type Tone = "word" | "text" | "number" | "comment" | "";
/** [length, tone] in order. */
export type Tones = [number, Tone][];
export interface Segment {
  text: string;
  tone: Tone;
  mark: boolean;
}

/** Cuts a line where its colour or its word mark changes. A marked word has no colour, for contrast. */
export function segments(text: string, tones: Tones | undefined, marked: [number, number] | undefined): Segment[] {
  const cuts = new Set([0, text.length]);
  let at = 0;
  const colours: { from: number; to: number; tone: Tone }[] = [];
  for (const [length, tone] of tones ?? []) {
    colours.push({ from: at, to: at + length, tone });
    at += length;
    cuts.add(Math.min(at, text.length));
  }
  for (const edge of marked ?? []) cuts.add(Math.min(edge, text.length));
  const edges = [...cuts].sort((a, b) => a - b);
  return edges.slice(0, -1).map((from, i) => {
    const mark = marked !== undefined && from >= marked[0] && from < marked[1];
    const tone = mark ? "" : (colours.find((one) => from >= one.from && from < one.to)?.tone ?? "");
    return { text: text.slice(from, edges[i + 1]), tone, mark };
  });
}
