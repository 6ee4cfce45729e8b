// The open items of the inbox, most urgent group first, without those that this browser snoozed.
import { computed } from "@preact/signals";
import type { InboxItem } from "../api/types";
import { INBOX_GROUPS, lookOf } from "../state/attention";
import { minute, snoozed } from "../state/look";
import { inbox } from "../state/store";

const sorted = computed(() =>
  (inbox.value ?? []).toSorted(
    (a, b) => INBOX_GROUPS.indexOf(lookOf(a.reason).group) - INBOX_GROUPS.indexOf(lookOf(b.reason).group),
  ),
);
const sleeps = (item: InboxItem) => (snoozed.value[item.id] ?? 0) > minute.value;

export const openItems = computed(() => sorted.value.filter((item) => !sleeps(item)));
export const snoozedItems = computed(() => sorted.value.filter(sleeps));

const HOUR = 3_600_000;
export function snooze(id: string): void {
  snoozed.value = { ...snoozed.value, [id]: Date.now() + HOUR };
}
export function wake(id: string): void {
  const { [id]: _, ...rest } = snoozed.value;
  snoozed.value = rest;
}
