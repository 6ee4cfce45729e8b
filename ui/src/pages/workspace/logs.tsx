// Live logs: lines arrive in batches of one frame, only those on the screen are drawn, the newest are kept.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { follow } from "../../api/client";
import type { LogLine, Workspace } from "../../api/types";
import { exact } from "../../lib/format";
import { matches, parseFilter } from "../../lib/find";
import { plain } from "../../lib/sgr";
import { generation } from "../../state/events";
import { Coloured, Icon, IconButton, Text } from "../../parts/basic";

const KEEP = 20_000;
/** Lines that are read at first. */
const LAST = 500;
const ROW = 20;

export interface LogState {
  lines: LogLine[];
  filter: string;
  setFilter: (text: string) => void;
  off: Set<string>;
  toggle: (service: string) => void;
  paused: boolean;
  setPaused: (paused: boolean) => void;
}

const AGAIN_MS = 1000;

export function useLogs(one: Workspace): LogState {
  const [kept, setKept] = useState<LogLine[]>([]);
  const [filter, setFilter] = useState("");
  const [off, setOff] = useState<Set<string>>(new Set());
  const [paused, setPaused] = useState(false);
  const [since, setSince] = useState<string | null>(null);
  const first = kept[0]?.time;
  const time = timeOf(filter);
  useEffect(() => {
    // Lines before the kept ones are read from that time on.
    if (time && first && time < new Date(first)) setSince(time.toISOString());
  }, [time?.getTime(), first]);
  useEffect(() => {
    const stop = new AbortController();
    let fresh: LogLine[] = [];
    let frame = 0;
    const flush = () => {
      frame = 0;
      const batch = fresh;
      fresh = [];
      setKept((before) => [...before, ...batch].slice(-KEEP));
    };
    setKept([]);
    void (async () => {
      const running = one.state === "running";
      while (!stop.signal.aborted) {
        try {
          const query = { ...(since ? { since } : { last: LAST }), follow: running };
          for await (const line of follow<LogLine>(`/api/v1/workspaces/${one.id}/logs`, query, stop.signal)) {
            fresh.push(line);
            frame ||= requestAnimationFrame(flush);
          }
        } catch {
          /* The banner of the frame says that the daemon does not answer. */
        }
        if (!running) return;
        // A log that goes on and broke off is read again.
        await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
        if (stop.signal.aborted) return;
        fresh = [];
        setKept([]);
      }
    })();
    return () => {
      stop.abort();
      cancelAnimationFrame(frame);
    };
  }, [one.id, one.state, since, generation.value]);
  const toggle = (service: string) =>
    setOff((before) => {
      const next = new Set(before);
      if (!next.delete(service)) next.add(service);
      return next;
    });
  return { lines: kept, filter, setFilter, off, toggle, paused, setPaused };
}

export const LogControls = ({ logs, services }: { logs: LogState; services: string[] }) => (
  <div class="tabs__end hide-phone">
    <label class="field ws__filter">
      <Icon name="filter" />
      <span class="vh">Filter logs, or a time to go to</span>
      <input
        type="text"
        data-filter
        placeholder="-debug or 14:18"
        value={logs.filter}
        spellcheck={false}
        onInput={(event) => logs.setFilter(event.currentTarget.value)}
      />
    </label>
    <div class="seg seg--small" role="group" aria-label="Services">
      {services.map((name) => (
        <button key={name} type="button" aria-pressed={!logs.off.has(name)} onClick={() => logs.toggle(name)}>
          <Text value={name} />
        </button>
      ))}
    </div>
    <IconButton
      icon={logs.paused ? "play" : "pause"}
      says={logs.paused ? "Go on" : "Pause"}
      onClick={() => logs.setPaused(!logs.paused)}
    />
  </div>
);

/** `14:18` or `14:18:05` as a time of today, or of yesterday if today's is still to come; null: the text is a filter. */
export function timeOf(text: string, now = new Date()): Date | null {
  const [, hours, minutes, seconds] = /^(\d\d):(\d\d)(?::(\d\d))?$/.exec(text.trim()) ?? [];
  if (!hours) return null;
  const time = new Date(now);
  time.setHours(Number(hours), Number(minutes), Number(seconds ?? 0), 0);
  if (time > now) time.setDate(time.getDate() - 1);
  return time;
}
const level = (text: string): string =>
  /\b(error|fatal|panic|exception|traceback)\b/i.test(text) ? "is-failed" : /\bwarn(ing)?\b/i.test(text) ? "is-needs" : "";

export function Logs({ logs }: { logs: LogState }) {
  const box = useRef<HTMLDivElement>(null);
  const [at, setAt] = useState({ top: 0, view: 272 });
  const atEnd = useRef(true);
  const jumpedTo = useRef<number | null>(null);
  const frozen = useRef<LogLine[]>([]);
  if (!logs.paused) frozen.current = logs.lines;
  const source = frozen.current;
  const time = timeOf(logs.filter);
  const shown = useMemo(() => {
    const filter = parseFilter(time ? "" : logs.filter);
    const wanted = filter.fields.get("service");
    return source.filter(
      (line) => !logs.off.has(line.service) && (!wanted || line.service === wanted) && matches(filter, plain(line.text)),
    );
  }, [source, logs.filter, logs.off]);
  const first = Math.max(0, Math.floor(at.top / ROW) - 20);
  const last = Math.min(shown.length, Math.ceil((at.top + at.view) / ROW) + 20);
  useEffect(() => {
    if (atEnd.current && !logs.paused && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [shown]);
  useEffect(() => {
    // No line is shown while earlier ones are read; the page jumps again when they arrive.
    if (!time || !shown.length) jumpedTo.current = null;
    if (!time || jumpedTo.current === time.getTime() || !box.current) return;
    const found = shown.findIndex((line) => new Date(line.time) >= time);
    if (found >= 0) {
      atEnd.current = false;
      box.current.scrollTop = found * ROW;
      jumpedTo.current = time.getTime();
    }
  }, [time?.getTime(), shown]);
  const onScroll = () => {
    const { scrollTop: top, clientHeight: view, scrollHeight } = box.current!;
    atEnd.current = top + view >= scrollHeight - ROW;
    setAt({ top, view });
  };
  return (
    <div class="ws__dock scroll" id="logs" role="tabpanel" aria-labelledby="dock-logs" tabIndex={0} ref={box} onScroll={onScroll}>
      {shown.length === 0 && (
        <p class="inbox__end">{source.length ? "No line fits the filter." : "The services have said nothing yet."}</p>
      )}
      <div class="log log--rows" style={{ height: `${shown.length * ROW}px`, paddingTop: `${first * ROW}px` }}>
        {shown.slice(first, last).map((line, i) => {
          const tone = level(plain(line.text));
          return (
            <div key={first + i} class={tone}>
              <time>{exact(line.time)}</time>
              <span class="src" title={line.stream}>
                <Text value={line.service} />
              </span>
              <span class={tone}>
                <Coloured value={line.text} />
              </span>
            </div>
          );
        })}
      </div>
    </div>
  );
}
