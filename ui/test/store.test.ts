import assert from "node:assert/strict";
import { test } from "node:test";
import type { Disk, HolmEvent, InboxItem, Run, Session, Workspace } from "../src/api/types";
import { closedOf, closedToday, type ClosedItem } from "../src/pages/inbox-closed";
import { choicesOf } from "../src/pages/inbox-reasons";
import { grid } from "../src/pages/data-grid";
import { joined } from "../src/parts/run-output";
import { hostsOf } from "../src/pages/workspace/egress";
import { timeOf } from "../src/pages/workspace/logs";
import { windowOf } from "../src/parts/virtual";
import { preview, standing } from "../src/state/attention";
import { parse } from "../src/state/route";

const workspace = (more: Partial<Workspace> = {}): Workspace =>
  ({
    id: "w1",
    label: "fix-login",
    project: "shop",
    state: "running",
    reason: null,
    ref: "main",
    commit: "4e1f0c2",
    services: [],
    ports: [],
    volumes: [],
    layers: [],
    last_used_at: "2026-11-18T00:00:00Z",
    isolation: { degraded: [] },
    limits: {},
    ...more,
  }) as unknown as Workspace;
const now = Date.parse("2026-11-18T01:00:00Z");

test("an unknown address is a page of its own, never an error", () => {
  assert.deepEqual(parse("/", ""), { page: "inbox", item: null });
  assert.deepEqual(parse("/w/w1/review", "?since=%402"), { page: "review", id: "w1", since: "@2", file: null });
  assert.deepEqual(parse("/compare", "?w=a&w=b"), { page: "compare", ids: ["a", "b"] });
  assert.equal(parse("/settings/nothing", "").page, "missing");
  assert.equal(parse("/w/%E0%A4%A", "").page, "workspace");
  assert.equal(parse("/w/a/b/c", "").page, "missing");
});

test("who waits for whom", () => {
  const item = { reason: "question", text: "Before or after?", since: "2026-11-18T00:50:00Z" } as InboxItem;
  assert.equal(standing(workspace(), item, [], [], now).group, "Needs you");
  assert.equal(standing(workspace(), { ...item, reason: "ready" }, [], [], now).group, "Ready to read");
  assert.equal(standing(workspace({ state: "stopped" }), undefined, [], [], now).group, "Stopped");
  assert.equal(standing(workspace(), undefined, [], [], now).group, "Idle");
  const run = {
    state: "running",
    command: ["make"],
    message: "Fix it\nplease",
    agent: "claude",
    created_at: "2026-11-18T00:59:00Z",
  } as Run;
  assert.deepEqual(
    [standing(workspace(), undefined, [run], [], now).group, standing(workspace(), undefined, [run], [], now).what],
    ["Working", "Fix it"],
  );
  const quiet = { state: "running", agent: "codex", last_output_at: "2026-11-18T00:10:00Z" } as Session;
  assert.equal(standing(workspace(), undefined, [], [quiet], now).group, "Idle");
  assert.equal(standing(workspace(), { ...item, reason: "later" as never }, [], [], now).group, "Needs you");
});

test("the preview is the web port, or the first that a browser can open", () => {
  const port = (name: string, url: string | null) => ({ name, url, port: 1, host_port: 2 });
  assert.equal(preview(workspace({ ports: [port("api", "http://a"), port("web", "http://w")] as never })), "http://w");
  assert.equal(preview(workspace({ ports: [port("db", "postgres://d")] as never })), null);
});

test("only rows near the screen are drawn, and the rest keeps its room", () => {
  const part = windowOf(
    Array.from({ length: 500 }, () => 36),
    9000,
    900,
  );
  assert.ok(part.last - part.first < 60);
  assert.equal(part.before + part.after + (part.last - part.first + 1) * 36, 500 * 36);
});

test("numbered choices at the end of a screen become quick answers", () => {
  assert.deepEqual(
    choicesOf("Which?\n  1. After: reduced\n  2. Before: gross\n> ").map((one) => one.label),
    ["After", "Before"],
  );
  assert.deepEqual(choicesOf("done 3. things"), []);
});

test("slabs span the workspaces that share them", () => {
  const disk = {
    bases: [{ commit: "a", bytes: 5, used_by: 2 }],
    layers: [{ key: "npm-0123456789abcdef", bytes: 7, used_by: 2 }],
    workspaces: [],
  } as unknown as Disk;
  const two = [
    workspace({ id: "w1", commit: "a", layers: ["npm-0123456789abcdef"] }),
    // A snapshot names the layer of its workspace again.
    workspace({ id: "w2", commit: "a", layers: ["npm-0123456789abcdef", "npm-0123456789abcdef"] }),
    workspace({ id: "w3", commit: "b" }),
  ];
  const [project] = grid(two, disk, "shared", []);
  assert.deepEqual(
    project!.rows.map((row) => row.slabs.map((slab) => slab && `${slab.kind}${slab.span}`)),
    [
      ["base2", "layer2", "none2"],
      [null, null, null],
      ["base1", "none1", "none1"],
    ],
  );
});

test("egress is one row per address, refused first", () => {
  const hosts = hostsOf([
    { kind: "connect", name: "a.test", port: 443, time: "2", count: 2, bytes_in: 1, bytes_out: 2 },
    { kind: "refuse", name: "b.test", port: 443, time: "1", reason: "not in the list" },
    { kind: "connect", name: "a.test", port: 443, time: "3" },
  ] as never);
  assert.deepEqual(
    hosts.map((host) => [host.name, host.refused, host.times]),
    [
      ["b.test:443", true, 1],
      ["a.test:443", false, 3],
    ],
  );
});

test("output continues its last line", () => {
  assert.deepEqual(joined(["a"], "b\nc"), ["ab", "c"]);
});

test("a closed item has the text that it opened with, and one that opened again is not closed", () => {
  const event = (type: string, id: string, more = {}): HolmEvent => ({
    cursor: 1,
    time: `2026-11-18T00:00:0${id}Z`,
    type,
    workspace: "w1",
    id,
    ...more,
  });
  const opened = { label: "fix-login", project: "shop", reason: "question", text: "Which?" };
  const gone = { label: null, project: null, reason: "question" };
  const found = closedOf([
    event("inbox.opened", "1", opened),
    event("inbox.opened", "2", opened),
    event("inbox.closed", "1", gone),
    event("inbox.closed", "2", gone),
    event("inbox.opened", "2", opened),
    event("inbox.closed", "3", gone),
  ]);
  assert.deepEqual(
    found.map((one) => [one.id, one.label, one.text, one.closed]),
    [
      ["3", "w1", "", "2026-11-18T00:00:03Z"],
      ["1", "fix-login", "Which?", "2026-11-18T00:00:01Z"],
    ],
  );
});

test("a time in the filter of logs is a place, of yesterday if today's is still to come", () => {
  const now = new Date(2026, 10, 18, 14, 20);
  const at = (text: string) => timeOf(text, now)?.toString();
  assert.equal(at("14:18"), new Date(2026, 10, 18, 14, 18).toString());
  assert.equal(at("14:18:05"), new Date(2026, 10, 18, 14, 18, 5).toString());
  assert.equal(at("23:00"), new Date(2026, 10, 17, 23, 0).toString());
  assert.deepEqual(["14", "-debug", "at 14:18"].map(at), [undefined, undefined, undefined]);
});

test("only items of this day count as closed today", () => {
  const closed = ["2026-11-18T09:00:00", "2026-11-18T00:01:00", "2026-11-17T23:59:00"].map((closed) => ({ closed }));
  assert.equal(closedToday(closed as ClosedItem[], new Date(2026, 10, 18, 10).getTime()), 2);
});
