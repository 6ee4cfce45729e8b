// The settings and the page of all data: a secret stored and deleted, a token shown once and revoked, the audit of both, the doctor,
// a workspace restored from the trash; the palette, all keys, and the theme.
import { api, expect, holm, open, until, visit, workspace } from "./browser.mjs";

const { page, problems, close } = await open();
await visit(page, "/settings/secrets");
await page.getByLabel("Name").fill("E2E_SECRET");
await page.getByLabel("Value").fill("never shown");
await page.keyboard.press("Enter");
const stored = page.getByRole("row", { name: "E2E_SECRET" });
await stored.waitFor();
expect(!(await page.content()).includes("never shown"), "no value on the page");
await stored.getByRole("button", { name: "Delete" }).click();
await stored.waitFor({ state: "detached" });

await page.getByRole("link", { name: "Tokens" }).click();
await page.getByLabel("Name").fill("e2e-token");
await page.keyboard.press("Enter");
const shown = await page.locator(".note--needs code").textContent();
const { port } = await api(page, "/daemon");
// A revoked token's connections are cut, perhaps in the middle of a request.
const status = () =>
  fetch(`http://127.0.0.1:${port}/api/v1/workspaces`, { headers: { Authorization: `Bearer ${shown}` } }).then(
    (answer) => answer.status,
    () => 0,
  );
expect((await status()) === 200, "a token that works");
await page.getByRole("row", { name: "e2e-token" }).getByRole("button", { name: "Revoke" }).click();
await until(async () => (await status()) === 401, "the token revoked");

await page.getByRole("link", { name: "Audit" }).click();
await page.getByPlaceholder("approve, token").fill("secrets");
await page.waitForSelector('.set tr:has-text("PUT /secrets")');
await page.waitForSelector('.set tr:has-text("DELETE /secrets")');
await page.getByRole("link", { name: "Health" }).click();
await page.waitForSelector('.set tr:has-text("seccomp")');

// Removed at the command line; the row with its restore appears by itself.
await workspace(page, "e2e-trash");
await visit(page, "/data");
await page.waitForSelector('.sh__ws:has-text("e2e-trash")');
holm("rm", "e2e-trash", "--force");
const trashed = page.getByRole("table", { name: "Trash" }).getByRole("row", { name: "e2e-trash" });
await trashed.getByText("7 d left").or(trashed.getByText("6 d left")).waitFor();
await trashed.getByRole("button", { name: "Restore" }).click();
await page.waitForSelector('.sh__ws:has-text("e2e-trash")');
await trashed.waitFor({ state: "detached" });

await page.keyboard.press("?");
await page.waitForSelector('.help:has-text("find or do anything")');
await page.keyboard.press("Escape");
await page.keyboard.press("Control+k");
await page.keyboard.type("settings");
await page.keyboard.press("Enter");
await page.waitForSelector('.bar__title:has-text("Settings")');
await page.getByRole("link", { name: "This browser" }).click();
await page.getByRole("button", { name: "Dark", exact: true }).click();
const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
const dark = await ground();
await page.getByRole("button", { name: "Light", exact: true }).click();
expect(dark !== (await ground()), "another ground in the dark");
expect(problems.length === 0, `no errors on the page: ${problems.join("; ")}`);
await close();
console.log("settings: done");
