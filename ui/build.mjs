// Builds the page into target/ui (or $HOLM_UI_OUT): hashed assets, index.html, br and gz files, and
// manifest.json, which is the list from which holm embeds and serves them.
import { build } from "esbuild";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";
import { mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const out = process.env.HOLM_UI_OUT ?? join(here, "..", "target", "ui");
const assets = join(out, "assets");
const TYPES = { ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8" };

rmSync(out, { recursive: true, force: true });
mkdirSync(assets, { recursive: true });

const common = {
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2023",
  outdir: assets,
  metafile: true,
  entryNames: "[name]-[hash]",
  chunkNames: "[name]-[hash]",
  assetNames: "[name]-[hash]",
  jsx: "automatic",
  jsxImportSource: "preact",
  legalComments: "none",
  logLevel: "warning",
  absWorkingDir: here,
};

/** The file name that esbuild gave to an entry point. */
function nameOf(result, entry, ending) {
  const found = Object.entries(result.metafile.outputs).find(
    ([path, made]) => made.entryPoint === entry && path.endsWith(ending),
  );
  if (!found) throw new Error(`esbuild made no ${ending} of ${entry}`);
  return basename(found[0]);
}

const worker = await build({ ...common, entryPoints: ["src/workers/highlight.ts"] });
const style = await build({ ...common, entryPoints: ["src/page.css"] });
const page = await build({
  ...common,
  entryPoints: ["src/main.tsx"],
  splitting: true,
  define: { HIGHLIGHT_WORKER: JSON.stringify(`/assets/${nameOf(worker, "src/workers/highlight.ts", ".js")}`) },
});

const sprite = readFileSync(join(here, "src/icons.svg"), "utf8")
  .replace(/<!--[\s\S]*?-->/g, "")
  .replace(/>\s+</g, "><")
  .trim()
  .replace("<svg ", '<svg class="sprite" aria-hidden="true" ');
const index = readFileSync(join(here, "src/index.html"), "utf8")
  .replace("__STYLE__", `/assets/${nameOf(style, "src/page.css", ".css")}`)
  .replace("__SCRIPT__", `/assets/${nameOf(page, "src/main.tsx", ".js")}`)
  .replace("__SPRITE__", sprite);
writeFileSync(join(out, "index.html"), index);

const files = readdirSync(assets)
  .sort()
  .map((name) => {
    const path = join(assets, name);
    const bytes = readFileSync(path);
    const type = TYPES[name.slice(name.lastIndexOf("."))];
    if (!type) throw new Error(`no content type for ${name}`);
    writeFileSync(`${path}.br`, brotliCompressSync(bytes, { params: { [constants.BROTLI_PARAM_QUALITY]: 11 } }));
    writeFileSync(`${path}.gz`, gzipSync(bytes, { level: 9 }));
    return {
      path: `assets/${name}`,
      type,
      bytes: bytes.length,
      br: statSync(`${path}.br`).size,
      gz: statSync(`${path}.gz`).size,
    };
  });
const first = ["main-", "page-"];
const firstPaint = files.filter(
  (file) => first.some((start) => basename(file.path).startsWith(start)) || chunksOfFirstPaint().has(basename(file.path)),
);
writeFileSync(join(out, "manifest.json"), JSON.stringify({ index: "index.html", nonce: "__NONCE__", files }, null, 1));
const kb = (n) => `${(n / 1000).toFixed(1)} kB`;
for (const file of files) console.log(file.path.padEnd(44), kb(file.bytes).padStart(10), "br", kb(file.br).padStart(9));
console.log(
  `first paint: ${kb(firstPaint.reduce((sum, file) => sum + file.br, 0) + brotliCompressSync(Buffer.from(index)).length)} transferred (br)`,
);

/** Chunks that main.tsx imports statically, which the browser fetches before the first paint. */
function chunksOfFirstPaint() {
  const outputs = page.metafile.outputs;
  const wanted = new Set();
  const visit = (path) => {
    for (const link of outputs[path].imports) {
      if (link.kind !== "import-statement" || wanted.has(basename(link.path))) continue;
      wanted.add(basename(link.path));
      visit(link.path);
    }
  };
  visit(Object.keys(outputs).find((path) => outputs[path].entryPoint === "src/main.tsx"));
  return wanted;
}
