// By keyboard only: two siblings that changed the same file, with their conflict; one message to both agents; a file opened in
// the review.
import { api, expect, holm, open, until, visit, workspace } from "./browser.mjs";

const { page, problems, close } = await open();
const labels = ["e2e-left", "e2e-right"];
const ids = [];
for (const label of labels) {
  ids.push((await workspace(page, label)).id);
  holm("run", label, "--", "sh", "-c", `echo ${label} > same.txt; echo x > z-${label}.txt`);
}
holm("session", "new", "e2e-left", "--agent", "listener");
await visit(page, `/compare?${ids.map((id) => `w=${id}`).join("&")}`);
const row = (name) => page.locator(".cmp tr", { has: page.locator(`th:has-text("${name}")`) });
await row("With live siblings").locator('td:has-text("1 file with e2e-right: same.txt")').waitFor();
await row("With live siblings").locator('td:has-text("1 file with e2e-left: same.txt")').waitFor();
expect((await row("Merge into main").locator('td:has-text("clean")').count()) === 2, "nothing in the way of a merge");

// A workspace without an agent's session is named, and gets nothing.
await page.keyboard.press("m");
await page.waitForSelector("#follow-up:focus");
await page.waitForSelector('.ask-box li:has-text("e2e-right"):has-text("gets no message")');
await page.waitForSelector('.ask-box .btn:has-text("Send to 1 session")');
holm("session", "new", "e2e-right", "--agent", "listener");
await page.waitForSelector('.ask-box .btn:has-text("Send to 2 sessions")');
await page.keyboard.type("Add a test, please");
await page.keyboard.press("Control+Enter");
await page.waitForSelector('.toast:has-text("Sent to 2 sessions")');
for (const label of labels)
  await until(() => holm("exec", label, "--", "cat", "/tmp/got").includes("Add a test, please"), `the message in ${label}`);

await page.keyboard.press("2");
await page.keyboard.press("j");
await page.keyboard.press("j");
await page.keyboard.press("j");
await page.waitForSelector('.cmp tr.is-selected:has-text("z-e2e-right.txt")');
await page.keyboard.press("Enter");
await page.waitForSelector('.tree__file[aria-current="true"][title="z-e2e-right.txt"]');
expect(new URL(page.url()).pathname === `/w/${ids[1]}/review`, `the review of e2e-right, not ${page.url()}`);
expect((await api(page, `/workspaces/${ids[1]}/turns`)).turns.length === 1, "a look records nothing");
expect(problems.length === 0, `no errors on the page: ${problems.join("; ")}`);
await close();
console.log("compare: done");
