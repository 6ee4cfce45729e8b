// One table of keys. A page names the scopes that it uses; test/keys.test.ts refuses two meanings of one key on a page.
import { signal } from "@preact/signals";
import { useLayoutEffect, useRef } from "preact/hooks";

export type Scope = "everywhere" | "list" | "inbox" | "workspaces" | "review" | "workspace" | "compare" | "data";
export interface Key {
  id: string;
  keys: string;
  scope: Scope;
  says: string;
}

const key = (scope: Scope, keys: string, id: string, says: string): Key => ({ id, keys, scope, says });

/** `Ctrl K` is one stroke, `g i` are two; a capital letter is typed with Shift. */
export const KEYS: Key[] = [
  key("everywhere", "Ctrl K", "find", "find or do anything"),
  key("everywhere", "g i", "go.inbox", "inbox"),
  key("everywhere", "g w", "go.workspaces", "workspaces"),
  key("everywhere", "g d", "go.data", "data"),
  key("everywhere", "g s", "go.settings", "settings"),
  key("everywhere", "n", "new", "new workspace"),
  key("everywhere", "y", "copy", "copy the command of what is selected"),
  key("everywhere", "u", "undo", "undo the last action"),
  key("everywhere", "/", "filter", "filter"),
  key("everywhere", "?", "help", "all keys"),
  key("everywhere", "Esc", "close", "close, or leave the field"),
  key("list", "j", "list.next", "next"),
  key("list", "k", "list.previous", "previous"),
  key("list", "⏎", "list.act", "the next step of this row"),
  key("list", "o", "list.open", "open the workspace"),
  key("list", "r", "list.review", "review"),
  key("list", "s", "list.stop", "stop or start"),
  key("list", "h", "list.take", "take the canonical ports"),
  key("list", "w", "list.switch", "switch to it: its ports and its page"),
  key("workspaces", "x", "list.mark", "mark several"),
  key("workspaces", "c", "list.compare", "compare the marked ones"),
  key("inbox", "z", "inbox.snooze", "snooze for an hour"),
  key("inbox", "m", "inbox.mute", "mute this kind"),
  key("inbox", "i", "inbox.answer", "write an answer"),
  key("inbox", "t", "inbox.attach", "attach to the session"),
  key("review", "j", "review.change", "next change"),
  key("review", "k", "review.change.back", "previous change"),
  key("review", "↓", "review.line", "next line"),
  key("review", "↑", "review.line.back", "previous line"),
  key("review", "Shift ↓", "review.more", "one line more in the range"),
  key("review", "Shift ↑", "review.less", "one line less in the range"),
  key("review", "J", "review.file", "next file"),
  key("review", "K", "review.file.back", "previous file"),
  key("review", "c", "review.comment", "comment on the line or range"),
  key("review", "v", "review.viewed", "viewed, then next file"),
  key("review", "⏎", "review.fold", "fold or unfold the file"),
  key("review", "z", "review.unfold", "show the unchanged lines of the file"),
  key("review", "e", "review.evidence", "evidence"),
  key("review", "t", "review.checks", "run checks"),
  key("review", "d", "review.layout", "side by side or one column"),
  key("review", "Shift ⏎", "review.send", "send the round"),
  key("review", "a", "review.approve", "approve, then apply"),
  key("review", "m", "review.merge", "merge preview, then merge"),
  key("review", "l", "review.looked", "looked: the next review begins here"),
  key("review", "o", "review.workspace", "open the workspace"),
  key("review", "[", "review.previous", "previous in the inbox"),
  key("review", "]", "review.next", "next in the inbox"),
  key("workspace", "1 … 9", "workspace.session", "session"),
  key("workspace", "t", "workspace.take", "take the terminal"),
  key("workspace", "Ctrl \\", "workspace.give", "leave the terminal"),
  key("workspace", "l", "workspace.logs", "logs"),
  key("workspace", "r", "workspace.review", "review"),
  key("workspace", "o", "workspace.open", "open the preview"),
  key("workspace", "h", "workspace.ports", "take the canonical ports"),
  key("workspace", "f", "workspace.fork", "fork"),
  key("workspace", "p", "workspace.snapshot", "snapshot"),
  key("workspace", "s", "workspace.stop", "stop or start"),
  key("workspace", "R", "workspace.restart", "restart services"),
  key("workspace", "F2", "workspace.rename", "rename"),
  key("workspace", "[", "workspace.previous", "previous workspace"),
  key("workspace", "]", "workspace.next", "next workspace"),
  key("data", "j", "data.next", "next workspace"),
  key("data", "k", "data.previous", "previous workspace"),
  key("data", "⏎", "data.open", "open the workspace"),
  key("data", "p", "data.snapshot", "snapshot"),
  key("data", "f", "data.fork", "fork"),
  key("compare", "1 … 9", "compare.choose", "choose"),
  key("compare", "j", "compare.row", "next file"),
  key("compare", "k", "compare.row.back", "previous file"),
  key("compare", "⏎", "compare.open", "open the file in the review"),
  key("compare", "m", "compare.ask", "ask all a follow-up"),
  key("compare", "r", "compare.review", "review"),
  key("compare", "a", "compare.take", "take this one"),
];

/** Which scopes act together. */
export const PAGES: Record<string, Scope[]> = {
  inbox: ["everywhere", "list", "inbox"],
  workspaces: ["everywhere", "list", "workspaces"],
  review: ["everywhere", "review"],
  workspace: ["everywhere", "workspace"],
  compare: ["everywhere", "compare"],
  data: ["everywhere", "data"],
  new: ["everywhere"],
  settings: ["everywhere"],
};

export const keyOf = (id: string): string => KEYS.find((one) => one.id === id)?.keys ?? "";

/** The command and the keys that the line at the bottom shows. */
export const command = signal("holm ls");
export const hints = signal<[string, string][]>([]);

type Handler = (stroke: string) => void;
const mounted: { current: Record<string, Handler> }[] = [];

/** Actions of a component while it is on the page. The component that came last wins, so a dialog closes before its page. */
export function useKeys(actions: Record<string, Handler>): void {
  const mine = useRef(actions);
  mine.current = actions;
  // Before the component is painted: a key that is pressed as soon as it is seen is its own.
  useLayoutEffect(() => {
    mounted.push(mine);
    return () => {
      mounted.splice(mounted.indexOf(mine), 1);
    };
  }, []);
}

export function act(id: string, stroke = ""): boolean {
  const run = mounted.findLast((one) => one.current[id])?.current[id];
  run?.(stroke);
  return Boolean(run);
}

let first = "";
let firstAt = 0;

export function listenToKeys(): void {
  addEventListener("keydown", (event) => {
    const stroke = strokeOf(event);
    if (!stroke) return;
    const typing = isField(event.target);
    if (typing && stroke !== "Esc" && stroke !== "Ctrl K" && stroke !== "Ctrl \\") return;
    // Enter on a focused button or link is its own.
    if (stroke === "⏎" && (event.target as Element).closest?.("a, button, summary")) return;
    const inDialog = Boolean(document.querySelector('[aria-modal="true"]'));
    if (inDialog && stroke !== "Esc" && stroke !== "Ctrl K") return;
    const now = Date.now();
    const chord = first && now - firstAt < 1500 ? `${first} ${stroke}` : "";
    first = "";
    for (const wanted of chord ? [chord, stroke] : [stroke]) {
      const found = KEYS.filter((one) => one.keys === wanted || (one.keys === "1 … 9" && /^[1-9]$/.test(wanted)));
      // The last in the table is the most special one.
      if (found.reverse().some((one) => act(one.id, stroke))) {
        event.preventDefault();
        return;
      }
    }
    if (KEYS.some((one) => one.keys.startsWith(`${stroke} `))) {
      first = stroke;
      firstAt = now;
    }
  });
}

const NAMED: Record<string, string> = { Enter: "⏎", Escape: "Esc", ArrowDown: "↓", ArrowUp: "↑" };

export function strokeOf(event: KeyboardEvent): string {
  if (event.altKey || event.isComposing || ["Shift", "Control", "Meta", "Alt"].includes(event.key)) return "";
  const name = NAMED[event.key] ?? event.key;
  if (event.ctrlKey || event.metaKey) return `Ctrl ${name.length === 1 ? name.toUpperCase() : name}`;
  return (event.shiftKey && name.length > 1) || (event.shiftKey && NAMED[event.key]) ? `Shift ${name}` : name;
}

export function isField(target: EventTarget | null): boolean {
  const element = target as HTMLElement | null;
  return Boolean(element?.closest?.("input:not([type=checkbox]), textarea, select, [contenteditable]"));
}
