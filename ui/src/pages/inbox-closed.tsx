// Items that closed: what they were, when their cause was gone, and the way to their workspace.
import { lines } from "../api/client";
import type { HolmEvent, InboxItem } from "../api/types";
import { clock } from "../lib/format";
import { Cap, Icon, Text } from "../parts/basic";
import { useEvents, useLoad } from "../parts/hooks";
import { LineToAdd } from "../parts/lines-to-copy";
import { Sheet } from "../parts/overlay";
import { lookOf } from "../state/attention";
import { paths } from "../state/route";
import { byId } from "../state/store";

export interface ClosedItem extends InboxItem {
  closed: string;
}

/** Each closed item with the text that it had when it opened, the newest first; one that opened again is not closed. */
export function closedOf(events: HolmEvent[]): ClosedItem[] {
  const open = new Map<string, HolmEvent>();
  const closed = new Map<string, ClosedItem>();
  for (const event of events) {
    const id = String(event.id);
    if (event.type === "inbox.opened") {
      open.set(id, event);
      closed.delete(id);
    } else if (event.type === "inbox.closed") {
      const { time, ...last } = event;
      // The event of a closed item has no text, and no label once its workspace is gone.
      const known = Object.fromEntries(Object.entries(last).filter(([, value]) => value !== null));
      const item = { text: "", label: event.workspace, project: "", since: time, ...open.get(id), ...known, closed: time };
      closed.delete(id);
      closed.set(id, item as unknown as ClosedItem);
    }
  }
  return [...closed.values()].reverse();
}

/** How many of them closed on the day of `now`. */
export const closedToday = (items: ClosedItem[], now: number): number =>
  items.filter((item) => new Date(item.closed).toDateString() === new Date(now).toDateString()).length;

/** Read again when an item opens or closes. */
export function useClosed(): ClosedItem[] {
  const { value, reload } = useLoad(async (signal) => {
    const found: HolmEvent[] = [];
    for await (const event of lines<HolmEvent>("get", "/api/v1/events", {
      query: { type: "inbox", after: 0, follow: false },
      signal,
    }))
      found.push(event);
    return closedOf(found);
  }, []);
  useEvents(
    null,
    (type) => type.startsWith("inbox."),
    () => void reload(),
  );
  return value ?? [];
}

export function Closed({ item }: { item: ClosedItem }) {
  const look = lookOf(item.reason);
  return (
    <header class="ask">
      <p class="ask__meta">
        <span class="tag">
          <Icon name={look.icon} />
          {look.title}
        </span>
        <span class="mono">
          <Text value={`${item.project}/${item.label}`} />
        </span>
        <span class="faint">
          {clock(item.since)}, closed {clock(item.closed)}
        </span>
      </p>
      <h2 class="ask__title">
        <Text value={item.text} />
      </h2>
      <div class="ask__acts">
        {byId.value.has(item.workspace) ? (
          <a class="btn btn--small" href={paths.workspace(item.workspace)}>
            Open workspace
            <Cap keys="o" />
          </a>
        ) : (
          <span class="faint">The workspace was removed.</span>
        )}
      </div>
    </header>
  );
}

/** Muting is a setting of the user, which the page does not write. */
export const MuteSheet = ({ reason, onClose }: { reason: string; onClose: () => void }) => (
  <Sheet title={`Mute ${reason}`} onClose={onClose}>
    <p class="dim">holm sends no notification about muted items. They stay in the inbox.</p>
    <LineToAdd file="config.toml" table="notify" line={`mute = ["${reason}"]`} what="mute this kind" />
    <p class="f__hint">
      If <code>mute</code> is there already, add the word to its list. The page writes nothing.
    </p>
  </Sheet>
);
