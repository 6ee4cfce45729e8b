// A server for working on the page: target/ui with the page's real policy, and the API of a running daemon behind it.
// It asks for no code, so it binds to loopback only and is no part of the product.
//   HOLM_TOKEN=$(holm token new …) HOLM_PORT=7070 node dev.mjs [--port 7400] [--hook FILE]
// A hook answers routes that the daemon does not have yet: export async function handle(url, method, api) → { status, body } | null.
import http from "node:http";
import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { extname, join, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const argument = (name, otherwise) => {
  const at = process.argv.indexOf(`--${name}`);
  return at < 0 ? otherwise : process.argv[at + 1];
};
const port = Number(argument("port", "7400"));
const daemon = Number(process.env.HOLM_PORT ?? 7070);
const token = process.env.HOLM_TOKEN ?? "";
const out = process.env.HOLM_UI_OUT ?? fileURLToPath(new URL("../target/ui", import.meta.url));
const hook = argument("hook") ? await import(pathToFileURL(resolve(argument("hook")))) : null;
const TYPES = {
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".html": "text/html; charset=utf-8",
};

const policy = (nonce) =>
  [
    "default-src 'none'",
    "script-src 'self'",
    `style-src 'self' 'nonce-${nonce}'`,
    "img-src 'self' data:",
    "font-src 'self'",
    `connect-src 'self' ws://holm.localhost:${port}`,
    "form-action 'none'",
    "frame-ancestors 'none'",
    "base-uri 'none'",
    "require-trusted-types-for 'script'",
  ].join("; ");

const json = (response, status, body) => {
  response.writeHead(status, { "Content-Type": "application/json" });
  response.end(JSON.stringify(body));
};
const upstream = (headers) => ({
  host: "127.0.0.1",
  port: daemon,
  headers: { ...headers, host: `localhost:${daemon}`, authorization: `Bearer ${token}` },
});
const forwarded = ({ host, origin, referer, cookie, connection, "x-holm-tab": _, "sec-fetch-site": __, ...rest }) => rest;

/** One request to the daemon, for hooks. */
const api = (path, type = "json") =>
  new Promise((done, fail) => {
    http
      .get({ ...upstream({}), path }, (answer) => {
        const parts = [];
        answer
          .on("data", (part) => parts.push(part))
          .on("end", () => {
            const text = Buffer.concat(parts).toString();
            done(type === "json" ? JSON.parse(text) : text);
          });
      })
      .on("error", fail);
  });

const server = http.createServer(async (request, response) => {
  const url = new URL(request.url, `http://holm.localhost:${port}`);
  if (url.pathname === "/ui/login" || url.pathname === "/ui/tab") return json(response, 200, { token: "dev" });
  if (url.pathname === "/ui/logout") return json(response, 200, {});
  if (url.pathname === "/ui/ticket") return json(response, 200, { ticket: randomBytes(9).toString("hex") });
  if (url.pathname === "/ui/state") return json(response, 200, { version: "dev", port, home: process.env.HOME });
  if (url.pathname.startsWith("/api/")) {
    const answer =
      hook &&
      (await hook.handle(url, request.method, api).catch((cause) => ({
        status: 500,
        body: { error: { code: "hook", message: String(cause), hint: "" } },
      })));
    if (answer) return json(response, answer.status, answer.body);
    const onward = http.request(
      { ...upstream(forwarded(request.headers)), method: request.method, path: request.url },
      (answered) => {
        response.writeHead(answered.statusCode, answered.headers);
        answered.pipe(response);
      },
    );
    onward.on("error", () => {
      if (!response.headersSent)
        json(response, 502, {
          error: { code: "unreachable", message: "The daemon does not answer", hint: "" },
        });
      else response.destroy();
    });
    response.on("close", () => onward.destroy());
    request.pipe(onward);
    return;
  }
  const asset = url.pathname.startsWith("/assets/") && !url.pathname.includes("..") ? url.pathname.slice(1) : "index.html";
  try {
    const nonce = randomBytes(16).toString("base64");
    let body = readFileSync(join(out, asset));
    if (asset === "index.html") body = body.toString().replace("__NONCE__", nonce);
    response.writeHead(200, {
      "Content-Type": TYPES[extname(asset)] ?? "application/octet-stream",
      "Content-Security-Policy": policy(nonce),
      "Cache-Control": "no-store",
    });
    response.end(body);
  } catch {
    json(response, 404, {});
  }
});

server.on("upgrade", (request, socket, head) => {
  const { "sec-websocket-protocol": _, "sec-websocket-extensions": __, ...headers } = forwarded(request.headers);
  const onward = http.request({
    ...upstream({ ...headers, connection: "Upgrade", upgrade: "websocket" }),
    path: request.url,
  });
  onward.on("upgrade", (answer, other, rest) => {
    const lines = Object.entries(answer.headers).map(([name, value]) => `${name}: ${value}`);
    socket.write(["HTTP/1.1 101 Switching Protocols", ...lines, "sec-websocket-protocol: holm", "", ""].join("\r\n"));
    if (rest.length) socket.write(rest);
    if (head.length) other.write(head);
    socket.pipe(other).pipe(socket);
    for (const one of [socket, other])
      one
        .on("error", () => {
          socket.destroy();
          other.destroy();
        })
        .on("close", () => {
          socket.destroy();
          other.destroy();
        });
  });
  onward.on("response", (answer) => {
    console.error("upgrade refused", request.url, answer.statusCode);
    socket.destroy();
  });
  onward.on("error", () => socket.destroy());
  onward.end();
});

server.listen(port, "127.0.0.1", () => console.log(`http://holm.localhost:${port}/`));
