// Text from elsewhere is data: control, bidirectional and invisible characters become boxed names instead of acting.

export type Piece = { text: string } | { odd: string; title: string };

const NAMES: Record<number, [string, string]> = {
  0x00: ["NUL", "null"],
  0x07: ["BEL", "bell"],
  0x08: ["BS", "backspace"],
  0x0a: ["LF", "line feed"],
  0x0d: ["CR", "carriage return"],
  0x1b: ["ESC", "escape"],
  0x7f: ["DEL", "delete"],
  0x9b: ["CSI", "control sequence introducer"],
  0x9d: ["OSC", "operating system command"],
  0xad: ["U+00AD", "soft hyphen"],
  0x61c: ["U+061C", "Arabic letter mark"],
  0x180e: ["U+180E", "Mongolian vowel separator"],
  0x200b: ["U+200B", "zero width space"],
  0x200c: ["U+200C", "zero width non-joiner"],
  0x200d: ["U+200D", "zero width joiner"],
  0x200e: ["U+200E", "left-to-right mark"],
  0x200f: ["U+200F", "right-to-left mark"],
  0x2028: ["U+2028", "line separator"],
  0x2029: ["U+2029", "paragraph separator"],
  0x202a: ["U+202A", "left-to-right embedding"],
  0x202b: ["U+202B", "right-to-left embedding"],
  0x202c: ["U+202C", "pop directional formatting"],
  0x202d: ["U+202D", "left-to-right override"],
  0x202e: ["U+202E", "right-to-left override"],
  0x2060: ["U+2060", "word joiner"],
  0x2066: ["U+2066", "left-to-right isolate"],
  0x2067: ["U+2067", "right-to-left isolate"],
  0x2068: ["U+2068", "first strong isolate"],
  0x2069: ["U+2069", "pop directional isolate"],
  0xfeff: ["U+FEFF", "zero width no-break space"],
};

// Tabs and line feeds act as white space where the caller allows lines; everything else here never acts.
const ODD =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202f\u205f-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\uffff\ud800-\udfff\u{e0000}-\u{e0fff}]/gu;
const PLAIN = /^[\t\n\x20-\x7e]*$/;

export function pieces(text: string): Piece[] {
  if (PLAIN.test(text)) return text ? [{ text }] : [];
  const found: Piece[] = [];
  let from = 0;
  for (const match of text.matchAll(ODD)) {
    if (match.index > from) found.push({ text: text.slice(from, match.index) });
    found.push(nameOf(match[0].codePointAt(0)!));
    from = match.index + match[0].length;
  }
  if (from < text.length) found.push({ text: text.slice(from) });
  return found;
}

/** The same as plain text, for titles and attributes. */
export const visible = (text: string): string =>
  pieces(text)
    .map((piece) => ("odd" in piece ? `[${piece.odd}]` : piece.text))
    .join("");

function nameOf(point: number): Piece {
  const known = NAMES[point];
  const code = `U+${point.toString(16).toUpperCase().padStart(4, "0")}`;
  return known ? { odd: known[0], title: known[1] } : { odd: code, title: "control or invisible character" };
}
