// How the palette and filters match: letters in order, beginnings of words first.

export interface Found {
  score: number;
  marks: number[];
}

/** Null when `wanted` is not in `text`; marks are the indexes of matched letters. */
export function find(wanted: string, text: string): Found | null {
  if (!wanted) return { score: 0, marks: [] };
  const a = wanted.toLowerCase();
  const b = text.toLowerCase();
  const whole = b.indexOf(a);
  if (whole >= 0) {
    const start = whole === 0 || /[^a-z0-9]/.test(b[whole - 1]!);
    return { score: (start ? 200 : 100) - whole, marks: [...a].map((_, i) => whole + i) };
  }
  const marks: number[] = [];
  let at = 0;
  for (const letter of a) {
    at = b.indexOf(letter, at);
    if (at < 0) return null;
    marks.push(at);
    at += 1;
  }
  return { score: 50 - (marks.at(-1)! - marks[0]!), marks };
}

export interface Filter {
  words: string[];
  without: string[];
  fields: Map<string, string>;
}

/** `agent:codex project:shop -test login` */
export function parseFilter(text: string): Filter {
  const filter: Filter = { words: [], without: [], fields: new Map() };
  for (const word of text.toLowerCase().split(/\s+/).filter(Boolean)) {
    const field = /^([a-z]+):(.+)$/.exec(word);
    if (field) filter.fields.set(field[1]!, field[2]!);
    else if (word.length > 1 && word.startsWith("-")) filter.without.push(word.slice(1));
    else filter.words.push(word);
  }
  return filter;
}
export const matches = (filter: Filter, text: string): boolean => {
  const low = text.toLowerCase();
  return filter.words.every((word) => low.includes(word)) && !filter.without.some((word) => low.includes(word));
};
