// Prints, and asserts nothing: kB at first paint, frames with 500 workspaces and with 20 000 log lines, event to pixel.
import { api, BASE, open, workspace } from "./browser.mjs";

const { page, context, close } = await open();
const { id } = await workspace(page, "e2e-bench");

let bytes = 0;
const session = await context.newCDPSession(page);
await session.send("Network.enable");
await session.send("Network.setCacheDisabled", { cacheDisabled: true });
session.on("Network.loadingFinished", (event) => {
  bytes += event.encodedDataLength;
});
await page.goto(`${BASE}/workspaces`);
await page.waitForSelector(".o-label");
console.log(`first paint: ${(bytes / 1000).toFixed(1)} kB transferred, with the lists of the API`);

const toPixel = await page.evaluate(
  async ([id]) => {
    const seen = (label) =>
      new Promise((resolve) => {
        const watcher = new MutationObserver(() => {
          if ([...document.querySelectorAll(".o-label")].some((one) => one.textContent === label)) {
            watcher.disconnect();
            requestAnimationFrame(() => resolve(performance.now()));
          }
        });
        watcher.observe(document.body, { subtree: true, childList: true, characterData: true });
      });
    const headers = { "X-Holm-Tab": sessionStorage.getItem("holm.tab"), "Content-Type": "application/json" };
    const times = [];
    for (let i = 0; i < 10; i += 1) {
      const label = i % 2 ? "e2e-bench" : "e2e-bench-b";
      const drawn = seen(label);
      await fetch(`/api/v1/workspaces/${id}`, { method: "PATCH", headers, body: JSON.stringify({ label }) });
      const answered = performance.now();
      times.push((await drawn) - answered);
    }
    return times.sort((a, b) => a - b);
  },
  [id],
);
console.log(`event to pixel after the answer: median ${toPixel[5].toFixed(0)} ms, worst ${toPixel.at(-1).toFixed(0)} ms`);

const list = await api(page, "/workspaces");
const many = Array.from({ length: 500 }, (_, i) => ({
  ...list.workspaces[i % list.workspaces.length],
  id: `w${String(i).padStart(12, "0")}`,
  label: `agent-${i}`,
  state: i % 5 ? "running" : "stopped",
}));
await page.route("**/api/v1/workspaces", (route) => route.fulfill({ json: { ...list, workspaces: many } }));
await page.route("**/turns", (route) => route.fulfill({ json: { turns: [] } }));
await page.goto(`${BASE}/workspaces`);
await page.waitForSelector("text=agent-1");
console.log(`500 workspaces: ${report(await frames(".main .scroll", 36))}`);

const line = (i) =>
  JSON.stringify({
    service: "web",
    stream: "stdout",
    text: `\x1b[32mGET\x1b[0m /item/${i} 200 ${i % 90} ms`,
    time: new Date(1_800_000_000_000 + i).toISOString(),
  });
await page.unroute("**/api/v1/workspaces");
await page.route("**/logs?*", (route) =>
  route.fulfill({
    contentType: "application/jsonl",
    body: Array.from({ length: 20_000 }, (_, i) => line(i)).join("\n"),
  }),
);
await page.goto(`${BASE}/w/${id}`);
await page.waitForSelector(".log--rows > div");
console.log(`20 000 log lines: ${report(await frames("#logs", 400))}`);
await close();

/** Scrolls by `step` pixels in each of 120 frames and answers how long each took. */
function frames(selector, step) {
  return page.evaluate(
    ([selector, step]) =>
      new Promise((resolve) => {
        const box = document.querySelector(selector);
        const times = [];
        let last = performance.now();
        box.scrollTop = 0;
        const next = () => {
          const now = performance.now();
          times.push(now - last);
          last = now;
          box.scrollTop += step;
          if (times.length < 120) requestAnimationFrame(next);
          else resolve(times.slice(1).sort((a, b) => a - b));
        };
        requestAnimationFrame(next);
      }),
    [selector, step],
  );
}
function report(times) {
  return `frame median ${times[times.length >> 1].toFixed(1)} ms, 95 % ${times[Math.floor(times.length * 0.95)].toFixed(1)} ms, worst ${times.at(-1).toFixed(1)} ms`;
}
