// Prints rows as JSON and asserts nothing: kB at first paint, frames with many workspaces and with a busy log, event to pixel.
// The workspace `noisy` has a service `noise`, which writes ten thousand lines each second.
import { api, BASE, holm, open, until, workspace } from "./browser.mjs";

const { page, context, close } = await open();
const { id } = await workspace(page, "noisy");
holm("service", "noisy", "stop", "noise");
const row = (what, measured, more = {}) => console.log(JSON.stringify({ what, measured, ...more }));

let bytes = 0;
const session = await context.newCDPSession(page);
await session.send("Network.enable");
await session.send("Network.setCacheDisabled", { cacheDisabled: true });
const files = new Set();
session.on("Network.responseReceived", ({ requestId, response }) => {
  if (!response.url.includes("/api/")) files.add(requestId);
});
session.on("Network.loadingFinished", (event) => {
  if (files.has(event.requestId)) bytes += event.encodedDataLength;
});
await page.goto(`${BASE}/workspaces`);
await page.waitForSelector(".o-label");
row("page: transferred until the first paint", `${(bytes / 1000).toFixed(1)} kB`, { budget: "120 kB" });

const many = (await api(page, "/workspaces")).workspaces.length;
row(`page: scrolling the list of ${many} workspaces`, report(await frames(".main .scroll", 36)));

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
    document.querySelector("[data-filter]").value = "noisy";
    document.querySelector("[data-filter]").dispatchEvent(new Event("input", { bubbles: true }));
    for (let i = 0; i < 20; i += 1) {
      const label = i % 2 ? "noisy" : "noisy-b";
      const drawn = seen(label);
      const begin = performance.now();
      await fetch(`/api/v1/workspaces/${id}`, { method: "PATCH", headers, body: JSON.stringify({ label }) });
      times.push((await drawn) - begin);
    }
    return times.sort((a, b) => a - b);
  },
  [id],
);
row("page: from a request that renames to the pixel, by the event", `p50 ${toPixel[10].toFixed(0)} ms, worst ${toPixel.at(-1).toFixed(0)} ms`);

holm("service", "noisy", "start", "noise");
await page.goto(`${BASE}/w/${id}`);
await page.waitForSelector(".log--rows > div");
const lines = async () => Number(/\/item\/(\d+)/.exec(await page.locator("#logs").innerText())?.[1] ?? 0);
const first = await lines();
await until(async () => (await lines()) > first, "lines of the service");
row("page: a log of 10,000 lines per second", report(await frames(null, 0)));
holm("service", "noisy", "stop", "noise");
await close();

/** How long each of 240 frames takes, while a box scrolls by `step` pixels in each, or while nothing is touched. */
function frames(selector, step) {
  return page.evaluate(
    ([selector, step]) =>
      new Promise((resolve) => {
        const box = selector && document.querySelector(selector);
        const times = [];
        let last = performance.now();
        if (box) box.scrollTop = 0;
        const next = () => {
          const now = performance.now();
          times.push(now - last);
          last = now;
          if (box) box.scrollTop += step;
          if (times.length < 240) requestAnimationFrame(next);
          else resolve(times.slice(1).sort((a, b) => a - b));
        };
        requestAnimationFrame(next);
      }),
    [selector, step],
  );
}
function report(times) {
  const at = (part) => times[Math.floor((times.length - 1) * part)].toFixed(1);
  return `frame p50 ${at(0.5)} ms, p95 ${at(0.95)}, worst ${at(1)}`;
}
