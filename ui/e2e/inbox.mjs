// By keyboard only: an agent asks in its terminal, the item appears, the answer is typed in place and reaches the session.
import { api, expect, open, until, visit, workspace } from "./browser.mjs";

const { page, problems, close } = await open();
const { id } = await workspace(page, "e2e-inbox");
const script = "printf '\\033[31mWhich one?\\033[m\\n  1. First\\n  2. Second\\n> \\a'; read answer; echo \"got $answer\"; sleep 60";
const session = await api(page, `/workspaces/${id}/sessions`, "POST", { command: ["sh", "-c", script], name: "asker" });
await visit(page, "/workspaces");
await page.keyboard.press("g");
await page.keyboard.press("i");
await page.waitForSelector('.mail:has-text("e2e-inbox")');
for (let i = 0; i < 20 && !(await page.locator('.mail.is-selected:has-text("e2e-inbox")').count()); i += 1)
  await page.keyboard.press("j");
await page.waitForSelector('.excerpt .a-red:has-text("Which one?")');
await page.waitForSelector('.mail.is-selected .mail__text:has-text("Which one?")');
await page.waitForSelector('.ask__title:has-text("Which one?")');
expect((await page.locator(".reply__quick .btn").count()) === 2, "two quick answers");
// Muting shows the line for the settings.
await page.keyboard.press("m");
const line = await page.locator(".sheet .cmdline code").textContent();
expect(line === 'mute = ["question"]', `the line to add, not ${line}`);
await page.keyboard.press("Escape");
await page.waitForSelector(".sheet", { state: "detached" });
await page.keyboard.press("i");
await page.waitForSelector("#reply:focus");
await page.keyboard.type("the second");
// A field has the keys: n would open the form for a new workspace.
await page.keyboard.type(" n");
expect((await page.locator(".sheet").count()) === 0, "no key to act while a field has the focus");
await page.keyboard.press("Control+Enter");
await until(
  async () => (await api(page, `/workspaces/${id}/sessions/${session.id}/read`)).text.includes("got the second n"),
  "the answer in the terminal",
);
// The answered question is among the closed items, and leads to its workspace.
await page.waitForSelector('.mail:has-text("e2e-inbox"):has-text("question")', { state: "detached" });
await page.waitForSelector('.inbox__end:has-text("closed today")');
await page.getByRole("button", { name: "Closed" }).press("Enter");
await page.waitForSelector('.mail:has-text("e2e-inbox"):has-text("question")');
await page.waitForSelector('.mail.is-selected .mail__act:has-text("Open")');
await page.waitForSelector('.ask__meta:has-text("closed")');
await page.keyboard.press("Escape");
await page.keyboard.press("o");
await page.waitForSelector('.bar__title:has-text("e2e-inbox")');
expect(problems.length === 0, `no errors on the page: ${problems.join("; ")}`);
await close();
console.log("inbox: done");
