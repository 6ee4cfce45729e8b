// What every flow shares: Debian's Chromium, signed in with a code, and a list of everything that went wrong on the page.
//   BASE: the page's address · CODE: a sign-in code, or CODES: several, one for each browser that a flow opens
//   HOLM: the program, run in the directory PROJECT, a repository like examples/shop
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
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
export async function until(check, what, limit = 30_000) {
  const end = Date.now() + limit;
  while (Date.now() < end) {
    if (await check()) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error(`waited for: ${what}`);
}

/** Takes the browser's messages about refused requests out of `problems`, and waits for the first. The page may show why before they arrive. */
export async function takeRefusals(problems) {
  await until(() => problems.length > 0, "a refused request");
  const refused = problems.splice(0);
  expect(refused.every((one) => /status of 4\d\d/.test(one)), `only refusals, not ${refused.join("; ")}`);
  return refused;
}
