// A difference of 50,000 lines and a list of 500 workspaces: the page draws what is near the screen, and answers keys meanwhile.
import { expect, holm, open, visit, workspace } from "./browser.mjs";

const { page, problems, close } = await open();
const { id } = await workspace(page, "e2e-large");
holm("run", "e2e-large", "--", "sh", "-c", "seq 50000 | sed 's/$/ = { \"name\": \"word\", \"n\": 17 }/' > large.json; echo small > small.txt");
await visit(page, `/w/${id}/review?since=base`);
await page.waitForSelector(".file");
// A large file waits for the person.
const large = page.locator('.file[aria-label="large.json"]');
expect((await large.locator(".d").count()) === 0, "a large file stays folded");
await page.evaluate(() => {
  globalThis.longest = 0;
  let last = performance.now();
  const tick = () => {
    const now = performance.now();
    globalThis.longest = Math.max(globalThis.longest, now - last);
    last = now;
    requestAnimationFrame(tick);
  };
  requestAnimationFrame(tick);
});
await large.locator(".file__head button").first().click();
await large.locator(".d tr").nth(10).waitFor();
const rows = await page.locator(".file .d tr").count();
expect(rows < 2000, `only rows near the screen are drawn, not ${rows}`);
const box = page.locator(".rv__diff");
await box.evaluate((element) => {
  element.scrollTop = element.scrollHeight;
});
await page.waitForFunction(() => /50000 = |49\d\d\d = /.test(document.querySelector(".rv__diff").textContent));
await page.keyboard.press("?");
await page.waitForSelector(".help");
await page.keyboard.press("Escape");
console.log(`large: the longest frame took ${Math.round(await page.evaluate(() => globalThis.longest))} ms`);

// The daemon has one workspace; its document is shown 500 times, and requests about a copy go to the original.
await page.addInitScript((id) => {
  const real = globalThis.fetch;
  globalThis.fetch = async (address, options) => {
    const answer = await real(String(address).replace(/w0\d{11}/, id), options);
    if (!/\/api\/v1\/workspaces$/.test(address)) return answer;
    const [one] = (await answer.json()).workspaces;
    const copy = (_, n) => ({ ...one, id: `w${String(n).padStart(12, "0")}`, label: `copy-${n}` });
    return Response.json({ workspaces: Array.from({ length: 500 }, copy) });
  };
}, id);
for (const [width, height] of [
  [1440, 900],
  [390, 844],
]) {
  await page.setViewportSize({ width, height });
  await visit(page, "/workspaces");
  const list = page.locator(".main .scroll");
  const drawn = () => page.locator(".o .o-label").count();
  await page.waitForSelector('.o-label:has-text("copy-")');
  for (const part of [0, 0.5, 1]) {
    await list.evaluate((box, part) => {
      box.scrollTop = (box.scrollHeight - box.clientHeight) * part;
    }, part);
    // The rows at this place are on the screen.
    await page.waitForFunction(() => {
      const box = document.querySelector(".main .scroll").getBoundingClientRect();
      return document.elementFromPoint(box.left + box.width / 2, box.top + box.height / 2)?.closest("tr")?.querySelector(".o-label");
    });
    const rows = await drawn();
    expect(rows > 5 && rows < 80, `rows near the screen at ${width} pixels, not ${rows}`);
  }
  const whole = await list.evaluate((box) => box.scrollHeight);
  expect(whole > 500 * 36, `room for all rows at ${width} pixels, not ${whole}`);
}
// A folded group has no rows; a filter finds one of the 500.
await page.setViewportSize({ width: 1440, height: 900 });
await page.locator("[data-filter]").fill("copy-499");
await page.waitForFunction(() => document.querySelectorAll(".o .o-label").length === 1);
await page.locator(".t__group button").click();
await page.waitForFunction(() => document.querySelectorAll(".o .o-label").length === 0);
expect(problems.length === 0, `no errors on the page: ${problems.join("; ")}`);
await close();
console.log("large: done");
