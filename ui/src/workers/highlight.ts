// Colours code away from the page: text in, [length, tone] per line out. No HTML reaches the page.
import hljs from "highlight.js/lib/core";
import bash from "highlight.js/lib/languages/bash";
import cpp from "highlight.js/lib/languages/cpp";
import css from "highlight.js/lib/languages/css";
import go from "highlight.js/lib/languages/go";
import ini from "highlight.js/lib/languages/ini";
import java from "highlight.js/lib/languages/java";
import python from "highlight.js/lib/languages/python";
import rust from "highlight.js/lib/languages/rust";
import sql from "highlight.js/lib/languages/sql";
import typescript from "highlight.js/lib/languages/typescript";
import xml from "highlight.js/lib/languages/xml";
import yaml from "highlight.js/lib/languages/yaml";
import type { Tone, Tones } from "../pages/review/rows";

for (const [name, language] of Object.entries({
  bash,
  cpp,
  css,
  go,
  ini,
  java,
  python,
  rust,
  sql,
  typescript,
  xml,
  yaml,
})) {
  hljs.registerLanguage(name, language);
}

const TONES: Record<string, Tone> = {
  keyword: "word",
  built_in: "word",
  type: "word",
  name: "word",
  tag: "word",
  "selector-tag": "word",
  meta: "word",
  section: "word",
  string: "text",
  regexp: "text",
  subst: "",
  "template-variable": "text",
  link: "text",
  number: "number",
  literal: "number",
  symbol: "number",
  attr: "number",
  variable: "number",
  attribute: "number",
  comment: "comment",
  quote: "comment",
  doctag: "comment",
};

export interface Wanted {
  id: number;
  language: string;
  text: string;
}
export interface Coloured {
  id: number;
  lines: Tones[];
}

addEventListener("message", (event: MessageEvent<Wanted>) => {
  const { id, language, text } = event.data;
  postMessage({
    id,
    lines: tonesOf(hljs.highlight(text, { language, ignoreIllegals: true }).value),
  } satisfies Coloured);
});

const ENTITIES: Record<string, string> = { "&lt;": "<", "&gt;": ">", "&amp;": "&", "&quot;": '"', "&#x27;": "'" };

/** highlight.js answers in HTML; only its spans and five entities occur. */
function tonesOf(html: string): Tones[] {
  const lines: Tones[] = [[]];
  const open: Tone[] = [];
  for (const [token] of html.matchAll(/<span class="([^"]*)">|<\/span>|&(?:lt|gt|amp|quot|#x27);|\n|[^<&\n]+/g)) {
    if (token === "\n") lines.push([]);
    else if (token === "</span>") open.pop();
    else if (token.startsWith("<span")) {
      const name = /hljs-([\w-]+)/.exec(token)?.[1] ?? "";
      open.push(TONES[name] ?? open.at(-1) ?? "");
    } else {
      const tone = open.at(-1) ?? "";
      const length = (ENTITIES[token] ?? token).length;
      const line = lines.at(-1)!;
      const before = line.at(-1);
      if (before?.[1] === tone) before[0] += length;
      else line.push([length, tone]);
    }
  }
  return lines;
}
