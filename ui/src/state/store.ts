// One store, fed by one stream of events. Pages read signals; nothing here draws.
import { computed, signal } from "@preact/signals";
import { api, Fault, request } from "../api/client";
import type {
  CanonicalPort,
  Daemon,
  Doctor,
  HolmEvent,
  InboxItem,
  Numbers,
  Project,
  Run,
  Session,
  UiState,
  Workspace,
} from "../api/types";
import { failed } from "./toast";

export const loaded = signal(false);
export const workspaces = signal<Workspace[]>([]);
export const projects = signal<Project[]>([]);
export const sessions = signal<Session[]>([]);
export const runs = signal<Run[]>([]);
/** Null while the daemon has no inbox. */
export const inbox = signal<InboxItem[] | null>(null);
export const numbers = signal<Map<string, Numbers>>(new Map());
export const canonical = signal<CanonicalPort[]>([]);
export const daemon = signal<Daemon | null>(null);
export const doctor = signal<Doctor | null>(null);
export const machine = signal<UiState | null>(null);
export const diskFree = signal<{ total: number; size: number } | null>(null);
/** Workspaces that were removed on this page; their rows stay, with an undo. */
export const gone = signal<Map<string, Workspace>>(new Map());
/** A turn with the numbers of all changes since the start; a turn's own numbers are about the turn before. */
export interface LastTurn {
  n: number;
  at: string;
  files: number;
  added: number;
  removed: number;
}
/** The last turn of each workspace that is on the screen; null: it has none. */
export const lastTurns = signal<Map<string, LastTurn | null>>(new Map());

export const byId = computed(() => new Map([...gone.value.values(), ...workspaces.value].map((one) => [one.id, one])));
export const sessionsOf = computed(() => grouped(sessions.value));
export const runsOf = computed(() => grouped(runs.value));
export const inboxOf = computed(() => {
  const found = new Map<string, InboxItem>();
  // The list is in the order of urgency, so the first item of a workspace is the one to show.
  for (const item of inbox.value ?? []) if (!found.has(item.workspace)) found.set(item.workspace, item);
  return found;
});

export const nameOf = (one: { project: string; label: string }): string => `${one.project}/${one.label}`;

/** What a person first asked for; later messages are rounds of comments. Runs are newest first. */
export const firstMessage = (id: string): string | null =>
  runsOf.value.get(id)?.findLast((run) => run.message)?.message ?? null;

/** A path with `~` for the home of the person. */
export function homely(path: string): string {
  const home = machine.value?.home;
  return home && path.startsWith(`${home}/`) ? `~${path.slice(home.length)}` : path;
}

export async function loadAll(): Promise<void> {
  await Promise.all([
    loadWorkspaces(),
    loadProjects(),
    loadSessions(),
    loadRuns(),
    loadInbox(),
    loadCanonical(),
    loadNumbers(),
    loadMachine(),
  ]);
  lastTurns.value = new Map();
  loaded.value = true;
}

async function loadWorkspaces(): Promise<void> {
  workspaces.value = (await api.get("/api/v1/workspaces")).workspaces;
}
async function loadProjects(): Promise<void> {
  projects.value = (await api.get("/api/v1/projects")).projects;
}
async function loadSessions(): Promise<void> {
  sessions.value = (await api.get("/api/v1/sessions")).sessions;
}
async function loadRuns(): Promise<void> {
  runs.value = (await api.get("/api/v1/runs", { query: { limit: 500 } })).runs;
}
export async function loadCanonical(): Promise<void> {
  canonical.value = (await api.get("/api/v1/checkout")).checkout;
}

export async function loadNumbers(): Promise<void> {
  const answer = await api.get("/api/v1/numbers");
  numbers.value = new Map(answer.workspaces.map((one) => [one.id, one]));
}

async function loadMachine(): Promise<void> {
  [daemon.value, machine.value] = await Promise.all([api.get("/api/v1/daemon"), request<UiState>("get", "/ui/state")]);
  // These two try the machine and walk the disk; the page does not wait for them.
  void Promise.all([api.get("/api/v1/doctor"), api.get("/api/v1/disk")])
    .then(([found, disk]) => {
      doctor.value = found;
      diskFree.value = { total: disk.total, size: disk.size };
    })
    .catch((cause: unknown) => failed("Cannot read the state of the machine", cause));
}

async function loadInbox(): Promise<void> {
  try {
    inbox.value = (await request<{ items: InboxItem[] }>("get", "/api/v1/inbox")).items;
  } catch (cause) {
    if (!(cause instanceof Fault) || cause.status !== 404) throw cause;
    inbox.value = null;
  }
}

export async function loadTurn(id: string): Promise<void> {
  if (lastTurns.value.has(id)) return;
  lastTurns.value = new Map(lastTurns.value).set(id, null);
  const { turns, since_start } = await api.get("/api/v1/workspaces/{id}/turns", { path: { id } });
  const last = turns.at(-1);
  lastTurns.value = new Map(lastTurns.value).set(id, last && since_start ? { n: last.n, at: last.at, ...since_start } : null);
}

/** Puts a fresh document of one workspace into the list. */
export function put(one: Workspace): void {
  const before = workspaces.value.findIndex((other) => other.id === one.id);
  workspaces.value = before < 0 ? [...workspaces.value, one] : workspaces.value.with(before, one);
}

// === events → what to read again ===

const stale = new Set<string>();
const parts = new Map<string, () => Promise<void>>();
let timer: ReturnType<typeof setTimeout> | undefined;

/** Listeners of pages that show more of a workspace than the store holds. */
export const listeners = new Set<(event: HolmEvent) => void>();

export function applyEvent(event: HolmEvent): void {
  const [area] = event.type.split(".");
  if (event.type === "workspace.removed") workspaces.value = workspaces.value.filter((one) => one.id !== event.workspace);
  else if (area === "workspace" || area === "port" || area === "service") stale.add(event.workspace);
  if (event.type === "workspace.created") parts.set("projects", loadProjects);
  if (area === "checkout") {
    parts.set("canonical", loadCanonical);
    if (event.workspace) stale.add(event.workspace);
  }
  if (area === "session") parts.set("sessions", loadSessions);
  if (area === "run") parts.set("runs", loadRuns);
  if (area === "inbox" || area === "run" || area === "comment") parts.set("inbox", loadInbox);
  if (area === "turn") {
    const next = new Map(lastTurns.value);
    next.delete(event.workspace);
    lastTurns.value = next;
    stale.add(event.workspace);
  }
  for (const listener of listeners) listener(event);
  timer ??= setTimeout(() => void flush(), 60);
}

async function flush(): Promise<void> {
  timer = undefined;
  const ids = [...stale];
  const wanted = [...parts.values()];
  stale.clear();
  parts.clear();
  // Many changes at once cost less as one list.
  const work = ids.length > 8 ? [loadWorkspaces()] : ids.map((id) => refresh(id));
  await Promise.all([...work, ...wanted.map((load) => load())]).catch(() => {
    /* The stream's own reconnection loads everything again. */
  });
}

export async function refresh(id: string): Promise<void> {
  try {
    put(await api.get("/api/v1/workspaces/{id}", { path: { id } }));
  } catch (cause) {
    if (!(cause instanceof Fault) || cause.status !== 404) throw cause;
    workspaces.value = workspaces.value.filter((one) => one.id !== id);
  }
}

function grouped<T extends { workspace: string }>(list: T[]): Map<string, T[]> {
  const found = new Map<string, T[]>();
  for (const one of list) {
    const group = found.get(one.workspace);
    if (group) group.push(one);
    else found.set(one.workspace, [one]);
  }
  return found;
}
