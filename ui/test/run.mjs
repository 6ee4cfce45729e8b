// Bundles test/*.test.ts and runs them with node's own runner. A test file that does not end in .test.ts would be missed,
// so any other name is an error.
import { build } from "esbuild";
import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const files = readdirSync(here).filter((name) => name !== "run.mjs" && name !== "browser.ts");
const odd = files.filter((name) => !name.endsWith(".test.ts"));
if (odd.length) throw new Error(`not a test: ${odd.join(", ")}`);
const out = mkdtempSync(join(tmpdir(), "holm-ui-test-"));
await build({
  entryPoints: files.map((name) => join(here, name)),
  outdir: out,
  outExtension: { ".js": ".mjs" },
  bundle: true,
  format: "esm",
  platform: "node",
  target: "node20",
  inject: [join(here, "browser.ts")],
  jsx: "automatic",
  jsxImportSource: "preact",
  define: { HIGHLIGHT_WORKER: '""' },
  logLevel: "warning",
});
const { status } = spawnSync(process.execPath, ["--test", ...readdirSync(out).map((name) => join(out, name))], {
  stdio: "inherit",
});
rmSync(out, { recursive: true, force: true });
process.exit(status ?? 1);
