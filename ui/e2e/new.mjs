// By keyboard only: a new workspace from the form; its page opens and shows ready services. A bad name keeps the form. Another
// one from a turn of the first.
import { appendFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { api, expect, holm, open, takeRefusals, visit } from "./browser.mjs";

appendFileSync(join(process.env.PROJECT, ".git/info/exclude"), ".env.local\n");
writeFileSync(join(process.env.PROJECT, ".env.local"), "KEY=local\n");
const { page, problems, close } = await open();
const project = (await api(page, "/projects")).projects[0].name;
await visit(page, "/inbox");
await page.keyboard.press("n");
await page.waitForSelector("#n-msg:focus");
await page.locator("#n-project").fill(project);
await page.locator("#n-label").fill("Not A Label!");
await page.keyboard.press("Control+Enter");
await page.waitForSelector(".sheet .note--failed");
expect((await takeRefusals(problems)).length === 1, "one refused request");
await page.locator("#n-label").fill("e2e-new");
// The branch is found while typing, and taken with the keys of a list.
await page.locator("#n-ref").fill("mai");
await page.waitForSelector('#n-refs [role=option]:has-text("main")');
await page.keyboard.press("ArrowDown");
await page.keyboard.press("Enter");
expect((await page.locator("#n-ref").inputValue()) === "main", "the branch from the list");
// A settings file that git ignores is named, and comes along when it is wanted.
await page.waitForSelector('.will:has-text("Not brought: .env.local is ignored by git")');
await page.getByRole("button", { name: "Include it" }).press("Enter");
await page.waitForSelector('.sheet__go code:has-text("--include .env.local")');
await page.locator("#n-label").focus();
await page.keyboard.press("Control+Enter");
await page.waitForSelector('.bar__title:has-text("e2e-new")', { timeout: 60_000 });
expect(holm("exec", "e2e-new", "--", "cat", ".env.local") === "KEY=local\n", "the ignored file");
await page.waitForSelector('.svc__row [aria-label="ready"]', { timeout: 60_000 });
// From a turn of that workspace: its files come along, uncommitted.
holm("run", "e2e-new", "--", "sh", "-c", "echo first > turn.txt");
holm("exec", "e2e-new", "--", "sh", "-c", "echo later > turn.txt");
await page.keyboard.press("n");
await page.waitForSelector("#n-msg:focus");
await page.locator("#n-project").fill(project);
await page.locator("#n-label").fill("e2e-turn");
await page.locator("#n-ref").fill("e2e-new@");
await page.waitForSelector('#n-refs [role=option]:has-text("e2e-new@1")');
await page.keyboard.press("ArrowDown");
await page.waitForSelector('#n-refs [aria-selected=true]:has-text("e2e-new@1")');
await page.keyboard.press("Enter");
await page.waitForSelector('.sheet__go code:has-text("holm up e2e-turn --at e2e-new@1")');
await page.keyboard.press("Control+Enter");
await page.waitForSelector('.bar__title:has-text("e2e-turn")', { timeout: 60_000 });
expect(holm("exec", "e2e-turn", "--", "cat", "turn.txt") === "first\n", "the file of the turn");
expect(problems.length === 0, `no errors on the page: ${problems.join("; ")}`);
await close();
console.log("new: done");
