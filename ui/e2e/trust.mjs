// A workspace with the uncommitted state of the checkout, whose holm.toml asks for a secret: the form shows the request, the person
// trusts exactly that content, and the workspace is made. The settings show the same decision.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { api, expect, open, takeRefusals, visit } from "./browser.mjs";

const { page, problems, close } = await open();
const project = (await api(page, "/projects")).projects[0];
const file = join(process.env.PROJECT, "holm.toml");
const before = readFileSync(file, "utf8");
writeFileSync(file, `${before}\n[secrets.E2E_KEY]\nfrom = { env = "E2E_KEY" }\nto = ["runs"]\n`);
await visit(page, "/new");
await page.locator("#n-project").fill(project.name);
await page.locator("#n-label").fill("e2e-trust");
await page.getByRole("checkbox", { name: /uncommitted state/ }).check();
await page.waitForSelector('.check:has-text("1 file, +4")');
await page.keyboard.press("Control+Enter");
await page.waitForSelector('.ask-trust:has-text("secrets.E2E_KEY")');
// The form shows the request before the daemon refuses the workspace.
expect((await takeRefusals(problems)).length === 1, "one refused request");
const made = async () => (await api(page, "/workspaces?label=e2e-trust")).workspaces.length;
expect((await made()) === 0, "no workspace before the decision");
await page.getByRole("button", { name: "Trust this content" }).click();
await page.waitForSelector('.bar__title:has-text("e2e-trust")', { timeout: 60_000 });
expect((await made()) === 1, "the workspace after the decision");
const { questions } = await api(page, `/projects/${project.id}/trust?dirty=true`);
expect(questions.length === 1 && questions[0].approved, "the approval of what was shown");
// What the checkout's commit asks for is another question, and it asks for nothing.
await visit(page, "/settings/trust");
await page.waitForSelector('.trust:has-text("It asks for nothing")');
writeFileSync(file, before);
expect(problems.length === 0, `no errors on the page: ${problems.join("; ")}`);
await close();
console.log("trust: done");
