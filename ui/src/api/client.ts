// The only place that talks HTTP. Each request carries the tab's token; a 401 signs the tab out without unmounting
// the page, so that typed text stays.
import type { paths } from "./schema";
import { renew, signedOut, tabToken } from "../state/session";

/** What the daemon answered instead: what failed, on what, and the next command. */
export class Fault extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly hint: string,
  ) {
    super(message);
  }
}

type Method = "get" | "post" | "put" | "patch" | "delete";
type PathWith<M extends Method> = {
  [P in keyof paths]: paths[P][M] extends { responses: unknown } ? P : never;
}[keyof paths];
type Json<C> = C extends { content: { "application/json": infer A } } ? A : never;
type Answer<O> = O extends { responses: { 200: infer R } }
  ? Json<R>
  : O extends { responses: { 201: infer R } }
    ? Json<R>
    : never;
type BodyOf<O> = O extends { requestBody: { content: { "application/json": infer B } } }
  ? B
  : O extends { requestBody?: { content: { "application/json": infer B } } }
    ? B
    : undefined;
type QueryOf<O> = O extends { parameters: { query?: infer Q } } ? Q : undefined;

export interface Options<Q = unknown, B = unknown> {
  path?: Record<string, string>;
  query?: Q;
  body?: B;
  key?: string;
  signal?: AbortSignal;
}

const typed =
  <M extends Method>(method: M) =>
  <P extends PathWith<M>>(
    path: P,
    options: Options<QueryOf<paths[P][M]>, BodyOf<paths[P][M]>> = {},
  ): Promise<Answer<paths[P][M]>> =>
    request(method, path as string, options);

export const api = {
  get: typed("get"),
  post: typed("post"),
  put: typed("put"),
  patch: typed("patch"),
  delete: typed("delete"),
};

/** The same for a route that the OpenAPI document does not describe yet. */
export async function request<T>(method: string, path: string, options: Options = {}): Promise<T> {
  const response = await send(method, path, options);
  return response.status === 204 ? (undefined as T) : ((await response.json()) as T);
}

/** JSON Lines as they arrive. */
export async function* lines<T>(method: string, path: string, options: Options = {}): AsyncGenerator<T> {
  const response = await send(method, path, options);
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) break;
    const parts = (rest + value).split("\n");
    rest = parts.pop()!;
    for (const part of parts) if (part) yield JSON.parse(part) as T;
  }
  if (rest.trim()) yield JSON.parse(rest) as T;
}

/** A WebSocket behind a ticket that works once; nothing secret is in its address. */
export async function socket(path: string, query: Record<string, unknown> = {}): Promise<WebSocket> {
  const { ticket } = await request<{ ticket: string }>("post", "/ui/ticket");
  const address = new URL(withQuery(path, query), location.href);
  address.protocol = location.protocol === "https:" ? "wss:" : "ws:";
  return new WebSocket(address, ["holm", `ticket.${ticket}`]);
}

/** JSON Lines that go on, over a WebSocket: a browser has six connections for all tabs of a host, and a stream would keep one. */
export async function* follow<T>(path: string, query: Record<string, unknown>, signal: AbortSignal): AsyncGenerator<T> {
  const stream = await socket(path, query);
  const queue: string[] = [];
  let over = false;
  let wake = () => {};
  stream.onmessage = (message: MessageEvent<string>) => {
    queue.push(message.data);
    wake();
  };
  stream.onclose = () => {
    over = true;
    wake();
  };
  const close = () => stream.close();
  if (signal.aborted) close();
  signal.addEventListener("abort", close);
  while (!signal.aborted) {
    for (let next = queue.shift(); next !== undefined; next = queue.shift())
      for (const line of next.split("\n")) if (line) yield JSON.parse(line) as T;
    if (over) return;
    await new Promise<void>((resolve) => {
      wake = resolve;
    });
  }
}

async function send(method: string, path: string, options: Options): Promise<Response> {
  let response = await fetched(method, path, options);
  // The next daemon does not know the tokens of tabs; the cookie gets a new one.
  if (response.status === 401 && (await renew())) response = await fetched(method, path, options);
  if (response.ok) return response;
  const fault = await faultOf(response);
  if (response.status === 401) signedOut(fault.message);
  throw fault;
}

async function fetched(method: string, path: string, options: Options): Promise<Response> {
  const filled = path.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(options.path?.[name] ?? ""));
  const headers: Record<string, string> = {};
  if (tabToken()) headers["X-Holm-Tab"] = tabToken()!;
  if (options.body !== undefined) headers["Content-Type"] = "application/json";
  if (options.key) headers["Idempotency-Key"] = options.key;
  try {
    return await fetch(withQuery(filled, options.query), {
      method: method.toUpperCase(),
      headers,
      signal: options.signal,
      redirect: "error",
      body: options.body === undefined ? undefined : JSON.stringify(options.body),
    });
  } catch (cause) {
    if (options.signal?.aborted) throw cause;
    throw new Fault(0, "unreachable", "The daemon does not answer", "`holm daemon status` says whether it runs");
  }
}

async function faultOf(response: Response): Promise<Fault> {
  try {
    const { error } = (await response.json()) as { error: { code: string; message: string; hint?: string } };
    return new Fault(response.status, error.code, error.message, error.hint ?? "");
  } catch {
    return new Fault(response.status, "unknown", `The daemon answered ${response.status}`, "");
  }
}

function withQuery(path: string, query: unknown): string {
  const entries = Object.entries((query ?? {}) as Record<string, unknown>).flatMap(([name, value]) =>
    (Array.isArray(value) ? value : [value]).filter((one) => one !== undefined && one !== null).map((one) => [name, String(one)]),
  );
  return entries.length ? `${path}?${new URLSearchParams(entries)}` : path;
}
