// The field for where a workspace starts: branches and tags of the person's repository, and turns of its workspaces, newest
// first, found while typing.
import { useEffect, useRef, useState } from "preact/hooks";
import { api } from "../api/client";
import type { Project, Starts } from "../api/types";
import { plural, short } from "../lib/format";
import { Age, Icon, Text } from "../parts/basic";
import { useLoad } from "../parts/hooks";
import { workspaces } from "../state/store";

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

interface Place {
  name: string;
  note: string;
  at: string;
}

const siblings = (project: Project | undefined) => workspaces.value.filter((one) => one.project === project?.name);

/** `fix-login@3` as the daemon names it; null: it is no turn of a workspace of this project. */
export function turnOf(project: Project | undefined, typed: string): string | null {
  const [, label, n] = /^(.+)@([1-9]\d*)$/.exec(typed) ?? [];
  const found = siblings(project).find((one) => one.label === label);
  return found ? `${found.id}@${n}` : null;
}

/** All turns of the workspace whose label is typed, else the last one of each whose label begins so. */
function useTurns(project: Project | undefined, typed: string): Place[] {
  const label = typed.split("@", 1)[0]!;
  const exact = siblings(project).filter((one) => one.label === label);
  const like = exact.length ? exact : siblings(project).filter((one) => one.label.startsWith(label));
  const few = like.toSorted((a, b) => b.last_used_at.localeCompare(a.last_used_at)).slice(0, 3);
  const { value } = useLoad(
    async (signal) =>
      Promise.all(
        few.map(async ({ id, label, ref }) => {
          const { turns } = await api.get("/api/v1/workspaces/{id}/turns", { path: { id }, signal });
          return turns.slice(exact.length ? -4 : -1).map((turn) => ({
            name: `${label}@${turn.n}`,
            note: `turn, ${plural(turn.files, "file")} on top of ${ref ?? "its start"}`,
            at: turn.at,
          }));
        }),
      ),
    [few.map((one) => one.id).join(), exact.length],
  );
  return (value ?? [])
    .flat()
    .filter((one) => one.name.startsWith(typed))
    .sort((a, b) => b.at.localeCompare(a.at));
}

export function RefField({
  project,
  value,
  starts,
  onPick,
}: {
  project: Project | undefined;
  value: string;
  starts: Starts | null;
  onPick: (ref: string) => void;
}) {
  const [at, setAt] = useState(-1);
  const [open, setOpen] = useState(false);
  // Those of the text before stay until the next list is there.
  const found = (starts?.refs ?? []).filter((one) => one.name.toLowerCase().includes(value.toLowerCase())).slice(0, 8);
  const refs: Place[] = [
    ...found.map((one) => ({ name: one.name, note: `${short(one.commit)} ${one.subject}`, at: one.at })),
    ...useTurns(project, value),
  ];
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
          placeholder={starts?.branch ?? "the checkout's branch; a branch, tag, commit or turn"}
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
      <ul class="pick" id="n-refs" role="listbox" aria-label="Refs and turns" hidden={!shown}>
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
              <Text value={one.note} />
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
