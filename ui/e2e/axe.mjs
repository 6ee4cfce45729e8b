// Every page and dialog in light and dark, wide and narrow: axe finds nothing, and the page logs no error.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { api, open, visit } from "./browser.mjs";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** Each address with what only this page has, once it has its answers. */
const PLACES = [
  ["/inbox", '.bar__title:has-text("Inbox")'],
  ["/workspaces", ".o .o-label"],
  ["/data", ".total__say"],
  ["/new", "#n-refs [role=option]"],
  ["/settings/health", '.set tr:has-text("seccomp")'],
  ["/settings/trash", '.set .h:has-text("Trash")'],
  ["/settings/trust", '.set .h:has-text("Trust")'],
  ["/settings/secrets", '.set .h:has-text("Secrets")'],
  ["/settings/audit", '.set tr:has-text("POST")'],
  ["/settings/tokens", '.set .h:has-text("Tokens") ~ .wide tbody tr'],
  ["/settings/look", '.set .h:has-text("This browser")'],
];
const ofWorkspace = (id) => [
  [`/w/${id}`, ".ws__facts .limits"],
  [`/w/${id}#timeline`, ".time li"],
  [`/w/${id}#egress`, "#egress"],
  [`/w/${id}#runs`, "#runs"],
  [`/w/${id}/review`, ".rv__diff .file, .rv .empty"],
  [`/w/${id}/review?since=merge`, ".mp__say, .mp .note, .mp .empty"],
];
/** What floats: where it opens, the key or button that opens it, and what it is. */
const FLOATING = (id) => [
  ["/workspaces", "Control+k", ".pal__row"],
  ["/workspaces", "?", ".help"],
  [`/w/${id}`, "F2", "#ask-word"],
  [`/w/${id}`, "f", "#ask-word"],
  [`/w/${id}`, "p", "#ask-word"],
  [`/w/${id}`, "Change…", ".sheet"],
];

let bad = 0;
for (const theme of ["light", "dark"]) {
  for (const size of [
    [1440, 900],
    [390, 844],
  ]) {
    const { page, problems, close } = await open({ theme, size });
    await visit(page, "/workspaces");
    // The policy of the page takes no script from elsewhere; the debugger's protocol is not the page.
    await page.evaluate(axe);
    const scan = async (what) => {
      // Two frames: the answers are drawn.
      await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))));
      const found = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
      for (const one of found.violations) {
        bad += 1;
        const nodes = one.nodes.map((node) => `${node.target.join(" ")} ${node.any[0]?.message ?? ""}`);
        console.error(`${theme} ${size[0]} ${what}: ${one.id}: ${nodes.slice(0, 3).join(" | ")}`);
      }
    };
    const { workspaces } = await api(page, "/workspaces");
    const ids = workspaces.slice(0, 2).map((one) => one.id);
    const compare = [`/compare?${ids.map((id) => `w=${id}`).join("&")}`, ".cmp tbody td"];
    for (const [path, ready] of [...PLACES, ...ofWorkspace(ids[0]), compare]) {
      await follow(page, path);
      await page.waitForSelector(ready, { state: "attached" });
      await scan(path);
    }
    for (const [path, opener, ready] of size[0] > 720 ? FLOATING(ids[0]) : []) {
      await follow(page, path);
      await page.waitForSelector(path.startsWith("/w/") ? ".ws__facts .limits" : ".o", { state: "attached" });
      if (opener.endsWith("…")) await page.getByRole("button", { name: opener }).click();
      else await page.keyboard.press(opener);
      await page.waitForSelector(ready);
      await scan(`${path} ${opener}`);
      await page.keyboard.press("Escape");
      await page.waitForSelector(ready, { state: "detached" });
    }
    for (const one of new Set(problems)) {
      bad += 1;
      console.error(`${theme} ${size[0]}: logged: ${one}`);
    }
    await close();
  }
}
if (bad) {
  console.error(`${bad} findings`);
  process.exit(1);
}
console.log("axe: no violations");

/** As a link does: the page stays, so that one load serves all of its addresses. Through a page that is none, so that nothing of the one before is taken for the next. */
async function follow(page, path) {
  await page.evaluate((path) => {
    history.pushState(null, "", "/nowhere");
    dispatchEvent(new PopStateEvent("popstate"));
    history.pushState(null, "", path);
  }, path);
  await page.waitForSelector('.bar__title:has-text("No such page")', { state: "attached" });
  await page.evaluate(() => dispatchEvent(new PopStateEvent("popstate")));
  await page.waitForSelector('.bar__title:has-text("No such page")', { state: "detached" });
}
