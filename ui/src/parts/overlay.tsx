// What floats: sheets, dialogs, menus and toasts. Focus goes in when one opens and back when it closes.
import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { useKeys } from "../state/keys";
import { dismiss, toasts, undo } from "../state/toast";
import { Button, Glyph, Icon, IconButton, Text, Words } from "./basic";

/** Keeps Tab inside `box` and gives the focus back at the end. */
function useTrap(box: { current: HTMLElement | null }): void {
  useLayoutEffect(() => {
    const before = document.activeElement as HTMLElement | null;
    const element = box.current!;
    (element.querySelector<HTMLElement>("[data-first]") ?? focusable(element)[0] ?? element).focus();
    const onKey = (event: KeyboardEvent) => {
      if (event.key !== "Tab") return;
      const all = focusable(element);
      const edge = event.shiftKey ? all[0] : all.at(-1);
      if (document.activeElement !== edge && element.contains(document.activeElement)) return;
      event.preventDefault();
      (event.shiftKey ? all.at(-1) : all[0])?.focus();
    };
    element.addEventListener("keydown", onKey);
    return () => {
      element.removeEventListener("keydown", onKey);
      before?.focus?.();
    };
  }, []);
}

const focusable = (box: HTMLElement): HTMLElement[] =>
  [...box.querySelectorAll<HTMLElement>("a[href], button:not([disabled]), input, textarea, select, [tabindex='0']")].filter(
    (one) => one.offsetParent !== null,
  );

export function Veil({ onClose, end, children }: { onClose: () => void; end?: boolean; children: ComponentChildren }) {
  const box = useRef<HTMLDivElement>(null);
  useTrap(box);
  useKeys({ close: onClose });
  return (
    <div
      class={`veil ${end ? "veil--end" : ""}`}
      ref={box}
      onMouseDown={(event) => {
        if (event.target === event.currentTarget) onClose();
      }}
    >
      {children}
    </div>
  );
}

export function Sheet({
  title,
  onClose,
  foot,
  children,
}: {
  title: ComponentChildren;
  onClose: () => void;
  foot?: ComponentChildren;
  children: ComponentChildren;
}) {
  return (
    <Veil onClose={onClose} end>
      <div class="sheet" role="dialog" aria-modal="true" aria-labelledby="sheet-title">
        <header class="sheet__head">
          <h1 id="sheet-title">{title}</h1>
          <IconButton icon="x" says="Close (Esc)" onClick={onClose} />
        </header>
        <div class="sheet__body scroll" tabIndex={0}>
          {children}
        </div>
        {foot && <div class="sheet__foot">{foot}</div>}
      </div>
    </Veil>
  );
}

/** A question that only what loses work asks, or a field for one word. */
export function Dialog({
  title,
  onClose,
  acts,
  children,
}: {
  title: string;
  onClose: () => void;
  acts: ComponentChildren;
  children: ComponentChildren;
}) {
  return (
    <Veil onClose={onClose}>
      <div class="pal ask-box" role="dialog" aria-modal="true" aria-labelledby="dialog-title">
        <h1 id="dialog-title" class="ask-box__title">
          {title}
        </h1>
        <div class="ask-box__body">{children}</div>
        <div class="ask-box__acts">{acts}</div>
      </div>
    </Veil>
  );
}

/** Asks for one word, such as a label. */
export function AskWord({
  title,
  label,
  start,
  verb,
  hint,
  onClose,
  onGive,
}: {
  title: string;
  label: string;
  start: string;
  verb: string;
  hint?: string;
  onClose: () => void;
  onGive: (word: string) => Promise<unknown>;
}) {
  const [word, setWord] = useState(start);
  const [problem, setProblem] = useState("");
  const [busy, setBusy] = useState(false);
  const give = async () => {
    setBusy(true);
    try {
      await onGive(word.trim());
      onClose();
    } catch (cause) {
      setProblem((cause as Error).message);
      setBusy(false);
    }
  };
  return (
    <Dialog
      title={title}
      onClose={onClose}
      acts={
        <>
          <Button kind="quiet" cap="Esc" onClick={onClose}>
            Cancel
          </Button>
          <Button kind="primary" cap="⏎" busy={busy} onClick={() => void give()}>
            {verb}
          </Button>
        </>
      }
    >
      <label class="f__label" for="ask-word">
        {label}
      </label>
      <div class="field field--tall">
        <input
          id="ask-word"
          class="mono"
          data-first
          value={word}
          autocomplete="off"
          spellcheck={false}
          onInput={(event) => setWord(event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key === "Enter") void give();
          }}
        />
      </div>
      {problem ? (
        <p class="gate__err" role="alert">
          <Glyph state="failed" />
          <span>
            <Text value={problem} />
          </span>
        </p>
      ) : (
        hint && <p class="f__hint">{hint}</p>
      )}
    </Dialog>
  );
}

export interface Choice {
  label: string;
  icon?: string;
  note?: string;
  danger?: boolean;
  run: () => void;
}

export function Menu({
  says,
  icon = "more",
  choices,
  children,
}: {
  says: string;
  icon?: string;
  choices: Choice[];
  children?: ComponentChildren;
}) {
  const [open, setOpen] = useState(false);
  const box = useRef<HTMLSpanElement>(null);
  useEffect(() => {
    if (!open) return;
    const away = (event: Event) => {
      if (!box.current?.contains(event.target as Node)) setOpen(false);
    };
    addEventListener("mousedown", away);
    box.current?.querySelector<HTMLElement>("[role=menuitem]")?.focus();
    return () => removeEventListener("mousedown", away);
  }, [open]);
  const onKey = (event: KeyboardEvent) => {
    const items = [...box.current!.querySelectorAll<HTMLElement>("[role=menuitem]")];
    const at = items.indexOf(document.activeElement as HTMLElement);
    if (event.key === "Escape" && open) {
      event.stopPropagation();
      setOpen(false);
      box.current!.querySelector("button")!.focus();
    }
    if (event.key === "ArrowDown") {
      event.preventDefault();
      event.stopPropagation();
      items[(at + 1) % items.length]?.focus();
    }
    if (event.key === "ArrowUp") {
      event.preventDefault();
      event.stopPropagation();
      items[(at - 1 + items.length) % items.length]?.focus();
    }
  };
  if (choices.length === 0) return null;
  return (
    <span class="menu" ref={box} onKeyDown={onKey}>
      <button
        type="button"
        class={children ? "btn" : "btn btn--icon"}
        title={says}
        aria-haspopup="menu"
        aria-expanded={open}
        onClick={() => setOpen(!open)}
      >
        {children ?? <Icon name={icon} />}
        <span class="vh">{says}</span>
      </button>
      {open && (
        <ul class="menu__list" role="menu" aria-label={says}>
          {choices.map((one) => (
            <li key={one.label} role="none">
              <button
                type="button"
                role="menuitem"
                class={one.danger ? "is-failed" : ""}
                onClick={() => {
                  setOpen(false);
                  one.run();
                }}
              >
                {one.icon && <Icon name={one.icon} />}
                <span>{one.label}</span>
                {one.note && <span class="faint">{one.note}</span>}
              </button>
            </li>
          ))}
        </ul>
      )}
    </span>
  );
}

export const Toasts = () => (
  <div class="toasts" aria-live="polite">
    {toasts.value.map((one) => (
      <div key={one.id} class={`toast toast--${one.kind}`} role="status">
        {one.kind === "done" ? <Icon name="check" /> : <Glyph state="failed" />}
        <span>
          <Text value={one.text} />
          {one.hint && (
            <>
              <br />
              <span class="dim">
                <Words text={one.hint} />
              </span>
            </>
          )}
        </span>
        {one.undo && (
          <Button small kind="quiet" cap="u" onClick={() => void undo(one)}>
            Undo
          </Button>
        )}
        <IconButton icon="x" says="Dismiss" small onClick={() => dismiss(one.id)} />
      </div>
    ))}
  </div>
);
