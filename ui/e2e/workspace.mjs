// A workspace's page: a service stopped and started, live logs with filter, pause and time, terminals that are typed into and taken
// over, a refused address, snapshot, reset of a volume, fork, remove and undo.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { api, expect, holm, open, until, visit, workspace } from "./browser.mjs";

const { page, context, problems, close } = await open();
const { id, services } = await workspace(page, "e2e-work");
const name = services.at(-1).name;
const state = async () => (await api(page, `/workspaces/${id}/services`)).services.find((one) => one.name === name).state;
await visit(page, `/w/${id}`);
const row = page.locator(".svc__row", { hasText: name }).first();
await row.hover();
await row.getByRole("button", { name: `Stop ${name}` }).click();
await until(async () => (await state()) === "stopped", `${name} stopped`);
await page.waitForSelector(`.svc__row:has-text("${name}") [aria-label="stopped"]`);
await row.hover();
await row.getByRole("button", { name: `Start ${name}` }).click();
await until(async () => (await state()) === "ready", `${name} ready again`);
await page.waitForSelector(".log--rows > div");

await page.getByRole("button", { name: "Open a shell" }).click();
await page.waitForSelector(".xterm");
await page.keyboard.press("t");
await page.waitForSelector(".xterm textarea:focus");
await page.keyboard.type("echo $((6*7))-holm\n");
await page.waitForFunction(() => document.querySelector(".xterm-rows")?.textContent.includes("42-holm"));
await page.keyboard.press("Control+\\");
expect((await page.locator(".xterm textarea:focus").count()) === 0, "Ctrl-\\ to leave the terminal");

// A second terminal; a number chooses, and another tab watches until it takes over.
const rows = (text) => page.waitForFunction((text) => document.querySelector(".xterm-rows")?.textContent.includes(text), text);
await page.getByRole("button", { name: "New session" }).click();
await page.waitForFunction(() => document.querySelectorAll('[aria-label="Sessions"] [role=tab]').length === 2);
await page.keyboard.press("1");
await rows("42-holm");
const watcher = await context.newPage();
await visit(watcher, `/w/${id}`);
await watcher.keyboard.press("1");
await watcher.waitForFunction(() => document.querySelector(".xterm-rows")?.textContent.includes("42-holm"));
await watcher.getByRole("button", { name: "Take over" }).waitFor();
await watcher.keyboard.press("t");
await watcher.getByRole("button", { name: "Take over" }).waitFor({ state: "detached" });
await watcher.keyboard.type("echo $((6*8))-taken\n");
await rows("48-taken");
await page.getByRole("button", { name: "Take over" }).waitFor();

// Logs: a time to go to, a filter, a pause.
holm("exec", "e2e-work", "--", "curl", "-s", "-o", "/dev/null", "http://127.0.0.1:3000/line-[1-200]");
await page.waitForSelector('.log--rows:has-text("line-200")');
const scrolled = () => page.locator("#logs").evaluate((box) => box.scrollTop);
expect((await scrolled()) > 2000, "the newest lines at first");
await page.locator("[data-filter]").fill("00:00");
await until(async () => (await scrolled()) === 0, "the first line of the day");
await page.locator("[data-filter]").fill("-line");
await page.waitForFunction(() => !document.querySelector("#logs").textContent.includes("line-"));
await page.locator("[data-filter]").fill("");
await page.getByRole("button", { name: "Pause" }).click();
holm("exec", "e2e-work", "--", "curl", "-s", "-o", "/dev/null", "http://127.0.0.1:3000/while-paused");
await watcher.waitForSelector('.log--rows:has-text("while-paused")');
await page.locator("[data-filter]").fill("while-paused");
await page.waitForSelector('#logs:has-text("No line fits the filter")');
await page.getByRole("button", { name: "Go on" }).click();
await page.waitForSelector('.log--rows:has-text("while-paused")');
await watcher.close();

// "Allow this" of a refused address shows the line to add, and writes nothing.
const connect = "import socket; socket.socket().connect_ex(('10.1.2.3', 5432))";
holm("exec", "e2e-work", "--", "python3", "-c", connect);
await until(
  async () => (await api(page, `/workspaces/${id}/egress`)).egress.some((one) => one.kind === "refuse"),
  "the refusal in the record",
);
const settings = join(process.env.PROJECT, "holm.toml");
const before = readFileSync(settings, "utf8");
await visit(page, `/w/${id}`);
await page.getByRole("tab", { name: "Egress" }).click();
const sent = [];
const listen = (request) => request.method() !== "GET" && sent.push(`${request.method()} ${request.url()}`);
page.on("request", listen);
await page.locator("#egress tr", { hasText: "10.1.2.3:5432" }).getByRole("button", { name: "Allow this…" }).click();
const line = await page.locator(".sheet .cmdline code").textContent();
expect(line === 'allow = ["10.1.2.3:5432"]', `the line to add, not ${line}`);
await page.locator(".sheet").getByRole("button", { name: "Copy" }).click();
await page.waitForFunction((line) => navigator.clipboard.readText().then((copied) => copied === line), line);
await page.keyboard.press("Escape");
await page.waitForSelector(".sheet", { state: "detached" });
page.off("request", listen);
expect(sent.length === 0, `no request that writes: ${sent.join("; ")}`);
expect(readFileSync(settings, "utf8") === before, "holm.toml as before");

// Switched to by one key of the list: it holds the canonical ports, and its page is open.
await visitList();
await page.locator("[data-filter]").fill("e2e-work");
await page.keyboard.press("Escape");
await page.waitForSelector('.is-selected .o-label:has-text("e2e-work")');
await page.keyboard.press("w");
await page.waitForSelector('.bar__title:has-text("e2e-work")');
await until(async () => (await api(page, "/checkout")).checkout.some((port) => port.workspace === id), "the canonical ports");

await page.keyboard.press("p");
await page.locator("#ask-word").fill("e2e");
await page.keyboard.press("Enter");
await page.waitForSelector(".snaps >> text=e2e");

// A volume goes back to its beginning; the code stays.
holm("exec", "e2e-work", "--", "sh", "-c", "echo one > /data/store/rows");
await page.getByRole("button", { name: "Reset volume store…" }).click();
await page.waitForSelector('.ask-box__title:has-text("Reset volume store of")');
await page.locator(".ask-box .btn--danger").click();
await page.waitForSelector(".ask-box", { state: "detached" });
const found = holm("exec", "e2e-work", "--", "sh", "-c", "ls /data/store; cat README.md");
expect(found.trim() === "A shop", `an empty volume and the code: ${found}`);

// The page of all data has the snapshot, too.
await page.keyboard.press("g");
await page.keyboard.press("d");
const taken = page.getByRole("table", { name: "Snapshots" }).getByRole("row", { name: "e2e-work" });
await taken.getByRole("button", { name: "Reset to e2e" }).click();
await page.waitForSelector('.ask-box__title:has-text("e2e-work to e2e")');
await page.keyboard.press("Escape");
await taken.getByRole("button", { name: "Fork e2e" }).click();
await page.waitForSelector('.ask-box__title:has-text("Fork e2e of")');
await page.keyboard.press("Escape");
await taken.getByRole("link", { name: "e2e-work" }).click();
await page.waitForSelector('.bar__title:has-text("e2e-work")');
await page.keyboard.press("f");
await page.locator("#ask-word").fill("e2e-fork");
await page.keyboard.press("Enter");
await page.waitForSelector('.bar__title:has-text("e2e-fork")');
const fork = new URL(page.url()).pathname.split("/")[2];
await page.getByRole("button", { name: "Rename, restart, remove" }).click();
await page.getByRole("menuitem", { name: "Remove" }).click();
const live = async () => (await api(page, "/workspaces")).workspaces.some((one) => one.label === "e2e-fork");
await until(
  async () => {
    // A fork has the unsaved work of its origin, so it may be asked about.
    const lose = page.locator(".ask-box .btn--danger");
    if (await lose.count()) await lose.click();
    // The list loses the fork before the page has the answer, and only then `u` has something to undo.
    return page.locator('.toast:has-text("Removed")').count();
  },
  "the fork removed, whose processes have ten seconds to end",
  30_000,
);
expect(!(await live()), "the removed fork is not in the list");
await visitList();
await page.keyboard.press("u");
await until(live, "the fork restored by u");
// The page of the removed fork asks for what has just gone.
const unexpected = problems.filter((one) => !(one.includes("404") && one.includes(fork)));
expect(unexpected.length === 0, `no errors on the page: ${unexpected.join("; ")}`);
await close();
console.log("workspace: done");

/** By a link, because loading the page again would forget what can be undone. */
async function visitList() {
  await page.keyboard.press("g");
  await page.keyboard.press("w");
  await page.waitForSelector(".o");
}
