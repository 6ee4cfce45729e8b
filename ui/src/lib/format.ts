// Numbers, sizes, times and durations as the design writes them.

const KIB = 1024;
const UNITS = ["KiB", "MiB", "GiB", "TiB"];

/** `612 MiB`, `1.4 GiB`: one decimal from 1 GiB. */
export function bytes(n: number): string {
  if (n < KIB) return `${Math.round(n)} B`;
  let value = n / KIB;
  let unit = 0;
  while (value >= KIB - 0.5 && unit < UNITS.length - 1) {
    value /= KIB;
    unit += 1;
  }
  return `${unit < 2 ? Math.round(value) : value.toFixed(1)} ${UNITS[unit]}`;
}

/** A size as holm.toml takes it: `8GiB`. */
export const sizeText = (n: number): string => bytes(n).replace(".0 ", "").replace(" ", "");

/** `11.2 of 31 GiB`: the unit once where both have the same. */
export function bytesOf(part: number, whole: number): string {
  const [a, b] = [bytes(part).split(" "), bytes(whole).replace(".0 ", " ").split(" ")];
  return a[1] === b[1] ? `${a[0]} of ${b[0]} ${b[1]}` : `${a.join(" ")} of ${b.join(" ")}`;
}

/** A narrow space from 10 000. */
export const count = (n: number): string => (n < 10_000 ? String(n) : String(n).replace(/\B(?=(\d{3})+$)/g, "\u202f"));
export const plural = (n: number, one: string, many = `${one}s`): string => `${count(n)} ${n === 1 ? one : many}`;
export const plus = (n: number): string => `+${count(n)}`;
export const minus = (n: number): string => `\u2212${count(n)}`;

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** `now`, `3 min`, `2 h`, `5 d`. */
export function age(time: string | number, now = Date.now()): string {
  const passed = now - new Date(time).getTime();
  if (!(passed >= MINUTE)) return "now";
  if (passed < HOUR) return `${Math.floor(passed / MINUTE)} min`;
  if (passed < DAY) return `${Math.floor(passed / HOUR)} h`;
  return `${Math.floor(passed / DAY)} d`;
}

/** `3 min left`, `less than a minute left`. */
export function left(time: string, now = Date.now()): string {
  const rest = age(now, new Date(time).getTime());
  return `${rest === "now" ? "less than a minute" : rest} left`;
}

const two = (n: number): string => String(n).padStart(2, "0");

/** `14:19` on the same day, `17 Nov 14:19` otherwise. */
export function clock(time: string, now = Date.now()): string {
  const date = new Date(time);
  const hours = `${two(date.getHours())}:${two(date.getMinutes())}`;
  if (date.toDateString() === new Date(now).toDateString()) return hours;
  return `${date.getDate()} ${date.toLocaleString("en", { month: "short" })} ${hours}`;
}

export function seconds(time: string): string {
  const date = new Date(time);
  return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

/** `14:17:58.204`, for logs. */
export const exact = (time: string): string => `${seconds(time)}.${String(new Date(time).getMilliseconds()).padStart(3, "0")}`;

/** The full time with its zone, for titles. */
export const full = (time: string): string => new Date(time).toString().replace(/ \(.*\)$/, "");

/** `31 ms`, `1.8 s`, `4 min 12 s`. */
export function duration(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < MINUTE) return `${(ms / 1000).toFixed(1)} s`;
  if (ms < HOUR) return `${Math.floor(ms / MINUTE)} min ${two(Math.floor((ms % MINUTE) / 1000))} s`;
  return `${Math.floor(ms / HOUR)} h ${two(Math.floor((ms % HOUR) / MINUTE))} min`;
}

/** The first seven characters of a git id. */
export const short = (id: string | null | undefined): string => (id ?? "").slice(0, 7);

/** A word that a shell takes as it is. */
export const shellWord = (text: string): string => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);
