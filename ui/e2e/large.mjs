// A difference of 50,000 lines: the page draws what is near the screen, and answers keys meanwhile.
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
expect(problems.length === 0, `no errors on the page: ${problems.join("; ")}`);
await close();
console.log("large: done");
