// Pictures of the main pages in the states and sizes of the design: OUT=directory node e2e/shots.mjs
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { api, BASE, open } from "./browser.mjs";

const out = process.env.OUT ?? "shots";
mkdirSync(out, { recursive: true });
const WIDE = [1440, 900];
const PHONE = [390, 844];

for (const [theme, size, names] of [
  ["light", WIDE, ["inbox", "overview", "review", "workspace", "compare", "data", "new", "palette", "help", "settings"]],
  ["dark", WIDE, ["inbox", "overview", "review", "workspace"]],
  ["light", PHONE, ["inbox", "overview", "review", "workspace"]],
]) {
  const { page, close } = await open({ theme, size });
  const { workspaces } = await api(page, "/workspaces");
  const { items } = await api(page, "/inbox").catch(() => ({ items: [] }));
  const first = items?.[0]?.workspace ?? workspaces[0].id;
  const paths = {
    inbox: "/inbox",
    overview: "/workspaces",
    review: `/w/${first}/review`,
    workspace: `/w/${first}`,
    compare: `/compare?${workspaces
      .slice(0, 3)
      .map((one) => `w=${one.id}`)
      .join("&")}`,
    data: "/data",
    new: "/new",
    palette: "/workspaces",
    help: "/workspaces",
    settings: "/settings/health",
  };
  for (const name of names) {
    await page.goto(BASE + paths[name]);
    await page.waitForSelector(".bar");
    if (name === "palette") {
      await page.keyboard.press("Control+k");
      await page.keyboard.type("re");
    }
    if (name === "help") await page.keyboard.press("?");
    // Numbers, colours and the terminal arrive after the page; a picture has no condition to wait for.
    await page.waitForTimeout(1500);
    await page.screenshot({ path: join(out, `${name}-${size === PHONE ? "phone" : theme}.png`) });
  }
  await close();
}
const gate = await open({ code: "" });
await gate.page.screenshot({ path: join(out, "signin-light.png") });
await gate.close();
console.log(`pictures in ${out}`);
