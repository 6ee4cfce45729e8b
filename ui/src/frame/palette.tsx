// Ctrl K: do something with the workspace of this page, or go somewhere. Every entry shows its command.
import { useEffect, useMemo, useState } from "preact/hooks";
import { find } from "../lib/find";
import { Glyph, Icon, Kbd, Text, type State } from "../parts/basic";
import { Veil } from "../parts/overlay";
import { asked, copy, remove, restart, startOrStop, switchTo, takePorts } from "../state/actions";
import { preview, standing } from "../state/attention";
import { go, paths, route, SETTINGS } from "../state/route";
import { byId, inboxOf, nameOf, runsOf, sessionsOf, workspaces } from "../state/store";
import type { Workspace } from "../api/types";

interface Entry {
  group: string;
  name: string;
  mono?: boolean;
  note: string;
  icon?: string;
  state?: State;
  keys?: string;
  command?: string;
  run: () => void;
}

const here = (): Workspace | undefined => ("id" in route.value ? byId.value.get(route.value.id) : undefined);

function deeds(one: Workspace): Entry[] {
  const name = nameOf(one);
  const group = `Do with ${one.label}`;
  const page = preview(one);
  return [
    {
      group,
      name: "Review",
      icon: "diff",
      note: "risks, evidence and changes",
      keys: "r",
      command: `holm review ${name}`,
      run: () => go(paths.review(one.id)),
    },
    {
      group,
      name: "Open",
      icon: "terminal",
      note: "terminals, logs, facts",
      command: `holm show ${name}`,
      run: () => go(paths.workspace(one.id)),
    },
    ...(page
      ? [
          {
            group,
            name: "Open preview",
            icon: "open",
            note: page,
            keys: "o",
            command: `holm open ${name}`,
            run: () => {
              window.open(page, "_blank", "noopener");
            },
          },
        ]
      : []),
    {
      group,
      name: one.state === "running" ? "Stop" : "Start",
      icon: one.state === "running" ? "stop" : "play",
      note: one.state === "running" ? "code and data stay" : "its processes",
      keys: "s",
      command: `holm ${one.state === "running" ? "stop" : "start"} ${name}`,
      run: () => void startOrStop(one),
    },
    {
      group,
      name: "Restart services",
      icon: "restart",
      note: one.services.map((service) => service.name).join(", "),
      command: `holm restart ${name}`,
      run: () => void restart(one),
    },
    {
      group,
      name: "Take the canonical ports",
      icon: "anchor",
      note: "localhost shows this workspace",
      keys: "h",
      command: `holm checkout ${name}`,
      run: () => void takePorts(one),
    },
    {
      group,
      name: "Switch to it",
      icon: "right",
      note: "its ports and its page",
      keys: "w",
      command: `holm switch ${name}`,
      run: () => void switchTo(one),
    },
    {
      group,
      name: "Snapshot…",
      icon: "snapshot",
      note: "code and volumes",
      keys: "p",
      command: `holm snapshot ${name}`,
      run: () => {
        asked.value = { kind: "snapshot", workspace: one };
      },
    },
    {
      group,
      name: "Fork…",
      icon: "fork",
      note: "code and data of this instant",
      keys: "f",
      command: `holm fork ${name}`,
      run: () => {
        asked.value = { kind: "fork", workspace: one };
      },
    },
    {
      group,
      name: "Rename…",
      icon: "file",
      note: "the label only; id, ports and data stay",
      keys: "F2",
      command: `holm rename ${name}`,
      run: () => {
        asked.value = { kind: "rename", workspace: one };
      },
    },
    ...one.volumes.map((volume) => ({
      group,
      name: `Reset volume ${volume.name}…`,
      icon: "undo",
      note: "to its seed",
      command: `holm reset ${name} --volume ${volume.name}`,
      run: () => {
        asked.value = { kind: "reset", workspace: one, volume: volume.name };
      },
    })),
    {
      group,
      name: "Remove",
      icon: "trash",
      note: "to the trash; can be undone",
      command: `holm rm ${name}`,
      run: () => void remove(one),
    },
  ];
}

function places(): Entry[] {
  const group = "Go to";
  return [
    ...workspaces.value.map((one) => {
      const is = standing(
        one,
        inboxOf.value.get(one.id),
        runsOf.value.get(one.id) ?? [],
        sessionsOf.value.get(one.id) ?? [],
        Date.now(),
      );
      return {
        group,
        name: nameOf(one),
        mono: true,
        state: is.state,
        note: is.reason ? `${is.reason}: ${is.what}` : is.what,
        command: `holm show ${nameOf(one)}`,
        run: () => go(paths.workspace(one.id)),
      };
    }),
    {
      group,
      name: "Inbox",
      icon: "inbox",
      note: "what needs you",
      keys: "g i",
      command: "holm inbox",
      run: () => go("/inbox"),
    },
    {
      group,
      name: "Workspaces",
      icon: "workspaces",
      note: "all of them",
      keys: "g w",
      command: "holm ls",
      run: () => go("/workspaces"),
    },
    {
      group,
      name: "Data",
      icon: "data",
      note: "what shares what",
      keys: "g d",
      command: "holm df",
      run: () => go("/data"),
    },
    {
      group,
      name: "New workspace",
      icon: "plus",
      note: "with or without an agent",
      keys: "n",
      command: "holm up",
      run: () => go("/new"),
    },
    ...SETTINGS.map((tab) => ({
      group,
      name: `Settings: ${tab}`,
      icon: "settings",
      note: "",
      run: () => go(`/settings/${tab}`),
    })),
  ];
}

export function Palette({ onClose }: { onClose: () => void }) {
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const one = here();
  const found = useMemo(
    () =>
      [...(one ? deeds(one) : []), ...places()]
        .flatMap((entry) => {
          const match = find(text, entry.name);
          return match ? [{ entry, ...match }] : [];
        })
        .sort((a, b) => (text ? b.score - a.score : 0))
        .slice(0, 60)
        // Groups stay together, in the order in which the best match of each stands.
        .map((hit, _, all) => ({
          ...hit,
          rank: all.findIndex((other) => other.entry.group === hit.entry.group),
        }))
        .sort((a, b) => a.rank - b.rank),
    [text, one],
  );
  useEffect(() => {
    setAt(0);
  }, [text]);
  useEffect(() => {
    document.getElementById(`pal-${at}`)?.scrollIntoView({ block: "nearest" });
  }, [at]);
  const chosen = found[Math.min(at, found.length - 1)]?.entry;
  const run = (entry: Entry) => {
    onClose();
    entry.run();
  };
  const onKey = (event: KeyboardEvent) => {
    if (event.key === "ArrowDown") {
      event.preventDefault();
      setAt((at + 1) % Math.max(1, found.length));
    }
    if (event.key === "ArrowUp") {
      event.preventDefault();
      setAt((at - 1 + found.length) % Math.max(1, found.length));
    }
    if (event.key === "Enter" && chosen) {
      event.preventDefault();
      if (event.ctrlKey && chosen.command) {
        onClose();
        void copy(chosen.command);
      } else run(chosen);
    }
  };
  return (
    <Veil onClose={onClose}>
      <section class="pal" role="dialog" aria-modal="true" aria-label="Find or do">
        <div class="pal__input">
          <Icon name="search" />
          <label class="vh" for="find">
            Find or do
          </label>
          {one && (
            <span class="tag">
              <span class="mono">
                <Text value={one.label} />
              </span>
            </span>
          )}
          <input
            id="find"
            data-first
            type="text"
            value={text}
            autocomplete="off"
            spellcheck={false}
            role="combobox"
            aria-expanded="true"
            aria-controls="pal-list"
            aria-activedescendant={chosen ? `pal-${at}` : undefined}
            onInput={(event) => setText(event.currentTarget.value)}
            onKeyDown={onKey}
          />
          <kbd>Esc</kbd>
        </div>
        <div class="pal__list" id="pal-list" role="listbox" aria-label="Results">
          {found.length === 0 && <p class="pal__group">Nothing is called that</p>}
          {found.map(({ entry, marks }, i) => (
            <div key={`${entry.group}${entry.name}`} role="presentation">
              {entry.group !== found[i - 1]?.entry.group && (
                <p class="pal__group" aria-hidden="true">
                  {entry.group}
                </p>
              )}
              <div
                id={`pal-${i}`}
                class={`pal__row ${i === at ? "is-selected" : ""}`}
                role="option"
                aria-selected={i === at}
                onMouseMove={() => setAt(i)}
                onClick={() => run(entry)}
              >
                {entry.state ? <Glyph state={entry.state} /> : <Icon name={entry.icon!} />}
                <span class={`pal__name ${entry.mono ? "mono" : ""}`}>
                  <Marked text={entry.name} marks={marks} />
                </span>
                <span class="pal__note cut">
                  <Text value={entry.note} />
                </span>
                {entry.keys && <Kbd keys={entry.keys} />}
              </div>
            </div>
          ))}
        </div>
        <div class="pal__foot">
          <span>
            <kbd>↑</kbd>
            <kbd>↓</kbd> choose
          </span>
          <span>
            <kbd>⏎</kbd> do
          </span>
          {chosen?.command && (
            <>
              <span>
                <kbd>Ctrl ⏎</kbd> copy as command
              </span>
              <code class="pal__cmd cut">
                <Text value={chosen.command} />
              </code>
            </>
          )}
        </div>
      </section>
    </Veil>
  );
}

function Marked({ text, marks }: { text: string; marks: number[] }) {
  if (!marks.length) return <Text value={text} />;
  return (
    <>{[...text].map((letter, i) => (marks.includes(i) ? <mark key={i}>{letter}</mark> : <Text key={i} value={letter} />))}</>
  );
}
