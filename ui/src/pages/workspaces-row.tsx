// One workspace in the list.
import { useEffect } from "preact/hooks";
import type { Workspace } from "../api/types";
import { visible } from "../lib/odd";
import { bytes, count, minus, plus } from "../lib/format";
import { Age, Button, Cap, Glyph, Icon, Spark, Text, type State } from "../parts/basic";
import { Menu } from "../parts/overlay";
import { asked, pending, remove, restore, startOrStop, switchTo, takePorts } from "../state/actions";
import { isHot, preview, serviceState, type Standing } from "../state/attention";
import { paths } from "../state/route";
import { canonical, gone, inboxOf, lastTurns, loadTurn, numbers } from "../state/store";
import { failed } from "../state/toast";
import { QuestionText, sessionOf } from "./inbox-item";

export function Row({
  one,
  is,
  selected,
  marked,
  onSelect,
}: {
  one: Workspace;
  is: Standing;
  selected: boolean;
  marked: boolean;
  onSelect: () => void;
}) {
  useEffect(() => {
    void loadTurn(one.id).catch(() => undefined);
  }, [one.id, lastTurns.value.has(one.id)]);
  const now = numbers.value.get(one.id);
  const turn = lastTurns.value.get(one.id);
  if (gone.value.has(one.id)) return <Gone one={one} />;
  const hot = isHot(one, now);
  const busy = pending.value.get(one.id);
  const item = is.reason === "question" ? inboxOf.value.get(one.id) : undefined;
  const session = item && sessionOf(item);
  const odd = one.branch && one.branch !== `holm/${one.label}` ? one.branch : null;
  return (
    <tr class={`${selected ? "is-selected" : ""} ${marked ? "is-marked" : ""}`} aria-selected={selected} onMouseDown={onSelect}>
      <td class="o-state">
        <Glyph state={busy ? "running" : is.state} />
      </td>
      <td class="o-name">
        <a class="mono o-label" href={paths.workspace(one.id)}>
          <Text value={one.label} />
        </a>
        <span class="faint">
          <Text value={one.project} />
          {odd && (
            <span class="mono">
              {" "}
              <Text value={odd} />
            </span>
          )}
        </span>
      </td>
      <td class="o-what cut">
        {!busy && is.reason && <span class={`is-${is.tone}`}>{is.reason}</span>}{" "}
        {!busy && item && session ? <QuestionText item={item} session={session} /> : <Text value={busy ?? is.what} />}
      </td>
      <td class="o-agent dim">
        {is.agent && <Text value={is.agent} />}
        {is.more > 0 && (
          <span class="faint o-more" title={`${is.more} more`}>
            +{is.more}
          </span>
        )}
      </td>
      <td class="o-svc">
        <Services one={one} />
      </td>
      <td class="o-port">
        <Ports one={one} />
      </td>
      <td class="o-pm num">
        {turn ? (
          <>
            <span class="o-files">{count(turn.files)}</span>
            <span class="pm">
              <span class="plus">{turn.added > 0 && plus(turn.added)}</span>
              <span class="minus">{turn.removed > 0 && minus(turn.removed)}</span>
            </span>
          </>
        ) : one.dirty ? (
          <span class="faint">changed</span>
        ) : turn === null && one.dirty === false ? (
          <span class="faint">clean</span>
        ) : null}
      </td>
      <td class="o-cpu">
        <Spark values={now && one.state === "running" ? now.history.cpu : []} top={one.limits.cpus ?? 2} hot={hot} />
      </td>
      <td class={`o-mem num ${hot ? "is-needs" : ""}`}>
        {now && one.state === "running" ? bytes(now.memory) : <span class="faint">–</span>}
      </td>
      <td class="o-disk num dim">{now?.disk != null ? bytes(now.disk) : <span class="faint">–</span>}</td>
      <td class={`o-age num ${is.now ? "is-running" : "dim"}`}>
        <Age time={is.since} />
        <Acts one={one} />
      </td>
    </tr>
  );
}

const Acts = ({ one }: { one: Workspace }) => (
  <span class="o-acts">
    <a class="btn btn--small" href={paths.review(one.id)}>
      Review
      <Cap keys="r" />
    </a>
    <a class="btn btn--small" href={paths.workspace(one.id)}>
      Open
      <Cap keys="⏎" />
    </a>
    <Button small cap="s" onClick={() => void startOrStop(one)}>
      {one.state === "running" ? "Stop" : "Start"}
    </Button>
    <Menu
      says="More"
      choices={[
        { label: "Switch to it", icon: "right", note: "w", run: () => void switchTo(one) },
        { label: "Take the canonical ports", icon: "anchor", note: "h", run: () => void takePorts(one) },
        {
          label: "Fork…",
          icon: "fork",
          run: () => {
            asked.value = { kind: "fork", workspace: one };
          },
        },
        {
          label: "Rename…",
          icon: "file",
          run: () => {
            asked.value = { kind: "rename", workspace: one };
          },
        },
        { label: "Remove", icon: "trash", danger: true, run: () => void remove(one) },
      ]}
    />
  </span>
);

function Gone({ one }: { one: Workspace }) {
  const undo = async () => {
    try {
      await restore(one.id);
    } catch (cause) {
      failed("Cannot restore it", cause);
    }
  };
  return (
    <tr class="is-gone">
      <td class="o-state">
        <Glyph state="stopped" />
      </td>
      <td class="o-name">
        <span class="mono o-label">
          <Text value={one.label} />
        </span>
        <span>
          <Text value={one.project} />
        </span>
      </td>
      <td class="o-what" colSpan={9}>
        removed; it stays in the trash{" "}
        <Button small kind="quiet" icon="undo" onClick={() => void undo()}>
          Undo
        </Button>
      </td>
    </tr>
  );
}

/** Only what is not ready is named; the rest is a count. */
function Services({ one }: { one: Workspace }) {
  if (one.services.length === 0) return null;
  const ready = one.services.filter((service) => serviceState(service) === "ready");
  const rest = one.services.filter((service) => serviceState(service) !== "ready");
  const named = ready.map((service) => service.name).join(", ");
  if (one.state !== "running" || (rest.length === one.services.length && rest.every((service) => service.state === "stopped"))) {
    return (
      <span class="svcs">
        <span class="faint">
          <Glyph state="stopped" />
          {one.services.length} stopped
        </span>
      </span>
    );
  }
  return (
    <span class="svcs">
      {rest.slice(0, 2).map((service) => {
        const state: State = serviceState(service);
        return (
          <span
            key={service.name}
            class={state === "failed" ? "is-failed" : ""}
            title={visible(`${service.name}: ${service.reason ?? service.state}`)}
          >
            <Glyph state={state} says={service.state} />
            <Text value={service.name} />
          </span>
        );
      })}
      {ready.length > 0 && (
        <span title={`${named}: ready`}>
          <Glyph state="ready" />
          {ready.length}
          {rest.length ? "" : " ready"}
        </span>
      )}
    </span>
  );
}

function Ports({ one }: { one: Workspace }) {
  const held = canonical.value.filter((port) => port.workspace === one.id);
  if (held.length)
    return (
      <>
        {held.slice(0, 2).map((port) => (
          <span key={port.port} class="canon" title={`Holds localhost:${port.port}`}>
            <Icon name="anchor" />
            {port.port}
          </span>
        ))}
      </>
    );
  const page = preview(one);
  const port = one.ports.find((candidate) => candidate.url === page && page);
  if (!port?.host_port || one.state !== "running") return null;
  return (
    <a class="link mono" href={page!} target="_blank" rel="noopener noreferrer">
      {port.host_port}
    </a>
  );
}
