// Names, branches, logs, differences and comments that try to act: everything is drawn as data.
import { api, expect, holm, open, visit, workspace } from "./browser.mjs";

const { page, problems, close } = await open();
let dialogs = 0;
page.on("dialog", (dialog) => {
  dialogs += 1;
  void dialog.dismiss();
});
const { id } = await workspace(page, "e2e-hostile");
const markup = "<img src=x onerror=alert(1)>";
holm(
  "run",
  "e2e-hostile",
  "--",
  "bash",
  "-c",
  [
    "mkdir -p 'a\u202eb'",
    `printf '%s\\n' '${markup}' $'\\e]0;title\\a\\e[31mred' $'x\\xe2\\x80\\xaey' > 'a\u202eb/${markup.replaceAll("/", "")}.md'`,
    "git checkout -q -b \"$(printf 'feature/\\u200bx')\"",
    `printf '\\e]52;c;aGk=\\a\\e[2J${markup}\\n'`,
  ].join("; "),
);
await api(page, `/workspaces/${id}/sessions`, "POST", {
  command: ["bash", "-c", `printf '\\e]0;${markup}\\a\\a'; sleep 60`],
});
for (const path of [`/w/${id}`, `/w/${id}/review`, "/workspaces", "/inbox"]) {
  await visit(page, path);
  await page.waitForTimeout(500);
  if (path.endsWith("review")) await page.waitForSelector(".odd >> text=U+202E");
  const raw = await page.evaluate(() =>
    [...document.querySelectorAll("body *:not(script)")]
      .flatMap((element) =>
        [...element.childNodes].filter((node) => node.nodeType === 3 && !element.closest(".xterm")).map((node) => node.data),
      )
      .filter((text) => /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b\u202a-\u202e\u2066-\u2069]/.test(text)),
  );
  expect(raw.length === 0, `no acting character on ${path}: ${JSON.stringify(raw.slice(0, 3))}`);
  expect((await page.locator('img[src="x"]').count()) === 0, `no markup from text on ${path}`);
}
expect(dialogs === 0, "no dialog");
expect(!/alert|52;c/.test(await page.title()), "a clean title");
expect(problems.length === 0, `no errors on the page: ${problems.join("; ")}`);
await close();
console.log("hostile: done");
