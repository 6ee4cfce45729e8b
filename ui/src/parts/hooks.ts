// Small hooks that pages share.
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import type { HolmEvent } from "../api/types";
import { listeners } from "../state/store";
import { draft } from "../state/look";
import { failed } from "../state/toast";

export interface Loaded<T> {
  value: T | null;
  fault: Error | null;
  reload: () => Promise<void>;
}

/** Reads when `deps` change, and again when `reload` is called; an answer that was overtaken is dropped. */
export function useLoad<T>(read: (signal: AbortSignal) => Promise<T>, deps: unknown[]): Loaded<T> {
  const [state, setState] = useState<{ value: T | null; fault: Error | null }>({ value: null, fault: null });
  const running = useRef<AbortController | null>(null);
  const reload = useCallback(async () => {
    running.current?.abort();
    const mine = new AbortController();
    running.current = mine;
    try {
      const value = await read(mine.signal);
      if (!mine.signal.aborted) setState({ value, fault: null });
    } catch (cause) {
      if (!mine.signal.aborted) setState((before) => ({ ...before, fault: cause as Error }));
    }
  }, deps);
  useEffect(() => {
    setState({ value: null, fault: null });
    void reload();
    return () => running.current?.abort();
  }, [reload]);
  return { ...state, reload };
}

/** Calls back for events of one workspace, at most once in 100 ms. */
export function useEvents(workspace: string | null, wanted: (type: string) => boolean, then: () => void): void {
  const latest = useRef(then);
  latest.current = then;
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const listener = (event: HolmEvent) => {
      if ((workspace && event.workspace !== workspace) || !wanted(event.type)) return;
      timer ??= setTimeout(() => {
        timer = undefined;
        latest.current();
      }, 100);
    };
    listeners.add(listener);
    return () => {
      clearTimeout(timer);
      listeners.delete(listener);
    };
  }, [workspace]);
}

/** Text that outlives reloads until it was sent. */
export function useDraft(name: string): [string, (text: string) => void] {
  const [text, setText] = useState(() => draft.read(name));
  useEffect(() => setText(draft.read(name)), [name]);
  return [
    text,
    (next) => {
      draft.write(name, next);
      setText(next);
    },
  ];
}

/** Runs an action once at a time and shows why it failed. */
export function useAction(): [boolean, (what: string, run: () => Promise<unknown>) => Promise<boolean>] {
  const [busy, setBusy] = useState(false);
  return [
    busy,
    async (what, run) => {
      setBusy(true);
      try {
        await run();
        return true;
      } catch (cause) {
        failed(what, cause);
        return false;
      } finally {
        setBusy(false);
      }
    },
  ];
}

/** True after 200 ms, so that fast answers show no bones. */
export function useSlow(): boolean {
  const [slow, setSlow] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setSlow(true), 200);
    return () => clearTimeout(timer);
  }, []);
  return slow;
}
