// Asks the worker for colours; it starts when the first file is opened.
import type { Coloured, Wanted } from "../../workers/highlight";
import type { Hunk, Line } from "../../api/types";
import type { Tones } from "./rows";

const LANGUAGES: Record<string, string> = {
  ts: "typescript",
  tsx: "typescript",
  js: "typescript",
  jsx: "typescript",
  mjs: "typescript",
  cjs: "typescript",
  json: "typescript",
  py: "python",
  rs: "rust",
  go: "go",
  java: "java",
  kt: "java",
  c: "cpp",
  h: "cpp",
  cc: "cpp",
  cpp: "cpp",
  hpp: "cpp",
  toml: "ini",
  ini: "ini",
  cfg: "ini",
  yml: "yaml",
  yaml: "yaml",
  sh: "bash",
  bash: "bash",
  sql: "sql",
  css: "css",
  scss: "css",
  html: "xml",
  xml: "xml",
  svg: "xml",
  vue: "xml",
  md: "xml",
};
const TOO_LONG = 400_000;

export const languageOf = (path: string): string | null => LANGUAGES[path.slice(path.lastIndexOf(".") + 1).toLowerCase()] ?? null;

interface Policy {
  createScriptURL(address: string): string;
}
const trusted = (globalThis as { trustedTypes?: { createPolicy(name: string, rules: Policy): Policy } }).trustedTypes;

let worker: Worker | undefined;
let last = 0;
const waiting = new Map<number, (lines: Tones[]) => void>();

function start(): Worker {
  // The page's policy takes no plain string as the address of a script; this one passes the worker's alone.
  const policy = trusted?.createPolicy("holm-worker", {
    createScriptURL: (address) => {
      if (address !== HIGHLIGHT_WORKER) throw new TypeError("not the highlighter");
      return address;
    },
  });
  const made = new Worker(policy ? policy.createScriptURL(HIGHLIGHT_WORKER) : HIGHLIGHT_WORKER, { type: "module" });
  made.onmessage = (event: MessageEvent<Coloured>) => {
    waiting.get(event.data.id)?.(event.data.lines);
    waiting.delete(event.data.id);
  };
  return made;
}

function ask(language: string, text: string): Promise<Tones[]> {
  worker ??= start();
  const id = ++last;
  worker.postMessage({ id, language, text } satisfies Wanted);
  return new Promise((resolve) => waiting.set(id, resolve));
}

/** The opening that a hunk's text needs because it begins inside of a comment or a long string; "" where none is missing. */
export function opening(language: string, text: string, header = ""): string {
  const isOdd = (where: string, mark: string) => where.split(mark).length % 2 === 0;
  if (language === "python") return isOdd(text, '"""') ? '"""' : "";
  // The header of a hunk is the line above it with which the enclosing part begins.
  if (language === "typescript" && isOdd(text, "`") && isOdd(header, "`")) return "`";
  const close = text.indexOf("*/");
  const open = text.indexOf("/*");
  return close >= 0 && (open < 0 || close < open) && ["typescript", "rust", "java", "cpp", "go", "css"].includes(language)
    ? "/*"
    : "";
}

/** The colours of each line; old and new side are coloured apart, so that a removed quote does not paint the rest. */
export async function colours(path: string, hunks: Hunk[]): Promise<Map<Line, Tones>> {
  const found = new Map<Line, Tones>();
  const language = languageOf(path);
  if (!language) return found;
  for (const side of ["add", "delete"] as const) {
    for (const hunk of hunks) {
      const lines = hunk.lines.filter((line) => line.kind === "context" || line.kind === side);
      const text = lines.map((line) => line.text).join("\n");
      if (text.length > TOO_LONG) continue;
      const start = opening(language, text, hunk.header);
      const tones = (await ask(language, start ? `${start}\n${text}` : text)).slice(start ? 1 : 0);
      lines.forEach((line, i) => {
        if (tones[i] && (side === "add" || line.kind === "delete")) found.set(line, tones[i]);
      });
    }
  }
  return found;
}
