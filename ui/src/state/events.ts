// The one WebSocket of events. It reconnects by itself and says until when what is shown was true.
import { signal } from "@preact/signals";
import { socket } from "../api/client";
import type { HolmEvent } from "../api/types";
import { auth } from "./session";
import { applyEvent, loadAll, loadNumbers, numbers } from "./store";

export interface Connection {
  state: "connecting" | "live" | "lost";
  asOf: number;
  nextAt: number;
}
export const connection = signal<Connection>({ state: "connecting", asOf: Date.now(), nextAt: 0 });

/** Counts reconnections; streams of pages begin again with it. */
export const generation = signal(0);

let cursor: number | undefined;
let tries = 0;
let waiting: ReturnType<typeof setTimeout> | undefined;
let current: WebSocket | undefined;

export async function connect(): Promise<void> {
  clearTimeout(waiting);
  current?.close();
  current = undefined;
  if (auth.value !== "in") return;
  try {
    const stream = await socket("/api/v1/events", { after: cursor });
    current = stream;
    stream.onmessage = (message: MessageEvent<string>) => {
      const event = JSON.parse(message.data) as HolmEvent & { missed?: number };
      cursor = event.cursor;
      connection.value = { ...connection.value, asOf: Date.now() };
      if (event.type === "events.missed") void loadAll();
      else applyEvent(event);
    };
    stream.onclose = () => {
      if (stream === current) lost();
    };
    await new Promise((resolve, reject) => {
      stream.onopen = resolve;
      stream.onerror = reject;
    });
    await loadAll();
    if (tries > 0) generation.value += 1;
    tries = 0;
    connection.value = { state: "live", asOf: Date.now(), nextAt: 0 };
  } catch {
    lost();
  }
}

function lost(): void {
  if (auth.value !== "in") return;
  tries += 1;
  const wait = Math.min(1000 * 2 ** (tries - 1), 10_000);
  const asOf = connection.value.state === "live" ? Date.now() : connection.value.asOf;
  connection.value = { state: "lost", asOf, nextAt: Date.now() + wait };
  clearTimeout(waiting);
  waiting = setTimeout(() => void connect(), wait);
}

// Load is measured by the daemon every few seconds and is no event; the page reads it while the tab is visible.
let skipped = 0;
setInterval(() => {
  // Many workspaces make a long answer, which then is read less often.
  skipped = (skipped + 1) % Math.ceil(numbers.value.size / 50 || 1);
  if (skipped !== 0) return;
  if (connection.value.state === "live" && document.visibilityState === "visible") void loadNumbers().catch(() => undefined);
}, 5_000);
