// By keyboard only: find the review, comment on a range, send the round, mark a file as viewed, approve this very tree.
import { api, expect, holm, open, until, visit, workspace } from "./browser.mjs";

const { page, problems, close } = await open();
const { id } = await workspace(page, "e2e-review");
holm("run", "e2e-review", "--", "sh", "-c", "printf 'one\\ntwo\\nthree\\n' > notes.txt; printf 'a\\n' >> README.md");
await visit(page, "/workspaces");
await page.keyboard.press("Control+k");
await page.keyboard.type("e2e-review");
await page.keyboard.press("Enter");
await page.waitForSelector(".ws");
await page.keyboard.press("r");
await page.waitForSelector(".file .d");
// Files stand in the order of the tree; the new one is chosen by J and K.
for (let i = 0; i < 5 && !(await page.locator('.tree__file[aria-current="true"][title="notes.txt"]').count()); i += 1)
  await page.keyboard.press("J");
await page.waitForSelector('.file[aria-label="notes.txt"] .d');
await page.keyboard.press("j");
await page.keyboard.press("Shift+ArrowDown");
await page.keyboard.press("c");
await page.waitForSelector(".thread textarea:focus");
await page.keyboard.type("Why these two?");
await page.keyboard.press("Control+Enter");
await until(
  async () => (await api(page, `/workspaces/${id}/comments`)).comments.some((one) => one.text === "Why these two?"),
  "the comment",
);
const [comment] = (await api(page, `/workspaces/${id}/comments`)).comments.filter((one) => one.text === "Why these two?");
expect(
  comment.path === "notes.txt" && comment.lines === "1-2" && comment.round === null,
  `a draft on lines 1-2 of notes.txt, not ${comment.path}:${comment.lines}`,
);
await page.waitForSelector('.approve .btn:has-text("Send round")');
await page.keyboard.press("Shift+Enter");
await until(async () => (await api(page, `/workspaces/${id}/comments`)).comments.every((one) => one.round !== null), "the round");
await page.keyboard.press("v");
await until(
  async () => (await api(page, `/workspaces/${id}/review?since=base`)).files.some((file) => file.viewed),
  "a viewed mark",
);
const { tree } = await api(page, `/workspaces/${id}/review`);
await page.keyboard.press("a");
await page.waitForSelector("[role=dialog] >> text=Approved");
expect((await api(page, `/workspaces/${id}/approve`)).tree === tree, "the approval of the tree on the screen");
// One more edit voids it: the page says so and refuses.
await page.keyboard.press("Escape");
holm("exec", "e2e-review", "--", "sh", "-c", "echo more >> notes.txt");
await visit(page, `/w/${id}/review`);
await page.waitForSelector(".banner >> text=changed after this turn");
expect(problems.length === 0, `no errors on the page: ${problems.join("; ")}`);
await close();
console.log("review: done");
