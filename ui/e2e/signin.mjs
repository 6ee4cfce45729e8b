// A code works once; another tab needs only the cookie; after signing out a stale tab keeps its text and can do nothing.
import { BASE, expect, nextCode, open, until, visit } from "./browser.mjs";

const stranger = await open({ code: "" });
await stranger.page.waitForSelector(".gate >> text=holm ui");
const refused = await stranger.page.evaluate(async () => (await fetch("/api/v1/workspaces")).status);
expect(refused === 401, `401 without a sign-in, not ${refused}`);
await stranger.close();

const code = nextCode();
const { page, context, close } = await open({ code });
await page.waitForSelector(".app");
expect(!page.url().includes("code"), "the code gone from the address");
const used = await open({ code });
await used.page.waitForSelector(".gate .gate__err");
await used.close();

const other = await context.newPage();
await other.goto(`${BASE}/new`);
await other.waitForSelector("#n-msg");
await other.locator("#n-msg").fill("typed in the other tab");
await visit(page, "/settings/look");
await page.getByRole("button", { name: "Sign out" }).click();
await page.waitForSelector(".gate");
await until(async () => {
  await other.evaluate(() =>
    fetch("/api/v1/workspaces", { headers: { "X-Holm-Tab": sessionStorage.getItem("holm.tab") ?? "" } }),
  );
  await other.keyboard.press("Control+Enter");
  return (await other.locator("text=This tab is signed out").count()) > 0;
}, "the stale tab to say that it is signed out");
expect((await other.locator("#n-msg").inputValue()) === "typed in the other tab", "the typed text in the stale tab");
await close();
console.log("signin: done");
