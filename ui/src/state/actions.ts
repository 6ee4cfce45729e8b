// What a person does with a workspace, with the undo that belongs to it. Pages, keys and the palette call these.
import { signal } from "@preact/signals";
import { api, Fault } from "../api/client";
import type { Workspace } from "../api/types";
import { go, paths } from "./route";
import { byId, canonical, gone, loadCanonical, nameOf, put, refresh, workspaces } from "./store";
import { failed, toast } from "./toast";

/** A question that floats above every page. */
export type Asked =
  | { kind: "rename" | "fork" | "snapshot"; workspace: Workspace; at?: string }
  | { kind: "remove"; workspace: Workspace; why: string }
  | { kind: "reset"; workspace: Workspace; at?: string; volume?: string };
export const asked = signal<Asked | null>(null);

const at = (one: Workspace) => ({ path: { id: one.id } });

/** What a workspace is in the middle of, by its id: processes have ten seconds to end. */
export const pending = signal<Map<string, string>>(new Map());

async function during<T>(one: Workspace, what: string, run: () => Promise<T>): Promise<T> {
  pending.value = new Map(pending.value).set(one.id, what);
  try {
    return await run();
  } finally {
    const rest = new Map(pending.value);
    rest.delete(one.id);
    pending.value = rest;
  }
}

async function attempt(what: string, run: () => Promise<unknown>): Promise<void> {
  try {
    await run();
  } catch (cause) {
    failed(what, cause);
  }
}

export const stop = (one: Workspace) =>
  attempt(`Cannot stop ${nameOf(one)}`, async () => {
    put(await during(one, "Stopping", () => api.post("/api/v1/workspaces/{id}/stop", at(one))));
    toast(`Stopped ${nameOf(one)}; code and data stay`, () => start(one));
  });
export const start = (one: Workspace) =>
  attempt(`Cannot start ${nameOf(one)}`, async () => {
    put(await during(one, "Starting", () => api.post("/api/v1/workspaces/{id}/start", at(one))));
    toast(`Started ${nameOf(one)}`, () => stop(one));
  });
export const startOrStop = (one: Workspace) => (one.state === "running" ? stop(one) : start(one));
export const restart = (one: Workspace) =>
  attempt(`Cannot restart ${nameOf(one)}`, async () => {
    put(await during(one, "Restarting", () => api.post("/api/v1/workspaces/{id}/restart", at(one))));
    toast(`Restarted ${nameOf(one)}`);
  });

export const service = (one: Workspace, name: string, action: "start" | "stop" | "restart") =>
  attempt(`Cannot ${action} ${name} of ${nameOf(one)}`, async () => {
    await api.post("/api/v1/workspaces/{id}/services", {
      ...at(one),
      body: { service: name, action: action as never },
    });
    await refresh(one.id);
  });

/** Gives it the canonical ports; the undo gives them back to who held them. */
export const takePorts = (one: Workspace) =>
  attempt(`Cannot give the canonical ports to ${nameOf(one)}`, async () => {
    const before = new Set(canonical.value.map((port) => port.workspace));
    canonical.value = (await api.post("/api/v1/checkout", { body: { workspace: one.id } })).checkout;
    await Promise.all([...before, one.id].map((id) => refresh(id)));
    const taken = canonical.value
      .filter((port) => port.workspace === one.id)
      .map((port) => `:${port.port}`)
      .join(", ");
    toast(`${nameOf(one)} holds localhost ${taken}`, async () => {
      await api.delete("/api/v1/checkout");
      for (const id of before) if (id !== one.id) await api.post("/api/v1/checkout", { body: { workspace: id } });
      await loadCanonical();
      await Promise.all([...before, one.id].map((id) => refresh(id)));
    });
  });

export const releasePorts = () =>
  attempt("Cannot release the canonical ports", async () => {
    canonical.value = (await api.delete("/api/v1/checkout")).checkout;
    toast("Released all canonical ports");
  });

/** Removes to the trash. What would lose unsaved work is refused by the daemon, and then asked. */
export async function remove(one: Workspace, force = false): Promise<void> {
  if (force) asked.value = null;
  try {
    await during(one, "Removing", () => api.delete("/api/v1/workspaces/{id}", { ...at(one), query: { force } }));
    workspaces.value = workspaces.value.filter((other) => other.id !== one.id);
    gone.value = new Map(gone.value).set(one.id, one);
    toast(`Removed ${nameOf(one)}; it stays in the trash`, () => restore(one.id));
  } catch (cause) {
    if (!(cause instanceof Fault) || cause.code !== "unsaved_work" || force) {
      failed(`Cannot remove ${nameOf(one)}`, cause);
      return;
    }
    asked.value = { kind: "remove", workspace: one, why: cause.message };
  }
}

export async function restore(id: string): Promise<void> {
  put(await api.post("/api/v1/workspaces/{id}/restore", { path: { id } }));
  const rest = new Map(gone.value);
  rest.delete(id);
  gone.value = rest;
  toast(`Restored ${nameOf(byId.value.get(id)!)}; it is stopped`);
}

export async function rename(one: Workspace, label: string): Promise<void> {
  const before = one.label;
  put(await api.patch("/api/v1/workspaces/{id}", { ...at(one), body: { label } }));
  toast(`Renamed ${before} to ${label}`, async () =>
    put(await api.patch("/api/v1/workspaces/{id}", { ...at(one), body: { label: before } })),
  );
}

export async function fork(one: Workspace, label: string, snapshot?: string): Promise<void> {
  const made = await api.post("/api/v1/workspaces/{id}/fork", {
    ...at(one),
    body: { label: label || null, at: snapshot ?? null },
  });
  put(made);
  toast(`Forked ${nameOf(one)} as ${made.label}`, () => remove(made, true));
  go(paths.workspace(made.id));
}

export async function snapshot(one: Workspace, name: string): Promise<void> {
  put(await api.post("/api/v1/workspaces/{id}/snapshots", { ...at(one), body: { name } }));
  toast(`Took snapshot ${name} of ${nameOf(one)}`);
}

export async function reset(one: Workspace, options: { at?: string; volume?: string; force?: boolean }): Promise<void> {
  put(
    await api.post("/api/v1/workspaces/{id}/reset", {
      ...at(one),
      body: { at: options.at ?? null, volume: options.volume ?? null, force: options.force ?? false },
    }),
  );
  asked.value = null;
  toast(
    options.volume
      ? `Reset volume ${options.volume} of ${nameOf(one)}`
      : `Reset ${nameOf(one)}${options.at ? ` to ${options.at}` : ""}`,
  );
}

/** Makes it the workspace that I am in: its ports, and its page. */
export async function switchTo(one: Workspace): Promise<void> {
  if (one.ports.some((port) => port.source === "declared")) await takePorts(one);
  go(paths.workspace(one.id));
}

export async function copy(text: string): Promise<void> {
  await attempt("Cannot copy", () => navigator.clipboard.writeText(text));
  toast("Copied");
}
