// Colours of log lines. Only SGR (`ESC [ … m`) is understood; every other sequence is shown as what it is, never
// obeyed, because a log is written by programs that are not trusted.

export interface Styled {
  text: string;
  classes: string;
}

const SEQUENCE = /\x1b\[([0-9;:]*)m/g;
const COLOURS = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"];

interface Style {
  ink: string;
  ground: string;
  bold: boolean;
  dim: boolean;
  italic: boolean;
  under: boolean;
  inverse: boolean;
}
const NONE: Style = { ink: "", ground: "", bold: false, dim: false, italic: false, under: false, inverse: false };

export function styled(line: string): Styled[] {
  if (!line.includes("\x1b[")) return line ? [{ text: line, classes: "" }] : [];
  const found: Styled[] = [];
  let style = NONE;
  let from = 0;
  for (const match of line.matchAll(SEQUENCE)) {
    if (match.index > from) found.push({ text: line.slice(from, match.index), classes: classesOf(style) });
    style = next(style, match[1]!);
    from = match.index + match[0].length;
  }
  if (from < line.length) found.push({ text: line.slice(from), classes: classesOf(style) });
  return found;
}

/** The line without its colours, for filters. */
export const plain = (line: string): string => line.replace(SEQUENCE, "");

function next(before: Style, codes: string): Style {
  const style = { ...before };
  const list = codes.split(/[;:]/).map(Number);
  for (let i = 0; i < list.length; i += 1) {
    const code = list[i]!;
    if (code === 0) Object.assign(style, NONE);
    else if (code === 1) style.bold = true;
    else if (code === 2) style.dim = true;
    else if (code === 3) style.italic = true;
    else if (code === 4) style.under = true;
    else if (code === 7) style.inverse = true;
    else if (code === 27) style.inverse = false;
    else if (code === 22) style.bold = style.dim = false;
    else if (code === 23) style.italic = false;
    else if (code === 24) style.under = false;
    else if (code >= 30 && code <= 37) style.ink = COLOURS[code - 30]!;
    else if (code >= 90 && code <= 97) style.ink = COLOURS[code - 90]!;
    else if (code === 39) style.ink = "";
    else if (code >= 40 && code <= 47) style.ground = COLOURS[code - 40]!;
    else if (code === 49) style.ground = "";
    else if (code === 38 || code === 48) {
      // A palette or true colour: its arguments are skipped, and one of the first sixteen is mapped.
      if (list[i + 1] === 5) {
        if (code === 38 && list[i + 2]! < 16) style.ink = COLOURS[list[i + 2]! % 8]!;
        i += 2;
      } else if (list[i + 1] === 2) i += 4;
    }
  }
  return style;
}

function classesOf(style: Style): string {
  return [
    style.ink && `a-${style.ink}`,
    style.ground && `a-on-${style.ground}`,
    style.bold && "a-bold",
    style.dim && "a-dim",
    style.italic && "a-italic",
    style.under && "a-under",
    style.inverse && "a-inverse",
  ]
    .filter(Boolean)
    .join(" ");
}
