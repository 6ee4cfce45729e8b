// Every page in light and dark, wide and narrow: axe finds nothing, and the page logs no error.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { api, open, visit } from "./browser.mjs";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const PLACES = [
  "/inbox",
  "/workspaces",
  "/data",
  "/new",
  "/settings/health",
  "/settings/trash",
  "/settings/trust",
  "/settings/secrets",
  "/settings/audit",
  "/settings/tokens",
  "/settings/look",
];

/** What is there once the page has its answers. */
function readyFor(path) {
  if (path.endsWith("since=merge")) return ".mp__say, .mp .note, .empty";
  if (path.endsWith("/review")) return ".approve, .empty";
  if (path.startsWith("/w/")) return ".ws__facts .limits";
  if (path.startsWith("/compare")) return ".cmp tbody td, .empty";
  return (
    {
      "/data": ".total__say",
      "/settings/health": ".set table",
      "/settings/audit": ".set tbody tr",
      "/settings/tokens": ".set tbody tr",
    }[path] ?? ".bar"
  );
}

let bad = 0;
for (const theme of ["light", "dark"]) {
  for (const size of [
    [1440, 900],
    [390, 844],
  ]) {
    const { page, problems, close } = await open({ theme, size });
    const { workspaces } = await api(page, "/workspaces");
    const ids = workspaces.slice(0, 2).map((one) => one.id);
    const more = ids.flatMap((id) => [`/w/${id}`, `/w/${id}/review`, `/w/${id}/review?since=merge`]);
    for (const path of [...PLACES, ...more, `/compare?${ids.map((id) => `w=${id}`).join("&")}`]) {
      await visit(page, path);
      await page.waitForSelector(readyFor(path), { state: "attached" });
      // Two frames: the answers are drawn.
      await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))));
      // The policy of the page takes no script from elsewhere; the debugger's protocol is not the page.
      await page.evaluate(axe);
      const found = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
      for (const one of found.violations) {
        bad += 1;
        console.error(
          `${theme} ${size[0]} ${path}: ${one.id}: ${one.nodes
            .map((node) => `${node.target.join(" ")} ${node.any[0]?.message ?? ""}`)
            .slice(0, 3)
            .join(" | ")}`,
        );
      }
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
