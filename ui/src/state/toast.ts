// Short messages, each with an undo where the action has one.
import { signal } from "@preact/signals";
import { Fault } from "../api/client";

export interface Toast {
  id: number;
  text: string;
  kind: "done" | "failed";
  hint?: string;
  undo?: () => Promise<unknown>;
}
export const toasts = signal<Toast[]>([]);
let last = 0;

export function toast(text: string, undo?: () => Promise<unknown>): void {
  show({ id: ++last, text, kind: "done", undo }, undo ? 12_000 : 5_000);
}

/** Shows why an action failed; the page stays as it was. */
export function failed(what: string, cause: unknown): void {
  const fault = cause instanceof Fault ? cause : null;
  // The sign-in panel already says it.
  if (fault?.status === 401) return;
  const why = cause instanceof Error ? cause.message : String(cause);
  show({ id: ++last, text: `${what}: ${why}`, kind: "failed", hint: fault?.hint || undefined }, 15_000);
}

export function dismiss(id: number): void {
  toasts.value = toasts.value.filter((one) => one.id !== id);
}

export async function undoLast(): Promise<void> {
  const one = toasts.value.findLast((candidate) => candidate.undo);
  if (one) await undo(one);
}

export async function undo(one: Toast): Promise<void> {
  dismiss(one.id);
  try {
    await one.undo!();
  } catch (cause) {
    failed("Cannot undo", cause);
  }
}

function show(one: Toast, ms: number): void {
  toasts.value = [...toasts.value.slice(-3), one];
  setTimeout(() => dismiss(one.id), ms);
}
