// All workspaces, grouped by who needs me. One line each; only what is not ready is named.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Workspace } from "../api/types";
import { count } from "../lib/format";
import { visible } from "../lib/odd";
import { matches, parseFilter } from "../lib/find";
import { Button, Icon, Seg, Text } from "../parts/basic";
import { useWindow } from "../parts/virtual";
import { remove, startOrStop, switchTo, takePorts } from "../state/actions";
import { GROUPS, standing, type Standing } from "../state/attention";
import { command, hints, useKeys } from "../state/keys";
import { kept, minute, phone } from "../state/look";
import { go, paths } from "../state/route";
import { canonical, gone, inboxOf, loaded, nameOf, numbers, runsOf, sessionsOf, workspaces } from "../state/store";
import { FirstRun } from "./first";
import { openItems } from "./inbox-items";
import { Row } from "./workspaces-row";

type By = "needs" | "project" | "agent";
const groupBy = kept<By>("group", "needs");
/** What sorts the rows of a group. `needs`: the order of the inbox, then the newest. */
type Sort = "needs" | "name" | "cpu" | "memory" | "disk" | "since";
const sortBy = kept<Sort>("sort", "needs");
const folded = kept<Record<string, boolean>>("folded", {});

export interface Shown {
  one: Workspace;
  is: Standing;
}
type Entry = { group: string; n: number } | Shown;

export function WorkspacesPage({ project }: { project: string | null }) {
  const [text, setText] = useState(project ? `project:${project}` : "");
  const [selected, setSelected] = useState<string | null>(null);
  const [marked, setMarked] = useState<Set<string>>(new Set());
  useEffect(() => setText(project ? `project:${project}` : ""), [project]);
  const rows = useMemo(
    () => rowsOf(text),
    [text, workspaces.value, gone.value, inboxOf.value, runsOf.value, sessionsOf.value, minute.value],
  );
  const measured = ["cpu", "memory", "disk"].includes(sortBy.value) ? numbers.value : null;
  const entries = useMemo(() => grouped(rows, groupBy.value), [rows, groupBy.value, sortBy.value, measured, folded.value]);
  const visible = entries.filter((entry): entry is Shown => "one" in entry);
  const current = visible.find((row) => row.one.id === selected) ?? visible[0];
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    command.value = current ? `holm show ${nameOf(current.one)}` : "holm ls";
    hints.value = [
      ["list.next list.previous", "move"],
      ["list.act", "open"],
      ["list.review", "review"],
      ["list.take", "take ports"],
      ["list.stop", "stop"],
      ["list.mark", "mark"],
      ["filter", "filter"],
    ];
    document.title = "Workspaces · holm";
  }, [current?.one.id]);
  const move = (by: number) => {
    const at = visible.findIndex((row) => row.one.id === current?.one.id);
    const next = visible[Math.max(0, Math.min(visible.length - 1, at + by))];
    if (!next) return;
    setSelected(next.one.id);
    keepInView(box.current!, entries, next);
  };
  const compare = () => {
    if (marked.size > 1) go(paths.compare([...marked].slice(0, 4)));
  };
  const mark = (id: string) =>
    setMarked((before) => {
      const next = new Set(before);
      if (!next.delete(id)) next.add(id);
      return next;
    });
  useKeys(
    current
      ? {
          "list.next": () => move(1),
          "list.previous": () => move(-1),
          "list.act": () => go(paths.workspace(current.one.id)),
          "list.open": () => go(paths.workspace(current.one.id)),
          "list.review": () => go(paths.review(current.one.id)),
          "list.stop": () => void startOrStop(current.one),
          "list.take": () => void takePorts(current.one),
          "list.switch": () => void switchTo(current.one),
          "list.mark": () => {
            mark(current.one.id);
            move(1);
          },
          "list.compare": compare,
        }
      : {},
  );
  const all = workspaces.value.length;
  const many = new Set(workspaces.value.map((one) => one.project)).size;
  return (
    <>
      <header class="bar">
        <h1 class="bar__title">Workspaces</h1>
        <span class="bar__note hide-phone">
          {count(all)} in {many} {many === 1 ? "project" : "projects"}
        </span>
        <div class="bar__end">
          <label class="field o-filter">
            <Icon name="filter" />
            <span class="vh">Filter</span>
            <input
              type="text"
              data-filter
              placeholder="agent:codex project:shop"
              value={text}
              spellcheck={false}
              onInput={(event) => setText(event.currentTarget.value)}
            />
            <kbd>/</kbd>
          </label>
          <Seg
            says="Group by"
            className="hide-phone"
            value={groupBy.value}
            onPick={(by) => {
              groupBy.value = by;
            }}
            options={[
              { value: "needs", label: "Who needs me" },
              { value: "project", label: "Project" },
              { value: "agent", label: "Agent" },
            ]}
          />
        </div>
      </header>
      <Canonical />
      {marked.size > 0 && <Marked ids={marked} onCompare={compare} onClear={() => setMarked(new Set())} />}
      {loaded.value && all === 0 && gone.value.size === 0 ? (
        <FirstRun />
      ) : (
        <Table box={box} entries={entries} current={current?.one.id} marked={marked} onSelect={setSelected} />
      )}
    </>
  );
}

function Table({
  box,
  entries,
  current,
  marked,
  onSelect,
}: {
  box: { current: HTMLDivElement | null };
  entries: Entry[];
  current: string | undefined;
  marked: Set<string>;
  onSelect: (id: string) => void;
}) {
  const heights = useMemo(() => entries.map(heightOf), [entries, phone.value]);
  const part = useWindow(box, heights);
  return (
    <div class="scroll" ref={box} tabIndex={0} aria-label="Workspaces">
      <table class="t o">
        <thead>
          <tr>
            <th>
              <span class="vh">State</span>
            </th>
            <Head by="name">Workspace</Head>
            <th>What happens</th>
            <th class="o-agent">Agent</th>
            <th class="o-svc">Services</th>
            <th class="o-port">Port</th>
            <th class="o-pm num">Files, lines</th>
            <Head by="cpu" name="o-cpu">
              CPU
            </Head>
            <Head by="memory" name="o-mem num">
              Memory
            </Head>
            <Head by="disk" name="o-disk num">
              Disk
            </Head>
            <Head by="since" name="num">
              Since
            </Head>
          </tr>
        </thead>
        {part.before > 0 && (
          <tbody class="t__space" aria-hidden="true">
            <tr>
              <td colSpan={3} style={{ height: `${part.before}px` }} />
            </tr>
          </tbody>
        )}
        <tbody>
          {entries.slice(part.first, part.last + 1).map((entry) =>
            "one" in entry ? (
              <Row
                key={entry.one.id}
                {...entry}
                selected={entry.one.id === current}
                marked={marked.has(entry.one.id)}
                onSelect={() => onSelect(entry.one.id)}
              />
            ) : (
              <tr key={entry.group} class="t__group">
                <th colSpan={3} scope="rowgroup">
                  <button
                    type="button"
                    aria-expanded={!folded.value[entry.group]}
                    onClick={() => {
                      folded.value = {
                        ...folded.value,
                        [entry.group]: !folded.value[entry.group],
                      };
                    }}
                  >
                    {folded.value[entry.group] && <Icon name="right" />}
                    <Text value={entry.group} />
                    <span class="faint">{entry.n}</span>
                  </button>
                </th>
              </tr>
            ),
          )}
        </tbody>
        {part.after > 0 && (
          <tbody class="t__space" aria-hidden="true">
            <tr>
              <td colSpan={3} style={{ height: `${part.after}px` }} />
            </tr>
          </tbody>
        )}
      </table>
    </div>
  );
}

/** A heading that sorts by its column; a second click gives the order of the inbox back. */
const Head = ({ by, name, children }: { by: Sort; name?: string; children: string }) => (
  <th class={name} aria-sort={sortBy.value === by ? (by === "name" ? "ascending" : "descending") : undefined}>
    <button
      type="button"
      class="t__sort"
      title={sortBy.value === by ? "Sort by who needs me" : `Sort by ${children.toLowerCase()}`}
      onClick={() => {
        sortBy.value = sortBy.value === by ? "needs" : by;
      }}
    >
      {children}
      {sortBy.value === by && <span aria-hidden="true">{by === "name" ? " ↑" : " ↓"}</span>}
    </button>
  </th>
);

const heightOf = (entry: Entry): number => ("one" in entry ? (phone.value ? 86 : 36) : phone.value ? 41 : 36);

function keepInView(box: HTMLElement, entries: Entry[], target: Entry): void {
  let top = 28;
  for (const entry of entries) {
    if (entry === target) break;
    top += heightOf(entry);
  }
  const bottom = top + heightOf(target);
  if (top - 64 < box.scrollTop) box.scrollTop = top - 64;
  else if (bottom > box.scrollTop + box.clientHeight) box.scrollTop = bottom - box.clientHeight;
}

function rowsOf(text: string): Shown[] {
  const filter = parseFilter(text);
  const lost = [...gone.value.values()].filter((one) => !workspaces.value.some((other) => other.id === one.id));
  return [...workspaces.value, ...lost].flatMap((one) => {
    const is = standing(
      one,
      inboxOf.value.get(one.id),
      runsOf.value.get(one.id) ?? [],
      sessionsOf.value.get(one.id) ?? [],
      minute.value,
    );
    const has = (field: string, value: string | null) => {
      const wanted = filter.fields.get(field);
      return !wanted || Boolean(value?.toLowerCase().startsWith(wanted));
    };
    const fits =
      has("project", one.project) &&
      has("agent", is.agent) &&
      has("state", one.state) &&
      has("reason", is.reason) &&
      matches(filter, `${nameOf(one)} ${one.branch ?? ""} ${is.what} ${is.agent ?? ""}`);
    return fits ? [{ one, is }] : [];
  });
}

/** The inbox knows the order of what needs a person; the rest is sorted by time. */
function urgency(row: Shown): number {
  const at = openItems.value.findIndex((item) => item.workspace === row.one.id);
  return at < 0 ? openItems.value.length : at;
}

/** Less than zero: `a` stands before `b`. */
function order(a: Shown, b: Shown): number {
  const newest = b.is.since.localeCompare(a.is.since);
  const [x, y] = [a, b].map((row) => numbers.value.get(row.one.id));
  switch (sortBy.value) {
    case "name":
      return a.one.label.localeCompare(b.one.label);
    case "cpu":
    case "memory":
    case "disk":
      return (y?.[sortBy.value] ?? -1) - (x?.[sortBy.value] ?? -1) || newest;
    case "since":
      return newest;
    default:
      return urgency(a) - urgency(b) || newest;
  }
}

function grouped(rows: Shown[], by: By): Entry[] {
  const nameFor = (row: Shown) =>
    by === "needs" ? row.is.group : by === "project" ? row.one.project : (row.is.agent ?? "No agent");
  const names = by === "needs" ? (GROUPS as string[]) : [...new Set(rows.map(nameFor))].sort();
  return names.flatMap((group) => {
    const of = rows.filter((row) => nameFor(row) === group);
    of.sort(order);
    return of.length ? [{ group, n: of.length }, ...(folded.value[group] ? [] : of)] : [];
  });
}

/** Who holds each canonical port. */
function Canonical() {
  if (canonical.value.length === 0) return null;
  const free = unheld();
  return (
    <section class="canonical" aria-label="Canonical ports">
      <h2>
        <Icon name="anchor" />
        localhost
      </h2>
      <ul>
        {canonical.value.map((port) => (
          <li key={`${port.port}`} title={port.problem ? visible(port.problem) : undefined}>
            <span class="mono">:{port.port}</span>
            <span class="faint">
              <Text value={port.name} />
            </span>
            <a class={`mono ${port.problem ? "is-failed" : ""}`} href={paths.workspace(port.workspace)}>
              <Text value={nameOf(port)} />
            </a>
          </li>
        ))}
        {free.map(([port, project]) => (
          <li key={`${port} ${project}`} class="faint hide-1280">
            <span class="mono">:{port}</span>
            <span>
              <Text value={project} />: free
            </span>
          </li>
        ))}
      </ul>
    </section>
  );
}

/** The lowest declared port of each project that holds no canonical port. */
function unheld(): [number, string][] {
  const held = new Set(canonical.value.map((port) => port.project));
  const lowest = new Map<string, number>();
  for (const one of workspaces.value)
    for (const port of one.ports)
      if (port.source === "declared" && !held.has(one.project))
        lowest.set(one.project, Math.min(port.port, lowest.get(one.project) ?? Infinity));
  return [...lowest].map(([project, port]) => [port, project]);
}

function Marked({ ids, onCompare, onClear }: { ids: Set<string>; onCompare: () => void; onClear: () => void }) {
  const chosen = workspaces.value.filter((one) => ids.has(one.id));
  const all = (what: (one: Workspace) => unknown) => {
    chosen.forEach((one) => void what(one));
    onClear();
  };
  return (
    <section class="canonical" aria-label="Marked workspaces">
      <h2>{chosen.length} marked</h2>
      {chosen.length > 1 && chosen.length < 5 && (
        <Button small cap="c" onClick={onCompare}>
          Compare {chosen.length}
        </Button>
      )}
      <Button small onClick={() => all((one) => one.state === "running" && startOrStop(one))}>
        Stop {chosen.length}
      </Button>
      <Button small kind="danger" onClick={() => all((one) => remove(one))}>
        Remove {chosen.length}
      </Button>
      <Button small kind="quiet" onClick={onClear}>
        Clear
      </Button>
      <span class="faint hide-phone">Unsaved work is asked about, one by one.</span>
    </section>
  );
}
