// A terminal that is attached to a session: the lazy chunk with xterm. The daemon draws the screen from its own model,
// so what arrives are drawing sequences, never the program's raw output.
import { FitAddon } from "@xterm/addon-fit";
import { Terminal, type ITheme } from "@xterm/xterm";
import { socket } from "../../api/client";
import type { Session } from "../../api/types";

export interface Writer {
  writes: boolean;
  writer: string | null;
}
export interface Attached {
  take: () => void;
  close: () => void;
}
interface Listener {
  onWriter: (writer: Writer) => void;
  onProblem: (text: string) => void;
}

const CONTROL = 0;
const KEYS = 1;
const DRAWING = 2;

/** The page's policy takes only style elements with its nonce, and xterm makes three without one. */
function stampStyles(): () => void {
  const nonce = document.querySelector<HTMLMetaElement>('meta[name="holm-nonce"]')!.content;
  const make = document.createElement;
  document.createElement = function (this: Document, name: string, options?: ElementCreationOptions) {
    const element = make.call(this, name, options);
    if (name.toLowerCase() === "style") (element as HTMLStyleElement).nonce = nonce;
    return element;
  } as typeof document.createElement;
  return () => {
    document.createElement = make;
  };
}

export function attach(box: HTMLElement, session: Session, listener: Listener): Attached {
  const terminal = new Terminal({
    fontFamily: token("--mono"),
    fontSize: 12,
    lineHeight: 1.4,
    cursorBlink: false,
    scrollback: 2000,
    theme: themeOf(),
    allowProposedApi: false,
    screenReaderMode: false,
  });
  const fit = new FitAddon();
  terminal.loadAddon(fit);
  const release = stampStyles();
  terminal.open(box);
  fit.fit();
  release();
  let stream: WebSocket | null = null;
  let closed = false;
  let ended = false;
  let tries = 0;
  let retry: ReturnType<typeof setTimeout> | undefined;
  const send = (channel: number, payload: Uint8Array) => {
    if (stream?.readyState !== WebSocket.OPEN) return;
    const message = new Uint8Array(payload.length + 1);
    message[0] = channel;
    message.set(payload, 1);
    stream.send(message);
  };
  const encoder = new TextEncoder();
  const say = (message: unknown) => send(CONTROL, encoder.encode(JSON.stringify(message)));

  const onControl = (text: string) => {
    const message = JSON.parse(text) as Record<
      string,
      {
        writes?: boolean;
        writer?: string | null;
        code?: number;
        reason?: string | null;
        message?: string;
        rows?: number;
        cols?: number;
      }
    >;
    const writer = message.attached ?? message.writer;
    if (writer) {
      listener.onWriter({ writes: writer.writes ?? false, writer: writer.writer ?? null });
      if (message.attached && !writer.writes) terminal.resize(message.attached.cols!, message.attached.rows!);
    }
    if (message.size) terminal.resize(message.size.cols!, message.size.rows!);
    if (message.not_taken) listener.onProblem(`${message.not_taken.writer ?? "Another client"} keeps writing`);
    if (message.ended) {
      ended = true;
      listener.onProblem(`The session ended with exit code ${message.ended.code}`);
    }
    if (message.error) listener.onProblem(message.error.message ?? "The session cannot be attached");
  };
  const connect = async () => {
    clearTimeout(retry);
    if (closed || ended) return;
    try {
      stream = await socket(`/api/v1/workspaces/${session.workspace}/sessions/${session.id}/attach`, {
        rows: terminal.rows,
        cols: terminal.cols,
        name: "dashboard",
      });
    } catch {
      again();
      return;
    }
    if (closed) {
      stream.close();
      return;
    }
    stream.binaryType = "arraybuffer";
    stream.onopen = () => {
      tries = 0;
      terminal.reset();
      listener.onProblem("");
    };
    stream.onmessage = (event: MessageEvent<ArrayBuffer>) => {
      const bytes = new Uint8Array(event.data);
      if (bytes[0] === DRAWING) terminal.write(bytes.subarray(1));
      else if (bytes[0] === CONTROL) onControl(new TextDecoder().decode(bytes.subarray(1)));
    };
    stream.onclose = again;
  };
  const again = () => {
    if (closed || ended) return;
    tries += 1;
    listener.onProblem("The terminal lost its connection and tries again.");
    retry = setTimeout(() => void connect(), Math.min(1000 * 2 ** (tries - 1), 10_000));
  };
  terminal.onData((text) => send(KEYS, encoder.encode(text)));
  terminal.onBinary((text) =>
    send(
      KEYS,
      Uint8Array.from(text, (letter) => letter.charCodeAt(0)),
    ),
  );
  // Ctrl-\ leaves the terminal, as it detaches at the command line; Ctrl-K stays the program's.
  terminal.attachCustomKeyEventHandler((event) => {
    if (event.ctrlKey && event.key === "\\") {
      if (event.type === "keydown") terminal.blur();
      return false;
    }
    return true;
  });
  terminal.onResize(({ cols, rows }) => say({ resize: { cols, rows } }));
  const sizes = new ResizeObserver(() => fit.fit());
  sizes.observe(box);
  const themes = new MutationObserver(() => {
    terminal.options.theme = themeOf();
  });
  themes.observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
  void connect();
  return {
    take: () => {
      say("take");
      terminal.focus();
    },
    close: () => {
      closed = true;
      clearTimeout(retry);
      sizes.disconnect();
      themes.disconnect();
      stream?.close();
      terminal.dispose();
    },
  };
}

const token = (name: string): string => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** xterm parses colours itself, so each token is resolved by the browser first. */
function colour(name: string): string {
  const probe = document.createElement("i");
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

function themeOf(): ITheme {
  const [red, green, yellow, blue, ink, dim] = [
    "--term-red",
    "--term-green",
    "--term-amber",
    "--term-blue",
    "--term-ink",
    "--term-dim",
  ].map(colour) as [string, string, string, string, string, string];
  const strong = colour("--term-strong");
  return {
    background: colour("--term"),
    foreground: ink,
    cursor: ink,
    red,
    green,
    yellow,
    blue,
    cyan: blue,
    magenta: yellow,
    white: ink,
    black: dim,
    brightRed: red,
    brightGreen: green,
    brightYellow: yellow,
    brightBlue: blue,
    brightCyan: blue,
    brightMagenta: yellow,
    brightWhite: strong,
    brightBlack: dim,
  };
}
