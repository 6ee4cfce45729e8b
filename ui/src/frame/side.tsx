// The navigation: where to go, what waits, and the two totals that matter.
import { bytes, bytesOf } from "../lib/format";
import { Glyph, Icon, IconButton, Meter, Text } from "../parts/basic";
import { toggleTheme } from "../state/look";
import { act } from "../state/keys";
import { paths, route } from "../state/route";
import { daemon, diskFree, doctor, inbox, machine, numbers, projects, workspaces } from "../state/store";
import { openItems } from "../pages/inbox-items";

const PAGES = [
  { path: "/inbox", icon: "inbox", name: "Inbox", pages: ["inbox"] },
  {
    path: "/workspaces",
    icon: "workspaces",
    name: "Workspaces",
    pages: ["workspaces", "workspace", "compare", "new"],
  },
  { path: "/data", icon: "data", name: "Data", pages: ["data"] },
  { path: "/settings/health", icon: "settings", name: "Settings", pages: ["settings"] },
];

const isHere = (pages: string[]) =>
  pages.includes(route.value.page === "review" ? "inbox" : route.value.page) ? "page" : undefined;

export function Side({ rail }: { rail: boolean }) {
  const needs = openItems.value.length;
  return (
    <nav class={`side ${rail ? "side--rail" : ""}`} aria-label="Main">
      <a class="side__brand" href="/inbox" title={`holm ${machine.value?.version ?? ""}`}>
        <Icon name="holm" className="i--brand" />
        <span class="side__name">holm</span>
        <span class="side__where">{daemon.value?.user}</span>
      </a>
      <div class="side__top">
        <a class="side__new" href="/new" title="New workspace (n)">
          <Icon name="plus" />
          <span>New workspace</span>
          <kbd>n</kbd>
        </a>
        <button type="button" class="side__find" title="Find or do anything (Ctrl K)" onClick={() => act("find")}>
          <Icon name="search" />
          <span>Find or do</span>
          <kbd>Ctrl K</kbd>
        </button>
      </div>
      <ul class="side__list">
        {PAGES.map((one) => (
          <li key={one.path}>
            <a class="side__item" href={one.path} aria-current={isHere(one.pages)} title={one.name}>
              <Icon name={one.icon} />
              <span>{one.name}</span>
              {one.name === "Inbox" && needs > 0 && <span class="side__n side__n--needs">{needs}</span>}
              {one.name === "Workspaces" && <span class="side__n">{workspaces.value.length}</span>}
            </a>
          </li>
        ))}
      </ul>
      <h2 class="side__head">Projects</h2>
      <ul class="side__list scroll">
        {projects.value.length === 0 && <li class="side__none">None yet</li>}
        {projects.value.map((one) => (
          <ProjectRow key={one.id} name={one.name} />
        ))}
      </ul>
      <div class="side__foot">
        <Totals />
        <Me />
      </div>
    </nav>
  );
}

function ProjectRow({ name }: { name: string }) {
  const all = workspaces.value.filter((one) => one.project === name).length;
  const needs = openItems.value.filter((item) => item.project === name).length;
  const here = route.value.page === "workspaces" && route.value.project === name;
  return (
    <li>
      <a class="side__item" href={paths.project(name)} aria-current={here ? "page" : undefined}>
        <span class="mono cut">
          <Text value={name} />
        </span>
        {needs > 0 && (
          <span class="side__needs" title={`${needs} need you`}>
            <Glyph state="needs" />
            {needs}
          </span>
        )}
        <span class="side__n">{all}</span>
      </a>
    </li>
  );
}

function Totals() {
  const memory = [...numbers.value.values()].reduce((sum, one) => sum + one.memory, 0);
  const whole = machine.value?.memory;
  const disk = diskFree.value;
  return (
    <dl class="side__machine">
      <div>
        <dt>Memory</dt>
        <dd>{whole ? bytesOf(memory, whole) : bytes(memory)}</dd>
        {whole && (
          <dd class="side__meter">
            <Meter part={memory} whole={whole} />
          </dd>
        )}
      </div>
      {disk && (
        <div>
          <dt>Disk</dt>
          <dd>{bytesOf(disk.total, disk.size)}</dd>
          <dd class="side__meter">
            <Meter part={disk.total} whole={disk.size} />
          </dd>
        </div>
      )}
    </dl>
  );
}

function Me() {
  const weak = workspaces.value.filter((one) => one.state === "running" && one.isolation.degraded.length).length;
  const bad = doctor.value?.checks.filter((one) => one.status === "missing").length ?? 0;
  const [state, says] =
    doctor.value && !doctor.value.ok
      ? (["failed", "Cannot run workspaces"] as const)
      : weak || bad
        ? (["degraded", "Isolation weaker"] as const)
        : (["ready", "Isolation full"] as const);
  return (
    <div class="side__me">
      {doctor.value ? (
        <a class="side__health" href="/settings/health" title={`Daemon ${machine.value?.version ?? ""}`}>
          <Glyph state={state} />
          <span>{says}</span>
        </a>
      ) : (
        <span />
      )}
      <IconButton icon="theme" says="Light or dark" onClick={toggleTheme} />
    </div>
  );
}

const THUMBS = [
  { path: "/inbox", icon: "inbox", name: "Inbox", pages: ["inbox"] },
  { path: "/workspaces", icon: "workspaces", name: "Workspaces", pages: ["workspaces", "workspace", "compare"] },
  { path: "/new", icon: "plus", name: "New", pages: ["new"] },
  { path: "/data", icon: "data", name: "Data", pages: ["data", "settings"] },
];

export function Thumbs() {
  return (
    <nav class="thumb" aria-label="Main, small screen">
      {THUMBS.map((one) => (
        <a key={one.path} class="thumb__item" href={one.path} aria-current={isHere(one.pages)}>
          <Icon name={one.icon} />
          <span>{one.name}</span>
          {one.name === "Inbox" && (inbox.value?.length ?? 0) > 0 && <span class="thumb__n">{openItems.value.length}</span>}
        </a>
      ))}
      <button type="button" class="thumb__item" onClick={() => act("find")}>
        <Icon name="search" />
        <span>Find</span>
      </button>
    </nav>
  );
}
