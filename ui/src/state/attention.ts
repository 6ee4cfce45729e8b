// Who waits for whom: the group of a workspace, its reason in one word, and what happens in it. Pure.
import type { InboxItem, Numbers, Reason, Run, Service, Session, Workspace } from "../api/types";
import type { State } from "../parts/basic";

export type Group = "Needs you" | "Ready to read" | "Working" | "Idle" | "Stopped";
export const GROUPS: Group[] = ["Needs you", "Ready to read", "Working", "Idle", "Stopped"];

export interface ReasonLook {
  icon: string;
  tone: "needs" | "failed" | "ready";
  group: string;
  title: string;
  verb: string;
}
export const REASONS: Record<Reason, ReasonLook> = {
  question: { icon: "question", tone: "needs", group: "Waiting for you", title: "Question", verb: "Answer" },
  refused: { icon: "refused", tone: "needs", group: "Waiting for you", title: "Refused", verb: "Decide" },
  limit: { icon: "gauge", tone: "needs", group: "Waiting for you", title: "Limit", verb: "Raise" },
  stalled: { icon: "clock", tone: "needs", group: "Waiting for you", title: "Stalled", verb: "Look" },
  failed: { icon: "x", tone: "failed", group: "Broken", title: "Failed", verb: "Review" },
  conflict: { icon: "conflict", tone: "failed", group: "Broken", title: "Conflict", verb: "Compare" },
  ready: { icon: "diff", tone: "ready", group: "Ready to read", title: "Ready", verb: "Review" },
  comment: { icon: "comment", tone: "ready", group: "Ready to read", title: "Comment", verb: "Review" },
};
/** A reason of a newer daemon is shown by its own word. */
export const lookOf = (reason: string): ReasonLook =>
  REASONS[reason as Reason] ?? { icon: "bell", tone: "needs", group: "Waiting for you", title: reason, verb: "Look" };

export const INBOX_GROUPS = ["Waiting for you", "Broken", "Ready to read"];

export interface Standing {
  group: Group;
  state: State;
  reason: string | null;
  tone: "needs" | "failed" | "ready" | null;
  what: string;
  agent: string | null;
  more: number;
  since: string;
  now: boolean;
}

const ACTIVE_MS = 30_000;

export function standing(
  workspace: Workspace,
  item: InboxItem | undefined,
  runs: Run[],
  sessions: Session[],
  now: number,
): Standing {
  const live = sessions.filter((one) => one.state === "running");
  const run = runs.find((one) => one.state === "running" || one.state === "queued");
  const talking = live.find((one) => one.agent && one.last_output_at && now - Date.parse(one.last_output_at) < ACTIVE_MS);
  const agents = [
    ...new Set([
      ...(run?.agent ? [run.agent] : []),
      ...live.flatMap((one) => (one.agent ? [one.agent] : [])),
      ...runs.flatMap((one) => (one.agent ? [one.agent] : [])),
    ]),
  ];
  const base = { agent: agents[0] ?? null, more: Math.max(0, live.length - 1), reason: null, tone: null, now: false };
  if (workspace.state !== "running") {
    const creating = workspace.state === "creating" || workspace.state === "starting";
    const failed = workspace.state === "failed";
    const weak = workspace.isolation.degraded.length > 0;
    const state: State = creating ? "starting" : failed ? "failed" : weak ? "degraded" : "stopped";
    const what =
      workspace.reason ??
      (creating
        ? "Is being made"
        : failed
          ? "Failed"
          : weak
            ? `Stopped; it ran without ${workspace.isolation.degraded.join(", ")}`
            : "Stopped");
    return {
      ...base,
      group: creating ? "Working" : failed ? "Needs you" : "Stopped",
      state,
      what,
      since: workspace.last_used_at,
    };
  }
  if (item) {
    const look = lookOf(item.reason);
    const state: State = look.tone === "needs" ? "needs" : look.tone === "failed" ? "failed" : "ready";
    return {
      ...base,
      group: look.tone === "ready" ? "Ready to read" : "Needs you",
      state,
      reason: item.reason,
      tone: look.tone,
      what: item.text,
      since: item.since,
    };
  }
  if (run || talking) {
    const what = run
      ? run.message
        ? firstLine(run.message)
        : `Runs ${run.command.join(" ")}`
      : talking!.title || `Session of ${talking!.agent} is writing`;
    return {
      ...base,
      group: "Working",
      state: "running",
      what,
      since: run?.created_at ?? talking!.created_at,
      now: true,
    };
  }
  const broken = workspace.services.filter((one) => serviceState(one) === "failed");
  const state: State = broken.length
    ? "failed"
    : workspace.isolation.degraded.length
      ? "degraded"
      : workspace.services.some((one) => serviceState(one) === "starting")
        ? "starting"
        : "ready";
  const last = runs[0];
  const what = broken.length
    ? `${broken.map((one) => one.name).join(", ")} failed`
    : last
      ? `Last run ${last.state.replace("_", " ")}`
      : live.length
        ? "A session is open"
        : "No run yet";
  return { ...base, group: "Idle", state, what, since: workspace.last_used_at };
}

export function serviceState(service: Service): State {
  switch (service.state) {
    case "ready":
    case "done":
      return "ready";
    case "starting":
    case "waiting":
    case "pending":
    case "running":
      return "starting";
    case "stopped":
      return "stopped";
    case "failed":
    case "backoff":
    case "crashed":
      return "failed";
    default:
      return "degraded";
  }
}

/** The port that `o` opens: the one named `web`, or the first that a browser can open. */
export function preview(workspace: Workspace): string | null {
  const pages = workspace.ports.filter((one) => one.url?.startsWith("http"));
  return (pages.find((one) => one.name === "web") ?? pages[0])?.url ?? null;
}

/** Whether a workspace is at its memory limit. */
export const isHot = (workspace: Workspace, numbers: Numbers | undefined): boolean =>
  Boolean(workspace.limits.memory && numbers && numbers.memory > workspace.limits.memory * 0.95);

export const firstLine = (text: string): string => text.split("\n", 1)[0]!;
