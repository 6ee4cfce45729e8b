// The lower half of the work: logs, runs, timeline and the egress record take turns.
import type { ComponentChildren } from "preact";
import type { HolmEvent, Workspace } from "../../api/types";
import { lines } from "../../api/client";
import { plural, seconds } from "../../lib/format";
import { Icon, Text } from "../../parts/basic";
import { useEvents, useLoad, type Loaded } from "../../parts/hooks";
import { paths } from "../../state/route";
import { runsOf } from "../../state/store";
import { LogControls, Logs, useLogs } from "./logs";
import { EgressTable, type Host } from "./egress";
import { Runs } from "./runs";

export const TABS = ["logs", "runs", "timeline", "egress"] as const;
export type Tab = (typeof TABS)[number];

interface DockOf {
  one: Workspace;
  hosts: Loaded<Host[]>;
  shown: Tab;
  onShow: (tab: Tab) => void;
}

export function Dock({ one, hosts, shown, onShow }: DockOf) {
  const logs = useLogs(one);
  const runs = runsOf.value.get(one.id) ?? [];
  const refused = hosts.value?.filter((host) => host.refused).length ?? 0;
  const tab = (name: Tab, label: ComponentChildren) => (
    <button
      role="tab"
      type="button"
      id={`dock-${name}`}
      aria-selected={shown === name}
      aria-controls={name}
      onClick={() => onShow(name)}
    >
      {label}
    </button>
  );
  return (
    <>
      <div class="tabs tabs--dock">
        <div role="tablist" aria-label="Record">
          {tab("logs", "Logs")}
          {tab("runs", <>Runs{runs.length > 0 && <span class="faint">{runs.length}</span>}</>)}
          {tab("timeline", "Timeline")}
          {tab("egress", <>Egress{refused > 0 && <span class="is-needs">{refused}</span>}</>)}
        </div>
        <LogControls logs={logs} services={one.services.map((service) => service.name)} />
      </div>
      {shown === "logs" ? (
        <Logs logs={logs} />
      ) : (
        <div class="ws__dock scroll" id={shown} role="tabpanel" aria-labelledby={`dock-${shown}`} tabIndex={0}>
          {shown === "runs" && <Runs one={one} runs={runs} />}
          {shown === "timeline" && <Timeline id={one.id} />}
          {shown === "egress" && <EgressTable hosts={hosts} />}
        </div>
      )}
    </>
  );
}

const ICONS: Record<string, string> = {
  workspace: "workspaces",
  port: "globe",
  checkout: "anchor",
  session: "terminal",
  run: "play",
  turn: "diff",
  comment: "comment",
  inbox: "inbox",
  check: "check",
  snapshot: "snapshot",
};

function Timeline({ id }: { id: string }) {
  const { value, reload } = useLoad(
    async (signal) => {
      const found: HolmEvent[] = [];
      for await (const event of lines<HolmEvent>("get", "/api/v1/events", {
        query: { workspace: id, after: 0, follow: false },
        signal,
      }))
        found.push(event);
      return found
        .filter((event) => event.time)
        .reverse()
        .slice(0, 500);
    },
    [id],
  );
  useEvents(
    id,
    () => true,
    () => void reload(),
  );
  return (
    <ol class="time">
      {(value ?? []).map((event) => {
        const bad = /failed|refused|lost|attention/.test(event.type);
        return (
          <li key={event.cursor}>
            <time dateTime={event.time}>{seconds(event.time)}</time>
            <Icon name={ICONS[event.type.split(".")[0]!] ?? "clock"} />
            <span class={bad ? "is-needs" : ""}>{sentence(event)}</span>
          </li>
        );
      })}
    </ol>
  );
}

function sentence(event: HolmEvent): ComponentChildren {
  const says = (name: string) =>
    typeof event[name] === "string" || typeof event[name] === "number" ? <Text value={String(event[name])} /> : null;
  switch (event.type) {
    case "port.opened":
      return (
        <>
          Port <b>{says("name")}</b> opened at <span class="mono">{says("url") ?? says("host_port")}</span>
        </>
      );
    case "port.closed":
      return (
        <>
          Port <b>{says("name")}</b> closed
        </>
      );
    case "workspace.renamed":
      return (
        <>
          Renamed to <b>{says("label")}</b>
        </>
      );
    case "session.attention":
      return <>A session asks: {says("text") ?? "it rang"}</>;
    case "turn.recorded":
      return (
        <>
          Turn{" "}
          <a class="link" href={paths.review(event.workspace)}>
            @{says("turn")}
          </a>{" "}
          recorded: {plural(Number(event.files ?? 0), "file")}
        </>
      );
    case "checkout.changed":
      return (
        <>
          Took localhost:{says("port")} for {says("name")}
        </>
      );
    case "run.started":
      return (
        <>
          Run <span class="mono">{says("run")}</span> began
        </>
      );
    case "run.ended":
      return (
        <>
          Run <span class="mono">{says("run")}</span> ended: {says("state")}
        </>
      );
    case "check.started":
    case "check.ended":
      return (
        <>
          Check <b>{says("check")}</b> {event.type === "check.ended" ? "ended" : "began"}
          {event.state ? <>: {says("state")}</> : null}
        </>
      );
    case "inbox.opened":
      return (
        <>
          Needs you: {says("reason")} {says("text")}
        </>
      );
    case "inbox.closed":
      return <>Needs you no longer: {says("reason")}</>;
    default:
      return (
        <>
          {event.type.replace(".", " ").replace(/^\w/, (letter) => letter.toUpperCase())} {says("reason")}
        </>
      );
  }
}
