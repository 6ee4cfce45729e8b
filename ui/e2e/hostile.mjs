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
  command: ["bash", "-c", `printf '\\e]0;${markup}\\a\\e[31m${markup} \\e[5;8m\\u202e\\e[m\\e[9;9H\\a'; sleep 60`],
});
// A request whose path is markup is in the log of the service, and a program inside asks with such a text.
holm("exec", "e2e-hostile", "--", "curl", "-s", "-o", "/dev/null", "--path-as-is", `http://127.0.0.1:3000/${markup.replaceAll(" ", "+")}`);
holm("exec", "e2e-hostile", "--", "holm", "notify", `${markup} \u202e`);
const { files } = await api(page, `/workspaces/${id}/review?since=base`);
await api(page, `/workspaces/${id}/comments`, "POST", {
  path: files.find((file) => file.path.endsWith(".md")).path,
  first: 1,
  last: 1,
  text: `${markup} \u2066a\u0007`,
});

/** Where the hostile text is on each page, once the page has its answers. */
const PLACES = [
  [`/w/${id}`, '.log--rows:has-text("onerror")'],
  [`/w/${id}/review?since=base`, '.thread:has-text("onerror")'],
  [`/w/${id}/review?since=merge`, '.mp__list:has-text("onerror")'],
  ["/workspaces", '.o-what:has-text("onerror")'],
  ["/inbox", '.mail:has-text("onerror")'],
  // The end of the terminal: of its sequences only colours are obeyed.
  ["/inbox", '.excerpt .a-red:has-text("onerror")'],
  [`/compare?w=${id}&w=${(await workspace(page, "e2e-other")).id}`, '.cmp:has-text("onerror")'],
];
for (const [path, place] of PLACES) {
  await visit(page, path);
  await page.waitForSelector(place);
  if (path.includes("review")) await page.waitForSelector(".odd >> text=U+202E");
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
