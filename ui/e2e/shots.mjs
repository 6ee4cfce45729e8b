// Pictures of the main pages in the states and sizes of the design: OUT=directory node e2e/shots.mjs
// The workspaces are those that scripts/screenshots makes.
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { api, open, visit } from "./browser.mjs";

const out = process.env.OUT ?? "shots";
mkdirSync(out, { recursive: true });
const WIDE = [1440, 900];
const PHONE = [390, 844];
/** For the README. */
const SMALL = [1120, 700];
const PAGES = ["inbox", "overview", "review", "workspace"];
const MORE = ["merge", "compare", "data", "new", "palette", "help", "health", "trust", "secrets", "tokens", "trash", "audit", "look"];
/** What is there once a page has its answers. */
const READY = {
  inbox: ".mail",
  overview: ".o-label",
  review: ".file .d",
  merge: ".mp__say",
  workspace: ".ws__facts .limits",
  compare: ".cmp tbody td",
  data: ".total__say",
  new: "#n-refs [role=option]",
  palette: ".pal__row",
  trust: ".trust",
};

for (const [theme, size, names] of [
  ["light", WIDE, [...PAGES, ...MORE]],
  ["dark", WIDE, [...PAGES, "merge", "new"]],
  ["light", PHONE, [...PAGES, "merge", "new", "compare", "data"]],
  ["light", SMALL, ["inbox", "review"]],
]) {
  const { page, close } = await open({ theme, size });
  const { workspaces } = await api(page, "/workspaces");
  const id = (label) => workspaces.find((one) => one.label === label).id;
  const paths = {
    inbox: "/inbox",
    overview: "/workspaces",
    review: `/w/${id("fix-login")}/review?since=base`,
    merge: `/w/${id("fix-login")}/review?since=merge`,
    workspace: `/w/${id("fix-login")}`,
    compare: `/compare?${["cart-race", "rate-limits", "upgrade-node"].map((label) => `w=${id(label)}`).join("&")}`,
    data: "/data",
    new: "/new",
    palette: "/workspaces",
    help: "/workspaces",
    look: "/settings/look",
  };
  for (const name of names) {
    await visit(page, paths[name] ?? `/settings/${name}`);
    if (name === "palette") {
      await page.keyboard.press("Control+k");
      await page.keyboard.type("fix");
    }
    if (name === "help") await page.keyboard.press("?");
    if (name === "new") {
      await page.locator("#n-msg").fill("Two customers can reserve the last item at the same time. Reproduce it with a test.");
      for (const agent of ["claude", "codex"]) await page.getByRole("button", { name: `More ${agent}` }).click();
      await page.locator("#n-label").fill("cart-race");
      await page.getByRole("checkbox", { name: /uncommitted state/ }).check();
      await page.locator("#n-ref").focus();
    }
    if (name === "inbox" && size !== PHONE) await page.locator(".mail", { hasText: "checkout-tax" }).click();
    if (READY[name]) await page.waitForSelector(READY[name], { state: "attached" });
    // Colours, sparklines and the terminal are drawn after the answers; a picture has no condition for them.
    await page.waitForTimeout(1000);
    await page.screenshot({ path: join(out, `${name}-${size === PHONE ? "phone" : size === SMALL ? "small" : theme}.png`) });
  }
  await close();
}
const gate = await open({ code: "" });
await gate.page.screenshot({ path: join(out, "signin-light.png") });
await gate.close();
console.log(`pictures in ${out}`);
