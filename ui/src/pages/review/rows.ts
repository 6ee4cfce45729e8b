// Hunks become rows of a table: one column, or side by side. Pure; test/rows.test.ts has the cases.
import type { Hunk, Line } from "../../api/types";

export type DiffRow =
  | { kind: "gap"; lines: number; header: string; key: string }
  | { kind: "line"; line: Line; key: string }
  | { kind: "pair"; left: Line | null; right: Line | null; key: string };

export function rowsOf(hunks: Hunk[], layout: "split" | "unified"): DiffRow[] {
  const rows: DiffRow[] = [];
  let last = 0;
  hunks.forEach((hunk, h) => {
    const skipped = Math.max(0, hunk.new_start - 1 - last);
    if (skipped > 0 || hunk.header) rows.push({ kind: "gap", lines: skipped, header: hunk.header, key: `g${h}` });
    last = hunk.new_start + hunk.new_lines - 1;
    // A hunk with one side only takes the whole width.
    const oneSided = !hunk.lines.some((line) => line.kind === "add") || !hunk.lines.some((line) => line.kind === "delete");
    if (layout === "unified" || oneSided) hunk.lines.forEach((line, i) => rows.push({ kind: "line", line, key: `${h}.${i}` }));
    else rows.push(...pairs(hunk.lines, h));
  });
  return rows;
}

function pairs(lines: Line[], h: number): DiffRow[] {
  const rows: DiffRow[] = [];
  let left: Line[] = [];
  let right: Line[] = [];
  const flush = () => {
    for (let i = 0; i < Math.max(left.length, right.length); i += 1) {
      rows.push({ kind: "pair", left: left[i] ?? null, right: right[i] ?? null, key: `${h}.${rows.length}` });
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
      rows.push({ kind: "pair", left: line, right: line, key: `${h}.${rows.length}` });
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
