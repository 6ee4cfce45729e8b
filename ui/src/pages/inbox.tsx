// The inbox: what needs me, why, and one key to act. The answer is given where the question is shown.
import { useEffect, useState } from "preact/hooks";
import type { InboxItem } from "../api/types";
import { count } from "../lib/format";
import { Age, Button, Icon, Seg, Text } from "../parts/basic";
import { startOrStop, switchTo, takePorts } from "../state/actions";
import { INBOX_GROUPS, lookOf } from "../state/attention";
import { command, hints, useKeys } from "../state/keys";
import { minute, notify, phone } from "../state/look";
import { go, paths } from "../state/route";
import { byId, inbox, loaded, nameOf, runs, sessions, workspaces } from "../state/store";
import { toast } from "../state/toast";
import { FirstRun } from "./first";
import { Closed, closedToday, MuteSheet, useClosed, type ClosedItem } from "./inbox-closed";
import { Item, QuestionText, sessionOf } from "./inbox-item";
import { openItems, snooze, snoozedItems, wake } from "./inbox-items";
import { commandFor, nextStep } from "./inbox-next";

const MOST_CLOSED = 100;

type Shown = "open" | "snoozed" | "closed";

export function InboxPage({ wanted }: { wanted: string | null }) {
  const [shown, setShown] = useState<Shown>("open");
  const [muting, setMuting] = useState<string | null>(null);
  const closed = useClosed();
  const items: InboxItem[] =
    shown === "open" ? openItems.value : shown === "snoozed" ? snoozedItems.value : closed.slice(0, MOST_CLOSED);
  const selected = items.find((item) => item.id === wanted) ?? (phone.value && !wanted ? undefined : items[0]);
  const past = closed.find((item) => item === selected);
  const today = closedToday(closed, minute.value);
  const working = new Set([...runs.value.filter((one) => one.state === "running").map((one) => one.workspace)]).size;
  useEffect(() => {
    command.value = past ? `holm show ${nameOf(past)}` : selected ? commandFor(selected) : "holm inbox";
    hints.value = [
      ["list.next list.previous", "move"],
      ["list.act", "act"],
      ["list.review", "review"],
      ["list.open", "open"],
      ["inbox.snooze", "snooze"],
      ["inbox.mute", "mute kind"],
    ];
    const { length } = openItems.value;
    document.title = `${length ? `(${length}) ` : ""}Inbox · holm`;
  }, [selected?.id, past?.id, openItems.value.length]);
  const move = (by: number) => {
    const at = items.findIndex((item) => item.id === selected?.id);
    const next = items[Math.max(0, Math.min(items.length - 1, at + by))];
    if (next) {
      go(`/inbox/${next.id}`, "replace");
      document.getElementById(`mail-${next.id}`)?.scrollIntoView({ block: "nearest" });
    }
  };
  const workspace = selected && byId.value.get(selected.workspace);
  useKeys({
    "list.next": () => move(1),
    "list.previous": () => move(-1),
    ...(selected
      ? {
          "list.open": () => go(paths.workspace(selected.workspace)),
          "list.review": () => go(paths.review(selected.workspace)),
          "inbox.mute": () => setMuting(selected.reason),
        }
      : {}),
    ...(past && workspace ? { "list.act": () => go(paths.workspace(workspace.id)) } : {}),
    ...(selected && !past
      ? {
          "list.act": () => nextStep(selected),
          "inbox.snooze": () => sleep(selected),
          "inbox.attach": () => go(paths.workspace(selected.workspace)),
          "inbox.answer": () => document.getElementById("reply")?.focus(),
        }
      : {}),
    ...(workspace
      ? {
          "list.stop": () => void startOrStop(workspace),
          "list.take": () => void takePorts(workspace),
          "list.switch": () => void switchTo(workspace),
        }
      : {}),
  });
  if (!loaded.value) return <Bar shown={shown} onShow={setShown} note="" />;
  const first = workspaces.value.length === 0;
  return (
    <>
      <Bar
        shown={shown}
        onShow={setShown}
        note={
          <>
            {openItems.value.length ? `${openItems.value.length} need you` : "nothing needs you"}
            {working > 0 && (
              <span class="hide-phone">
                {" "}
                · {working} {working === 1 ? "is" : "are"} working
              </span>
            )}
          </>
        }
      />
      {first ? (
        <FirstRun />
      ) : (
        <div class="inbox">
          <section class="inbox__list scroll" tabIndex={0} aria-label="Items, most urgent first">
            {shown === "closed" ? (
              <Group name="Closed" items={items} selected={selected?.id} />
            ) : (
              INBOX_GROUPS.map((group) => (
                <Group
                  key={group}
                  name={group}
                  items={items.filter((item) => lookOf(item.reason).group === group)}
                  selected={selected?.id}
                />
              ))
            )}
            {inbox.value === null ? (
              <p class="inbox__end">
                This daemon has no inbox.{" "}
                <a class="link" href="/workspaces">
                  All workspaces
                </a>
              </p>
            ) : (
              <p class="inbox__end">
                {items.length === 0 && NOTHING[shown]}
                Items close by themselves when their cause is gone.
                {today > 0 && ` ${count(today)} closed today.`}
                {sessions.value.some((one) => one.state === "running") && items.length === 0
                  ? " Agents are at work; what they ask appears here."
                  : ""}
              </p>
            )}
          </section>
          {selected ? (
            <article class={`inbox__item scroll ${wanted ? "is-open" : ""}`} tabIndex={0} aria-label="Selected item">
              <a class="back" href="/inbox">
                <Icon name="right" />
                Inbox
              </a>
              {past ? (
                <Closed item={past} />
              ) : (
                <Item
                  key={selected.id}
                  item={selected}
                  onSnooze={() => sleep(selected)}
                  onMute={() => setMuting(selected.reason)}
                />
              )}
            </article>
          ) : (
            <div />
          )}
        </div>
      )}
      {muting && <MuteSheet reason={muting} onClose={() => setMuting(null)} />}
    </>
  );
}

const NOTHING: Record<Shown, string> = {
  open: "Nothing needs you. ",
  snoozed: "Nothing is snoozed. ",
  closed: "Nothing was closed. ",
};

function sleep(item: InboxItem): void {
  snooze(item.id);
  toast(`Snoozed ${item.label} for an hour`, async () => wake(item.id));
}

function Bar({
  shown,
  onShow,
  note,
}: {
  shown: Shown;
  onShow: (next: Shown) => void;
  note: preact.ComponentChildren;
}) {
  return (
    <header class="bar">
      <h1 class="bar__title">Inbox</h1>
      <span class="bar__note">{note}</span>
      <div class="bar__end">
        {"Notification" in globalThis && (
          <Button kind="quiet" icon="bell" class="hide-phone" aria-pressed={notify.value} onClick={() => void toggleNotify()}>
            Notify: {notify.value ? "desktop" : "off"}
          </Button>
        )}
        <Seg
          says="Which items"
          value={shown}
          onPick={onShow}
          options={[
            {
              value: "open",
              label: (
                <>
                  Open <span class="faint">{openItems.value.length}</span>
                </>
              ),
            },
            {
              value: "snoozed",
              label: (
                <>
                  Snoozed <span class="faint">{snoozedItems.value.length}</span>
                </>
              ),
            },
            { value: "closed", label: "Closed", hide: "hide-phone" },
          ]}
        />
      </div>
    </header>
  );
}

async function toggleNotify(): Promise<void> {
  notify.value = !notify.value && (await Notification.requestPermission()) === "granted";
}

function Group({ name, items, selected }: { name: string; items: InboxItem[]; selected: string | undefined }) {
  if (items.length === 0) return null;
  return (
    <>
      <h2 class="mail__group">
        {name}
        <span>{items.length}</span>
      </h2>
      <ul>
        {items.map((item) => (
          <Mail key={item.id} item={item} selected={item.id === selected} />
        ))}
      </ul>
    </>
  );
}

function Mail({ item, selected }: { item: InboxItem | ClosedItem; selected: boolean }) {
  const look = lookOf(item.reason);
  const closed = "closed" in item ? item.closed : null;
  const session = item.reason === "question" && !closed ? sessionOf(item) : undefined;
  return (
    <li>
      <a
        class={`mail ${selected ? "is-selected" : ""}`}
        id={`mail-${item.id}`}
        href={`/inbox/${encodeURIComponent(item.id)}`}
        aria-current={selected ? "true" : undefined}
      >
        <span class={`mail__mark is-${look.tone}`}>
          <Icon name={look.icon} />
        </span>
        <span class="mail__who">
          <span class="mono mail__label">
            <Text value={item.label} />
          </span>
          <span class="faint">
            <Text value={item.project} />
          </span>
        </span>
        <Age className="mail__age" time={closed ?? item.since} />
        <span class="mail__text">
          <span class={`is-${look.tone}`}>{item.reason}</span>{" "}
          {session ? <QuestionText item={item} session={session} /> : <Text value={item.text} />}
        </span>
        <span class="mail__act">
          {closed ? "Open" : look.verb}
          <kbd>⏎</kbd>
        </span>
      </a>
    </li>
  );
}
