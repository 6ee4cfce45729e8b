// The field for where a workspace starts: branches and tags of the person's repository, newest first, found while typing.
import { useEffect, useRef, useState } from "preact/hooks";
import { api } from "../api/client";
import type { Project, Starts } from "../api/types";
import { short } from "../lib/format";
import { Age, Icon, Text } from "../parts/basic";
import { useLoad } from "../parts/hooks";

/** The refs that contain `wanted`; null for a project that is not known yet. */
export function useStarts(project: Project | undefined, wanted: string): Starts | null {
  const [find, setFind] = useState(wanted);
  useEffect(() => {
    const timer = setTimeout(() => setFind(wanted), 150);
    return () => clearTimeout(timer);
  }, [wanted]);
  const { value } = useLoad(
    async (signal) =>
      project ? await api.get("/api/v1/projects/{id}/refs", { path: { id: project.id }, query: { find }, signal }) : null,
    [project?.id, find],
  );
  const last = useRef<Starts | null>(null);
  if (value) last.current = value;
  // The list before stays until the next one is there.
  return project ? (value ?? last.current) : null;
}

export function RefField({ value, starts, onPick }: { value: string; starts: Starts | null; onPick: (ref: string) => void }) {
  const [at, setAt] = useState(-1);
  const [open, setOpen] = useState(false);
  const refs = starts?.refs.slice(0, 8) ?? [];
  const shown = open && refs.length > 0;
  const pick = (name: string) => {
    onPick(name);
    setOpen(false);
  };
  const onKey = (event: KeyboardEvent) => {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (by) {
      event.preventDefault();
      setOpen(true);
      setAt(Math.max(-1, Math.min(refs.length - 1, at + by)));
    } else if (event.key === "Enter" && !event.ctrlKey && !event.metaKey && shown && refs[at]) {
      event.preventDefault();
      pick(refs[at].name);
    } else if (event.key === "Escape" && shown) {
      event.stopPropagation();
      setOpen(false);
    }
  };
  return (
    <>
      <div class={`field field--tall ${shown ? "field--open" : ""}`}>
        <Icon name="branch" />
        <input
          id="n-ref"
          class="mono"
          role="combobox"
          aria-expanded={shown}
          aria-controls="n-refs"
          aria-autocomplete="list"
          aria-activedescendant={shown && at >= 0 ? `n-ref-${at}` : undefined}
          value={value}
          placeholder={starts?.branch ?? "the checkout's branch; a branch, tag or commit"}
          autocomplete="off"
          spellcheck={false}
          onFocus={() => setOpen(true)}
          onBlur={() => setOpen(false)}
          onInput={(event) => {
            onPick(event.currentTarget.value);
            setOpen(true);
            setAt(-1);
          }}
          onKeyDown={onKey}
        />
      </div>
      <ul class="pick" id="n-refs" role="listbox" aria-label="Refs" hidden={!shown}>
        {refs.map((one, i) => (
          <li
            key={one.name}
            id={`n-ref-${i}`}
            role="option"
            aria-selected={i === at}
            class={i === at ? "is-selected" : ""}
            // Before the field loses the focus, which closes the list.
            onMouseDown={(event) => {
              event.preventDefault();
              pick(one.name);
            }}
          >
            <span class="mono cut">
              <Text value={one.name} />
            </span>
            <span class="faint cut">
              {short(one.commit)} <Text value={one.subject} />
            </span>
            <span class="faint">
              <Age time={one.at} />
            </span>
          </li>
        ))}
      </ul>
    </>
  );
}
