import assert from "node:assert/strict";
import { test } from "node:test";
import type { Hunk, Line } from "../src/api/types";
import { opening } from "../src/pages/review/highlight";
import { changeStarts, linesOf, newLine, rowsOf, segments } from "../src/pages/review/rows";

const line = (kind: Line["kind"], old: number | null, now: number | null, text = "x"): Line => ({
  kind,
  old,
  new: now,
  text,
});
const hunk = (lines: Line[], start = 1): Hunk => ({
  old_start: start,
  old_lines: lines.filter((one) => one.kind !== "add").length,
  new_start: start,
  new_lines: lines.filter((one) => one.kind !== "delete").length,
  header: "",
  lines,
});
const both = hunk([
  line("context", 1, 1),
  line("delete", 2, null),
  line("delete", 3, null),
  line("add", null, 2),
  line("context", 4, 3),
]);

test("side by side pairs removed with added lines", () => {
  const rows = rowsOf([both], "split");
  assert.deepEqual(
    rows.map((row) => (row.kind === "pair" ? [row.left?.old ?? null, row.right?.new ?? null] : row.kind)),
    [
      [1, 1],
      [2, 2],
      [3, null],
      [4, 3],
    ],
  );
});

test("a hunk with one side only takes the whole width", () => {
  const rows = rowsOf([hunk([line("context", 1, 1), line("add", null, 2)])], "split");
  assert.deepEqual(
    rows.map((row) => row.kind),
    ["line", "line"],
  );
});

test("one column keeps the order, and gaps say how many lines they skip", () => {
  const rows = rowsOf([hunk([line("add", null, 5)], 5)], "unified");
  assert.deepEqual(
    rows.map((row) => (row.kind === "gap" ? row.lines : newLine(row))),
    [4, 5],
  );
});

test("unfolded gaps show the lines of the file, and the end of a file has no gap", () => {
  const context = (n: number) => line("context", n, n);
  const hunks = [hunk([line("add", null, 3), context(4), context(5), context(6)], 3)];
  const show = (unfolded?: Parameters<typeof rowsOf>[2]) =>
    rowsOf(hunks, "unified", unfolded).map((row) => (row.kind === "gap" ? `gap ${row.lines}` : newLine(row)));
  assert.deepEqual(show(), ["gap 2", 3, 4, 5, 6, "gap null"]);
  const lines = new Map([1, 2, 4, 5, 6, 7].map((n) => [n, context(n)]));
  assert.deepEqual(show({ lines, gaps: new Set([0]) }), [1, 2, 3, 4, 5, 6, "gap 1"]);
  assert.deepEqual(show({ lines, gaps: new Set([0, 1]) }), [1, 2, 3, 4, 5, 6, 7]);
  lines.delete(7);
  assert.deepEqual(show({ lines, gaps: new Set() }), ["gap 2", 3, 4, 5, 6]);
});

test("changes begin at the first line that can be commented", () => {
  assert.deepEqual(changeStarts(rowsOf([both], "split")), [2]);
  assert.deepEqual(changeStarts(rowsOf([both], "unified")), [2]);
});

test("a marked word has no colour, and nothing is lost", () => {
  const parts = segments(
    "const a = 'b';",
    [
      [5, "word"],
      [5, ""],
      [3, "text"],
      [1, ""],
    ],
    [6, 13],
  );
  assert.equal(parts.map((part) => part.text).join(""), "const a = 'b';");
  assert.deepEqual(
    parts.filter((part) => part.mark).map((part) => part.tone),
    ["", ""],
  );
  assert.deepEqual(parts[0], { text: "const", tone: "word", mark: false });
  assert.deepEqual(segments("", undefined, undefined), []);
});

test("lines of a comment are one or a range", () => {
  assert.deepEqual(linesOf("12"), { first: 12, last: 12 });
  assert.deepEqual(linesOf("12-14"), { first: 12, last: 14 });
});

test("a hunk that begins inside of a comment or a long string is coloured right", () => {
  assert.equal(opening("python", 'end\n"""\nimport os'), '"""');
  assert.equal(opening("typescript", "end */\nlet a"), "/*");
  assert.equal(opening("typescript", "/* a */ let b"), "");
  assert.equal(opening("typescript", "</script>`;\nconst a = 1;", "const page = `<script>"), "`");
  assert.equal(opening("typescript", "const page = `<script>", "function draw() {"), "");
});
