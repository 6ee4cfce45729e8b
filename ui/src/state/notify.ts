// Desktop notifications of new items, while the tab is not in sight and the person switched them on.
import type { HolmEvent } from "../api/types";
import { visible } from "../lib/odd";
import { notify } from "./look";
import { go } from "./route";
import { listeners } from "./store";

export function notifyOfItems(): void {
  listeners.add((event: HolmEvent) => {
    if (event.type !== "inbox.opened" || !notify.value || document.visibilityState === "visible") return;
    const says = (name: string) => visible(String(event[name] ?? ""));
    const note = new Notification(`${says("project")}/${says("label")}: ${says("reason")}`, {
      body: says("text"),
      tag: String(event.cursor),
    });
    note.onclick = () => {
      window.focus();
      go("/inbox");
    };
  });
}
