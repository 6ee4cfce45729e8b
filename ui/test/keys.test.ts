import assert from "node:assert/strict";
import { test } from "node:test";
import { KEYS, PAGES, strokeOf } from "../src/state/keys";

test("no page gives two meanings to one key", () => {
  for (const [page, scopes] of Object.entries(PAGES)) {
    const seen = new Map<string, string>();
    for (const key of KEYS.filter((one) => scopes.includes(one.scope))) {
      assert.equal(seen.get(key.keys), undefined, `${page}: ${key.keys} means ${seen.get(key.keys)} and ${key.id}`);
      seen.set(key.keys, key.id);
    }
  }
});

test("no key is the first stroke of another one's chord on the same page", () => {
  for (const scopes of Object.values(PAGES)) {
    const here = KEYS.filter((one) => scopes.includes(one.scope));
    const chords = here.filter((one) => /^[a-z] [a-z]$/.test(one.keys)).map((one) => one.keys[0]);
    assert.deepEqual(
      here.filter((one) => chords.includes(one.keys)),
      [],
    );
  }
});

test("ids are unique and every scope belongs to a page", () => {
  assert.equal(new Set(KEYS.map((one) => one.id)).size, KEYS.length);
  const used = new Set(Object.values(PAGES).flat());
  assert.deepEqual(
    KEYS.filter((one) => !used.has(one.scope)),
    [],
  );
});

test("strokes are named as the table names them", () => {
  const stroke = (key: string, held: Partial<KeyboardEvent> = {}) => strokeOf({ key, ...held } as KeyboardEvent);
  assert.equal(stroke("k", { ctrlKey: true }), "Ctrl K");
  assert.equal(stroke("Enter", { shiftKey: true }), "Shift ⏎");
  assert.equal(stroke("J", { shiftKey: true }), "J");
  assert.equal(stroke("?", { shiftKey: true }), "?");
  assert.equal(stroke("x", { altKey: true }), "");
});
