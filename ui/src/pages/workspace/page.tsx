// One workspace: streams are tabs, facts are panels.
import { useEffect, useState } from "preact/hooks";
import { plural } from "../../lib/format";
import { Button, Cap, Glyph, Icon, Text } from "../../parts/basic";
import { ProjectCrumb } from "../../parts/table";
import { Menu } from "../../parts/overlay";
import { asked, pending, remove, restart, startOrStop, takePorts } from "../../state/actions";
import { firstLine, preview, standing } from "../../state/attention";
import { command, hints, useKeys } from "../../state/keys";
import { minute, phone } from "../../state/look";
import { go, paths } from "../../state/route";
import { firstMessage, byId, gone, inboxOf, lastTurns, loaded, loadTurn, nameOf, runsOf, sessionsOf, workspaces } from "../../state/store";
import type { Workspace } from "../../api/types";
import { Dock, TABS, type Tab } from "./dock";
import { useHosts } from "./egress";
import { Facts } from "./facts";
import { Sessions } from "./sessions";

export function WorkspacePage({ id }: { id: string }) {
  const one = byId.value.get(id);
  useEffect(() => {
    document.title = `${one?.label ?? "Workspace"} · holm`;
  }, [one?.label]);
  if (!one) {
    return loaded.value ? (
      <>
        <header class="bar">
          <h1 class="bar__title">No such workspace</h1>
        </header>
        <p class="empty">
          No live workspace has the id{" "}
          <code>
            <Text value={id} />
          </code>
          . It may be in the{" "}
          <a class="link" href="/settings/trash">
            trash
          </a>
          .
        </p>
      </>
    ) : null;
  }
  return <Loaded one={one} />;
}

/** The stream that is shown, as the fragment of the address. */
function useDock(): [Tab, (tab: Tab) => void] {
  const named = () => TABS.find((tab) => `#${tab}` === location.hash) ?? "logs";
  const [shown, setShown] = useState<Tab>(named);
  useEffect(() => {
    const follow = () => setShown(named());
    addEventListener("hashchange", follow);
    return () => removeEventListener("hashchange", follow);
  }, []);
  return [
    shown,
    (tab) => {
      history.replaceState(null, "", `${location.pathname}#${tab}`);
      setShown(tab);
    },
  ];
}

function Loaded({ one }: { one: Workspace }) {
  const [dock, setDock] = useDock();
  const hosts = useHosts(one.id);
  const is = standing(
    one,
    inboxOf.value.get(one.id),
    runsOf.value.get(one.id) ?? [],
    sessionsOf.value.get(one.id) ?? [],
    minute.value,
  );
  const turn = lastTurns.value.get(one.id);
  useEffect(() => {
    void loadTurn(one.id).catch(() => undefined);
  }, [lastTurns.value.has(one.id)]);
  useEffect(() => {
    command.value = `holm show ${nameOf(one)}`;
    hints.value = [
      ["workspace.session", "session"],
      ["workspace.logs", "logs"],
      ["workspace.review", "review"],
      ["workspace.ports", "take ports"],
      ["workspace.snapshot", "snapshot"],
      ["workspace.fork", "fork"],
      ["workspace.previous workspace.next", "next one"],
    ];
  }, [one.id, one.label]);
  const step = (by: number) => {
    const all = workspaces.value;
    const next = all[(all.findIndex((other) => other.id === one.id) + by + all.length) % all.length];
    if (next) go(paths.workspace(next.id));
  };
  const page = one.state === "running" ? preview(one) : null;
  const openPage = () => {
    if (page) window.open(page, "_blank", "noopener");
  };
  const ask = (kind: "fork" | "snapshot" | "rename") => {
    asked.value = { kind, workspace: one };
  };
  const running = one.state === "running";
  useKeys({
    "workspace.review": () => go(paths.review(one.id)),
    "workspace.open": openPage,
    "workspace.ports": () => void takePorts(one),
    "workspace.fork": () => ask("fork"),
    "workspace.snapshot": () => ask("snapshot"),
    "workspace.rename": () => ask("rename"),
    "workspace.stop": () => void startOrStop(one),
    "workspace.restart": () => void restart(one),
    "workspace.logs": () => setDock("logs"),
    "workspace.previous": () => step(-1),
    "workspace.next": () => step(1),
  });
  const busy = pending.value.get(one.id);
  const message = firstMessage(one.id);
  return (
    <>
      <header class="bar">
        <div class="crumb">
          <ProjectCrumb name={one.project} />
          <h1 class="bar__title mono">
            <Text value={one.label} />
          </h1>
        </div>
        <span class="bar__state">
          <Glyph state={busy ? "running" : is.state} />
          <span>{busy ?? is.group}</span>
        </span>
        <span class="bar__note cut hide-phone">
          {message && (
            <>
              “<Text value={firstLine(message)} />”
            </>
          )}
        </span>
        <div class="bar__end">
          <Button kind="quiet" class="hide-phone" icon="fork" cap="f" onClick={() => ask("fork")}>
            Fork
          </Button>
          <Button kind="quiet" class="hide-phone" icon={running ? "stop" : "play"} cap="s" onClick={() => void startOrStop(one)}>
            {running ? "Stop" : "Start"}
          </Button>
          {page && (
            <a class="btn" href={page} target="_blank" rel="noopener noreferrer">
              <Icon name="open" />
              Open {one.ports.find((port) => port.url === page)?.name ?? "web"}
              <Cap keys="o" />
            </a>
          )}
          <a class="btn btn--primary" href={paths.review(one.id)}>
            Review{turn ? ` ${plural(turn.files, "file")}` : ""}
            <Cap keys="r" />
          </a>
          <Menu
            says="Rename, restart, remove …"
            choices={[
              ...(phone.value
                ? [
                    { label: running ? "Stop" : "Start", icon: running ? "stop" : "play", run: () => void startOrStop(one) },
                    { label: "Fork…", icon: "fork", run: () => ask("fork") },
                    { label: "Snapshot…", icon: "snapshot", run: () => ask("snapshot") },
                  ]
                : []),
              { label: "Rename…", icon: "file", note: "F2", run: () => ask("rename") },
              {
                label: "Take the canonical ports",
                icon: "anchor",
                note: "h",
                run: () => void takePorts(one),
              },
              { label: "Restart", icon: "restart", note: "R", run: () => void restart(one) },
              {
                label: "Reset to its beginning…",
                icon: "undo",
                run: () => {
                  asked.value = { kind: "reset", workspace: one };
                },
              },
              { label: "Remove", icon: "trash", danger: true, run: () => void remove(one) },
            ]}
          />
        </div>
      </header>
      {gone.value.has(one.id) && (
        <div class="banner banner--needs">
          <b>Removed.</b>
          <span>It stays in the trash.</span>
          <a class="link" href="/settings/trash">
            Trash
          </a>
        </div>
      )}
      <div class="ws">
        <div class="ws__work">
          <Sessions one={one} />
          <Dock one={one} hosts={hosts} shown={dock} onShow={setDock} />
        </div>
        <Facts one={one} hosts={hosts} onEgress={() => setDock("egress")} />
      </div>
    </>
  );
}
