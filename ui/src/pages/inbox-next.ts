// The one next step of an item, and its command.
import type { InboxItem } from "../api/types";
import { go, paths } from "../state/route";
import { nameOf, workspaces } from "../state/store";

export function nextStep(item: InboxItem): void {
  switch (item.reason) {
    case "question":
    case "stalled":
      document.getElementById("reply")?.focus();
      break;
    case "refused":
    case "limit":
      document.querySelector<HTMLElement>(".inbox__item .cmdline button")?.focus();
      break;
    case "conflict":
      go(paths.compare([item.workspace, ...others(item)].slice(0, 4)));
      break;
    default:
      go(paths.review(item.workspace));
  }
}

/** Siblings that the item's text names, else the live ones of its project. */
export function others(item: InboxItem): string[] {
  const siblings = workspaces.value.filter((one) => one.project === item.project && one.id !== item.workspace);
  const named = siblings.filter((one) => item.text.includes(one.label));
  return (named.length ? named : siblings).map((one) => one.id);
}

export function commandFor(item: InboxItem): string {
  if (item.next) return item.next;
  const name = nameOf(item);
  switch (item.reason) {
    case "question":
    case "stalled":
      return `holm session attach ${name}`;
    case "refused":
      return `holm egress ${name}`;
    case "limit":
      return `holm show ${name}`;
    case "conflict":
      return `holm compare ${name}`;
    case "comment":
      return `holm comments ${name}`;
    default:
      return `holm review ${name}`;
  }
}
