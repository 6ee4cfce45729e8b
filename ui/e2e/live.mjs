// Two browsers see one change because the daemon tells them, not because they ask again; many tabs of one browser do not block each other; a daemon killed under the page
// costs no typed text, and logs go on with the next one.
import { api, expect, holm, open, until, visit, workspace } from "./browser.mjs";

const one = await open();
const two = await open();
const { id } = await workspace(one.page, "e2e-live");
await visit(one.page, `/w/${id}`);
await visit(two.page, "/workspaces");
await two.page.waitForSelector(".o-label >> text=e2e-live");
await one.page.keyboard.press("F2");
await one.page.locator("#ask-word").fill("e2e-lively");
const lists = [];
two.page.on("request", (request) => request.url().endsWith("/api/v1/workspaces") && lists.push(request.url()));
const begin = Date.now();
await one.page.keyboard.press("Enter");
await two.page.waitForSelector(".o-label >> text=e2e-lively");
console.log(`live: the other browser has the new name after ${Date.now() - begin} ms`);
expect(lists.length === 0, "the other browser did not ask for the list again");
await api(one.page, `/workspaces/${id}`, "PATCH", { label: "e2e-live" });

// A browser has six connections for a host; pages that follow logs and services keep none of them.
const tabs = [];
for (let i = 0; i < 4; i += 1) {
  const tab = await one.context.newPage();
  await visit(tab, `/w/${id}`);
  await tab.waitForSelector('.svc__row [aria-label="ready"]');
  tabs.push(tab);
}
const [log] = tabs;
await api(log, `/workspaces/${id}`);
for (const tab of tabs.slice(1)) await tab.close();
const request = (path) => holm("exec", "e2e-live", "--", "curl", "-s", "-o", "/dev/null", `http://127.0.0.1:3000/${path}`);
request("before-the-kill");
await log.waitForSelector('.log--rows:has-text("before-the-kill")');

await visit(one.page, "/new");
await one.page.locator("#n-msg").fill("typed before the daemon died");
const { pid } = await api(one.page, "/daemon");
process.kill(pid, "SIGKILL");
await one.page.waitForSelector(".banner >> text=Connection lost");
expect((await one.page.locator("#n-msg").inputValue()) === "typed before the daemon died", "the typed text");
holm("ls");
await until(
  async () => (await one.page.locator(".banner >> text=Connection lost").count()) === 0,
  "the page to find the next daemon",
);
expect(
  (await one.page.locator("#n-msg").inputValue()) === "typed before the daemon died",
  "the typed text after the reconnection",
);
await log.waitForSelector(".banner >> text=Connection lost", { state: "detached" });
request("after-the-kill");
await log.waitForSelector('.log--rows:has-text("after-the-kill")');
await one.close();
await two.close();
console.log("live: done");
