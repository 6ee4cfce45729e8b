// What every flow shares: Debian's Chromium, signed in with a code, and a list of everything that went wrong on the page.
//   BASE: the page's address · CODE: a sign-in code, or CODES: several, one for each browser that a flow opens
//   PAGE: a directory with a built page that replaces the one in the program
//   HOLM: the program, run in the directory PROJECT, a repository like examples/shop
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { extname, join } from "node:path";
import { chromium } from "playwright-core";

export const BASE = process.env.BASE ?? "http://holm.localhost:7400";

const codes = (process.env.CODES ?? process.env.CODE ?? "").split(" ").filter(Boolean);
/** The next unused code; where HOLM can make one, it does. */
export function nextCode() {
  const given = codes.shift();
  if (given) return given;
  const printed = holm("ui", "--print");
  return /#code=(\S+)/.exec(printed)?.[1];
}

/** Runs holm as the user at a terminal would. */
export function holm(...words) {
  const [program, ...before] = (process.env.HOLM ?? "holm").split(" ");
  return execFileSync(program, [...before, ...words], {
    cwd: process.env.PROJECT,
    encoding: "utf8",
    stdio: ["ignore", "pipe", "pipe"],
  });
}

/** A request of the signed-in page itself; a refusal is an error. */
export async function api(page, path, method = "GET", body = undefined) {
  const [status, answer] = await page.evaluate(
    async ([path, method, body]) => {
      const headers = {
        "X-Holm-Tab": sessionStorage.getItem("holm.tab") ?? "",
        ...(body ? { "Content-Type": "application/json" } : {}),
      };
      const response = await fetch(`/api/v1${path}`, { method, headers, body: body && JSON.stringify(body) });
      return [response.status, await response.json()];
    },
    [path, method, body],
  );
  if (status >= 400) throw new Error(`${method} ${path}: ${status} ${JSON.stringify(answer)}`);
  return answer;
}

/** The id of a workspace with this label, made if there is none. */
export async function workspace(page, label) {
  const find = async () => (await api(page, `/workspaces?label=${label}`)).workspaces[0];
  if (!(await find())) holm("up", label);
  return await find();
}

/** Opens a browser; the caller closes it. `size` is [width, height]. */
export async function open({ size = [1440, 900], theme = "light", code = nextCode() } = {}) {
  const profile = mkdtempSync(join(tmpdir(), "holm-ui-"));
  const context = await chromium.launchPersistentContext(profile, {
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    headless: true,
    viewport: { width: size[0], height: size[1] },
    colorScheme: theme,
    reducedMotion: "reduce",
    permissions: ["clipboard-read", "clipboard-write"],
    args: [
      "--no-sandbox",
      "--disable-gpu",
      "--disable-quic",
      "--no-first-run",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
      "--host-resolver-rules=MAP *.localhost 127.0.0.1",
    ],
  });
  if (process.env.PAGE) await replacePage(context, process.env.PAGE);
  const page = context.pages()[0] ?? (await context.newPage());
  const problems = [];
  page.on("console", (message) => {
    if (message.type() === "error") problems.push(`${message.text()} ${message.location().url}`);
  });
  page.on("pageerror", (error) => problems.push(String(error)));
  await page.goto(`${BASE}/${code ? `#code=${code}` : ""}`);
  await page.waitForSelector(".app, .gate");
  return {
    page,
    context,
    problems,
    close: async () => {
      await context.close();
      rmSync(profile, { recursive: true, force: true });
    },
  };
}

const TYPES = { ".js": "text/javascript", ".css": "text/css", ".html": "text/html" };

/** Answers for the page with the files of a directory; the API stays the daemon's. */
async function replacePage(context, directory) {
  const nonce = "bm9uY2UtZm9yLXRlc3Rz";
  const policy = `default-src 'none'; script-src 'self'; style-src 'self' 'nonce-${nonce}'; img-src 'self' data:; font-src 'self'; connect-src 'self' ${BASE.replace("http", "ws")}; form-action 'none'; frame-ancestors 'none'; base-uri 'none'; require-trusted-types-for 'script'`;
  await context.route(
    (url) => url.origin === BASE && !/^\/(api|ui|mcp|health|metrics)(\/|$)/.test(url.pathname),
    (route) => {
      const path = new URL(route.request().url()).pathname;
      const file = path.startsWith("/assets/") ? path.slice(1) : "index.html";
      const body = readFileSync(join(directory, file), "utf8").replace("__NONCE__", nonce);
      return route.fulfill({
        status: 200,
        contentType: `${TYPES[extname(file)]}; charset=utf-8`,
        headers: { "content-security-policy": policy },
        body,
      });
    },
  );
}

/** Loads a deep link and waits until the store is filled. */
export async function visit(page, path) {
  await page.goto(BASE + path);
  await page.waitForSelector(".bar, .gate");
  await page.waitForFunction(() => document.querySelector(".side__where")?.textContent);
}

export function expect(condition, what) {
  if (!condition) throw new Error(`expected: ${what}`);
}

/** Waits until `check` is true in Node. */
export async function until(check, what, limit = 10_000) {
  const end = Date.now() + limit;
  while (Date.now() < end) {
    if (await check()) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error(`waited for: ${what}`);
}
