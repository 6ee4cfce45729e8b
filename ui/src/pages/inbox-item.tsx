// One item: its reason, what there is to see, the field or button that answers it, and what stands around it.
import { useEffect, useState } from "preact/hooks";
import type { InboxItem, Session, Workspace } from "../api/types";
import { clock, plural } from "../lib/format";
import { Ago, Button, Cap, Glyph, Icon, Pm, Text } from "../parts/basic";
import { Menu } from "../parts/overlay";
import { asked, remove, startOrStop } from "../state/actions";
import { lookOf, preview, serviceState } from "../state/attention";
import { go, paths } from "../state/route";
import { byId, firstMessage, lastTurns, loadTurn, runsOf, sessionsOf } from "../state/store";
import { others } from "./inbox-next";
import { Unread, useHosts, type Host } from "./workspace/egress";
import { Answers, Limit, Question, questionOf, Refused, RunTail, Summary, useScreen } from "./inbox-reasons";

export function Item({ item, onSnooze, onMute }: { item: InboxItem; onSnooze: () => void; onMute: () => void }) {
  const look = lookOf(item.reason);
  const workspace = byId.value.get(item.workspace);
  const session = sessionOf(item);
  const agent = session?.agent ?? runsOf.value.get(item.workspace)?.[0]?.agent;
  return (
    <>
      <header class="ask">
        <p class="ask__meta">
          <span class={`tag tag--${look.tone}`}>
            <Icon name={look.icon} />
            {look.title}
          </span>
          <span>
            {agent ? (
              <>
                <Text value={agent} /> in{" "}
              </>
            ) : null}
            <a class="link mono" href={paths.workspace(item.workspace)}>
              <Text value={`${item.project}/${item.label}`} />
            </a>
          </span>
          <span class="faint hide-1280">
            {clock(item.since)}, <Ago time={item.since} />
          </span>
        </p>
        <h2 class="ask__title">
          {item.reason === "question" && session ? <QuestionText item={item} session={session} /> : <Text value={item.text} />}
        </h2>
        {item.reason === "question" && item.origin === "workspace" && <p class="faint ask__origin">Written by a program in the workspace</p>}
        <div class="ask__acts">
          <Button small cap="z" onClick={onSnooze}>
            Snooze
          </Button>
          <a class="btn btn--small" href={paths.workspace(item.workspace)}>
            Open workspace
            <Cap keys="o" />
          </a>
          {workspace && (
            <Menu
              says="More"
              choices={[
                { label: `Mute ${item.reason}…`, icon: "bell", note: "m", run: onMute },
                {
                  label: workspace.state === "running" ? "Stop" : "Start",
                  icon: "stop",
                  run: () => void startOrStop(workspace),
                },
                {
                  label: "Snapshot…",
                  icon: "snapshot",
                  run: () => {
                    asked.value = { kind: "snapshot", workspace };
                  },
                },
                { label: "Remove", icon: "trash", danger: true, run: () => void remove(workspace) },
              ]}
            />
          )}
        </div>
      </header>
      {workspace && <Middle item={item} workspace={workspace} session={session} />}
      {workspace && <Around workspace={workspace} />}
    </>
  );
}

/** What the session asks, as its screen has it; without a question mark there, what holm recorded. */
export const QuestionText = ({ item, session }: { item: InboxItem; session: Session }) => (
  <Text value={questionOf(useScreen(session)?.text ?? "") ?? item.text} />
);

export function sessionOf(item: InboxItem): Session | undefined {
  const live = (sessionsOf.value.get(item.workspace) ?? []).filter((one) => one.state === "running");
  return live.find((one) => one.attention) ?? live.find((one) => one.agent) ?? live[0];
}

function Middle({ item, workspace, session }: { item: InboxItem; workspace: Workspace; session: Session | undefined }) {
  switch (item.reason) {
    case "question":
    case "stalled":
      return session ? <Question session={session} /> : <RunTail workspace={workspace} />;
    case "refused":
      return <Refused workspace={workspace} />;
    case "limit":
      return <Limit workspace={workspace} />;
    case "failed":
      return (
        <>
          <RunTail workspace={workspace} />
          <GoReview item={item} />
        </>
      );
    case "conflict":
      return (
        <>
          <p class="dim">
            This workspace and each of these changed the same lines. After you merge one of them, the other conflicts:{" "}
            {others(item).map((id, i) => (
              <span key={id}>
                {i > 0 && ", "}
                <a class="link mono" href={paths.workspace(id)}>
                  <Text value={byId.value.get(id)?.label ?? id} />
                </a>
              </span>
            ))}
            .
          </p>
          <p class="reply">
            <Button kind="primary" cap="⏎" onClick={() => go(paths.compare([item.workspace, ...others(item)].slice(0, 4)))}>
              Compare
            </Button>
          </p>
        </>
      );
    case "comment":
      return (
        <>
          <Answers workspace={workspace} />
          <GoReview item={item} />
        </>
      );
    default:
      return (
        <>
          <Summary workspace={workspace} />
          <GoReview item={item} />
        </>
      );
  }
}

const GoReview = ({ item }: { item: InboxItem }) => (
  <p class="reply">
    <a class="btn btn--primary" href={paths.review(item.workspace)}>
      Review
      <Cap keys="⏎" />
    </a>
  </p>
);

function Around({ workspace }: { workspace: Workspace }) {
  const [asOf] = useState(workspace.id);
  useEffect(() => {
    void loadTurn(workspace.id).catch(() => undefined);
  }, [asOf, lastTurns.value.has(workspace.id)]);
  const message = firstMessage(workspace.id);
  const turn = lastTurns.value.get(workspace.id);
  const page = preview(workspace);
  const hosts = useHosts(workspace.id);
  return (
    <dl class="around">
      {message && (
        <div>
          <dt>Asked to</dt>
          <dd>
            “<Text value={message.length > 400 ? `${message.slice(0, 400)}…` : message} />”
          </dd>
        </div>
      )}
      <div>
        <dt>Changed so far</dt>
        <dd>
          {turn ? (
            <>
              {plural(turn.files, "file")} <Pm added={turn.added} removed={turn.removed} />{" "}
              <span class="faint">at @{turn.n}</span>{" "}
            </>
          ) : (
            <span class="faint">no turn yet </span>
          )}
          <a class="link" href={paths.review(workspace.id)}>
            Review <kbd>r</kbd>
          </a>
        </dd>
      </div>
      {workspace.services.length > 0 && (
        <div>
          <dt>Services</dt>
          <dd class="svcs">
            {workspace.services.map((one) => (
              <span key={one.name}>
                <Glyph state={serviceState(one)} says={one.state} />
                <Text value={one.name} />
              </span>
            ))}
          </dd>
        </div>
      )}
      {page && (
        <div>
          <dt>Preview</dt>
          <dd>
            <a class="link mono" href={page} target="_blank" rel="noopener noreferrer">
              <Text value={page.replace(/^https?:\/\//, "")} />
            </a>
          </dd>
        </div>
      )}
      <div>
        <dt>Went out to</dt>
        <dd>
          {hosts.value ? <Reached hosts={hosts.value} /> : <Unread fault={hosts.fault} />}
        </dd>
      </div>
    </dl>
  );
}

function Reached({ hosts }: { hosts: Host[] }) {
  const reached = [...new Set(hosts.filter((host) => !host.refused).map((host) => host.name.replace(/:443$|:80$/, "")))];
  const refused = hosts.filter((host) => host.refused).length;
  return (
    <>
      {reached.length ? (
        reached.slice(0, 8).map((host, i) => (
          <span key={host}>
            {i > 0 && ", "}
            <span class="mono">
              <Text value={host} />
            </span>
          </span>
        ))
      ) : (
        <span class="faint">nothing</span>
      )}
      <span class={refused ? "is-needs" : "faint"}>; {refused ? `${plural(refused, "address", "addresses")} refused` : "nothing refused"}</span>
    </>
  );
}
