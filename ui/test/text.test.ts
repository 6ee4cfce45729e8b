import assert from "node:assert/strict";
import { test } from "node:test";
import { find, matches, parseFilter } from "../src/lib/find";
import { age, bytes, bytesOf, count, duration, left, minus, shellWord } from "../src/lib/format";
import { pieces, visible } from "../src/lib/odd";
import { plain, styled } from "../src/lib/sgr";

test("characters that act are boxed, others stay", () => {
  assert.equal(visible("feature/\u202eniam"), "feature/[U+202E]niam");
  assert.equal(visible("pass\u200bword"), "pass[U+200B]word");
  assert.equal(visible("\x1b]0;title\x07"), "[ESC]]0;title[BEL]");
  assert.equal(visible("a\rb"), "a[CR]b");
  assert.equal(visible("tag \u{e0041}"), "tag [U+E0041]");
  assert.equal(visible("lone \ud800 half"), "lone [U+D800] half");
  assert.equal(visible("Grüße, 日本, 🙂, עברית"), "Grüße, 日本, 🙂, עברית");
  assert.deepEqual(pieces(""), []);
});

test("SGR colours, and nothing else, is obeyed", () => {
  assert.deepEqual(styled("\x1b[31mred\x1b[0m end"), [
    { text: "red", classes: "a-red" },
    { text: " end", classes: "" },
  ]);
  assert.deepEqual(styled("\x1b[1;38;5;2mx"), [{ text: "x", classes: "a-green a-bold" }]);
  assert.deepEqual(styled("\x1b[38;2;1;2;3mx"), [{ text: "x", classes: "" }]);
  const hostile = "\x1b[2J\x1b]52;c;aGk=\x07\x1b[31mx";
  assert.equal(styled(hostile)[0]!.text, "\x1b[2J\x1b]52;c;aGk=\x07");
  assert.equal(plain("\x1b[31mred\x1b[0m"), "red");
});

test("numbers, sizes and times are written as the design does", () => {
  assert.equal(bytes(612 * 2 ** 20), "612 MiB");
  assert.equal(bytes(1.4 * 2 ** 30), "1.4 GiB");
  assert.equal(bytes(1023.9 * 2 ** 20), "1.0 GiB");
  assert.equal(bytes(12), "12 B");
  assert.equal(bytesOf(11.2 * 2 ** 30, 16 * 2 ** 30), "11.2 of 16 GiB");
  assert.equal(bytesOf(604 * 2 ** 20, 4 * 2 ** 30), "604 MiB of 4 GiB");
  assert.equal(count(9999), "9999");
  assert.equal(count(1234567), "1\u202f234\u202f567");
  assert.equal(minus(11), "\u221211");
  assert.equal(left("2026-11-18T00:00:59Z", Date.parse("2026-11-18T00:00:00Z")), "less than a minute left");
  assert.equal(left("2026-11-18T02:30:00Z", Date.parse("2026-11-18T00:00:00Z")), "2 h left");
  assert.equal(duration(31), "31 ms");
  assert.equal(duration(1800), "1.8 s");
  assert.equal(duration(252_000), "4 min 12 s");
  assert.equal(age(0, 59_000), "now");
  assert.equal(age(0, 3 * 60_000), "3 min");
  assert.equal(age(0, 50 * 3_600_000), "2 d");
  assert.equal(shellWord("it's"), "'it'\\''s'");
});

test("filters take words, refusals and fields", () => {
  const filter = parseFilter("agent:codex login -test");
  assert.equal(filter.fields.get("agent"), "codex");
  assert.ok(matches(filter, "Fix LOGIN"));
  assert.ok(!matches(filter, "login test"));
  assert.deepEqual(find("re", "Review")!.marks, [0, 1]);
  assert.ok(find("re", "Review")!.score > find("re", "cart-race")!.score);
  assert.equal(find("xyz", "Review"), null);
});
