// By keyboard only: find the review, comment on a range, send the round, mark a file as viewed, approve this very tree, see what
// would change in the checkout, apply it there, take it back.
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { api, expect, holm, open, takeRefusals, until, visit, workspace } from "./browser.mjs";

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
// The checks of this tree run, and their result stands in the evidence.
await page.keyboard.press("t");
await page.waitForSelector('.strip:has-text("Evidence") li:has(.st--ready):has-text("readme")');
expect((await api(page, `/workspaces/${id}/checks`)).checks.some((one) => one.state === "passed"), "a check that passed");
const marked = await api(page, `/workspaces/${id}/review`);
expect(marked.looked_at === null && marked.from === null, "no look by a viewed mark");
const { tree } = marked;
await page.keyboard.press("a");
await page.waitForSelector('.mp__into:has-text("shop")');
await page.waitForSelector('.mp__say:has-text("2 files")');
expect((await api(page, `/workspaces/${id}/approve`)).tree === tree, "the approval of the tree on the screen");
await page.waitForSelector('.approve .btn:has-text("Apply 2 files")');
const notes = join(process.env.PROJECT, "notes.txt");
const readme = join(process.env.PROJECT, "README.md");
const before = readFileSync(readme, "utf8");
expect(!existsSync(notes), "a preview changes nothing");
// An edit of the person in a file that would be touched: refused, with its name.
writeFileSync(readme, "mine\n");
await page.evaluate(() => dispatchEvent(new Event("focus")));
await page.waitForSelector('.mp .note--failed:has-text("README.md")');
expect((await page.locator('.approve .btn:has-text("Apply 2 files")').count()) === 0, "nothing to apply over an edit");
await takeRefusals(problems);
writeFileSync(readme, before);
await page.evaluate(() => dispatchEvent(new Event("focus")));
await page.waitForSelector('.approve .btn:has-text("Apply 2 files")');
await page.keyboard.press("a");
await until(() => existsSync(notes), "the files in the checkout");
expect(readFileSync(notes, "utf8") === "one\ntwo\nthree\n", "the content of notes.txt");
await page.waitForSelector('.toast:has-text("Applied 2 files")');
await page.keyboard.press("u");
await until(() => !existsSync(notes), "the apply taken back");
expect(readFileSync(readme, "utf8") === before, "README.md as before");
// A merge needs a message for the files that are in no commit.
await page.waitForSelector('.approve .btn:has-text("Merge into main")[disabled]');
await page.locator("#merge-message").fill("Notes from the page");
await page.keyboard.press("Escape");
await page.waitForSelector('.approve .btn:has-text("Merge into main"):not([disabled])');
await page.keyboard.press("m");
await page.waitForSelector('.toast:has-text("Merged holm/e2e-review into main")');
expect(existsSync(notes), "the merged file");
// One more edit voids the approval: the page says so and refuses.
holm("exec", "e2e-review", "--", "sh", "-c", "echo more >> notes.txt");
await visit(page, `/w/${id}/review?since=base`);
await page.waitForSelector(".banner >> text=changed after this turn");
// Unchanged lines are hidden until they are asked for: above by a click, the rest of the file by its key.
const { id: long } = await workspace(page, "e2e-unfold");
holm("run", "e2e-unfold", "--", "sh", "-c", "seq 101 140 > long.txt");
holm("run", "e2e-unfold", "--", "sh", "-c", "sed -i s/^120$/changed/ long.txt");
await visit(page, `/w/${long}/review?since=@1`);
const lines = page.locator('.file[aria-label="long.txt"]');
await lines.locator('.d-skip:has-text("16 lines above")').waitFor();
expect((await lines.getByText("101", { exact: true }).count()) === 0, "line 1 hidden");
await lines.getByRole("button", { name: "16 lines above" }).click();
await lines.locator(".d-c", { hasText: /^101$/ }).first().waitFor();
await lines.locator('.d-skip:has-text("17 lines")').waitFor();
expect((await lines.locator(".d-c", { hasText: /^140$/ }).count()) === 0, "the last line hidden");
await page.keyboard.press("z");
await lines.locator(".d-c", { hasText: /^140$/ }).first().waitFor();
expect((await lines.locator(".d-skip").count()) === 0, "nothing hidden any more");
expect(problems.length === 0, `no errors on the page: ${problems.join("; ")}`);
await close();
console.log("review: done");
