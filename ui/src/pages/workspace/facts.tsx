// The facts of a workspace, always in sight: services, changes, data, egress, limits.
import { visible } from "../../lib/odd";
import { useEffect, useState } from "preact/hooks";
import { api, follow } from "../../api/client";
import type { Service, Workspace } from "../../api/types";
import { bytes, clock, plural, short } from "../../lib/format";
import { Ago, Button, Glyph, Icon, IconButton, Pm, Text } from "../../parts/basic";
import { useEvents, useLoad, type Loaded } from "../../parts/hooks";
import { asked, restart, service as actOn } from "../../state/actions";
import { preview, serviceState } from "../../state/attention";
import { generation } from "../../state/events";
import { paths } from "../../state/route";
import { canonical, inbox, lastTurns } from "../../state/store";
import { AllowSheet, Unread, type Host } from "./egress";
import { Limits, Isolation } from "./limits";

export const Facts = ({ one, hosts, onEgress }: { one: Workspace; hosts: Loaded<Host[]>; onEgress: () => void }) => (
  <aside class="ws__facts scroll" tabIndex={0} aria-label="Facts">
    <Services one={one} />
    <Changes one={one} />
    <Data one={one} />
    <Egress hosts={hosts} onMore={onEgress} />
    <Limits one={one} />
    <Isolation one={one} />
  </aside>
);

/** States of services as they change; a stream, because they are no events. */
function useServices(one: Workspace): Service[] {
  const [now, setNow] = useState<Service[] | null>(null);
  useEffect(() => {
    const stop = new AbortController();
    setNow(null);
    if (one.state !== "running") return;
    void (async () => {
      try {
        const path = `/api/v1/workspaces/${one.id}/services`;
        for await (const list of follow<{ services: Service[] }>(path, { watch: true }, stop.signal)) setNow(list.services);
      } catch {
        /* The store's own document stays. */
      }
    })();
    return () => stop.abort();
  }, [one.id, one.state, generation.value]);
  return now ?? one.services;
}

function Services({ one }: { one: Workspace }) {
  const services = useServices(one);
  const page = preview(one);
  const loose = one.ports.filter((port) => !services.some((service) => service.port === port.port));
  return (
    <section class="panel">
      <div class="panel__head">
        <h2>Services</h2>
        {services.length > 0 && one.state === "running" && (
          <Button small kind="quiet" icon="restart" onClick={() => void restart(one)}>
            Restart all
          </Button>
        )}
      </div>
      {services.length === 0 && <p class="panel__note">None declared.</p>}
      <ul>
        {services.map((service) => (
          <ServiceRow key={service.name} one={one} service={service} />
        ))}
        {loose.map((port) => (
          <li key={port.name} class="svc__row">
            <Glyph state={port.source === "discovered" ? "degraded" : "stopped"} says={port.source} />
            <span class="mono">{port.port}</span>
            <span class="mono dim">{port.host_port ? `:${port.host_port}` : ""}</span>
            <span class="faint">{port.source}</span>
          </li>
        ))}
      </ul>
      {page && one.state === "running" && (
        <p class="panel__note">
          <a class="link mono" href={page} target="_blank" rel="noopener noreferrer">
            <Text value={page.replace(/^https?:\/\//, "")} />
          </a>
        </p>
      )}
    </section>
  );
}

function ServiceRow({ one, service }: { one: Workspace; service: Service }) {
  const port = one.ports.find((candidate) => candidate.port === service.port);
  const held = canonical.value.find((candidate) => candidate.workspace === one.id && candidate.port === service.port);
  const running = service.state !== "stopped";
  const name = service.name;
  return (
    <li class="svc__row" title={service.reason ? visible(service.reason) : undefined}>
      <Glyph state={serviceState(service)} says={service.state} />
      <b>
        <Text value={name} />
      </b>
      {port?.host_port ? (
        port.url?.startsWith("http") ? (
          <a class="link mono" href={port.url} target="_blank" rel="noopener noreferrer">
            :{port.host_port}
          </a>
        ) : (
          <span class="mono dim">:{port.host_port}</span>
        )
      ) : (
        <span />
      )}
      {held ? (
        <span class="canon" title={`Holds localhost:${held.port}`}>
          <Icon name="anchor" />
          {held.port}
        </span>
      ) : (
        <span class="faint">{service.port ?? ""}</span>
      )}
      <span class="svc__acts">
        {running ? (
          <>
            <IconButton small icon="restart" says={`Restart ${name}`} onClick={() => void actOn(one, name, "restart")} />
            <IconButton small icon="stop" says={`Stop ${name}`} onClick={() => void actOn(one, name, "stop")} />
          </>
        ) : (
          <IconButton small icon="play" says={`Start ${name}`} onClick={() => void actOn(one, name, "start")} />
        )}
      </span>
      <span class="svc__note">
        {serviceState(service) === "ready" ? (service.restarts > 0 ? plural(service.restarts, "restart") : "") : service.state}
      </span>
    </li>
  );
}

function Changes({ one }: { one: Workspace }) {
  const turn = lastTurns.value.get(one.id);
  const review = useLoad(
    async (signal) => (turn ? api.get("/api/v1/workspaces/{id}/review", { path: { id: one.id }, signal }) : null),
    [one.id, turn?.n],
  );
  const unseen = review.value?.files.filter((file) => !file.viewed).length ?? 0;
  return (
    <section class="panel">
      <div class="panel__head">
        <h2>Changes</h2>
        <span class="panel__note">
          from <Text value={one.ref ?? "an empty tree"} /> <span class="mono">{short(one.commit)}</span>
        </span>
      </div>
      <div class="rows">
        {turn ? (
          <div>
            <span class="grow">
              Since the start, turn @{turn.n}{" "}
              <span class="faint">
                <Ago time={turn.at} />
              </span>
            </span>
            <Pm added={turn.added} removed={turn.removed} />
            <span class="dim">{plural(turn.files, "file")}</span>
          </div>
        ) : (
          <div>
            <span class="grow faint">No turn yet</span>
            {one.dirty && <span class="dim">changed</span>}
          </div>
        )}
        {unseen > 0 && (
          <div>
            <span class="grow">
              <span class="is-needs">{unseen} not viewed since you looked</span>
            </span>
            <a class="link" href={paths.review(one.id)}>
              Review
            </a>
          </div>
        )}
        {inbox.value
          ?.filter((item) => item.workspace === one.id && item.reason === "conflict")
          .map((item) => (
            <div key={item.id}>
              <span class="grow cut">
                <Text value={item.text} />
              </span>
              <a class="is-failed" href={`/inbox/${encodeURIComponent(item.id)}`}>
                conflict
              </a>
            </div>
          ))}
        {one.branch && one.branch !== `holm/${one.label}` && (
          <div>
            <Icon name="branch" />
            <span class="mono cut">
              <Text value={one.branch} />
            </span>
          </div>
        )}
      </div>
    </section>
  );
}

function Data({ one }: { one: Workspace }) {
  const { value, reload } = useLoad(
    async (signal) => (await api.get("/api/v1/workspaces/{id}/snapshots", { path: { id: one.id }, signal })).snapshots,
    [one.id, one.snapshots?.length, one.last_used_at],
  );
  useEvents(
    one.id,
    (type) => type.startsWith("snapshot") || type.startsWith("workspace."),
    () => void reload(),
  );
  const snapshots = (value ?? one.snapshots ?? []).toSorted((a, b) => b.created_at.localeCompare(a.created_at));
  return (
    <section class="panel">
      <div class="panel__head">
        <h2>Data</h2>
        <Button
          small
          kind="quiet"
          icon="snapshot"
          cap="p"
          onClick={() => {
            asked.value = { kind: "snapshot", workspace: one };
          }}
        >
          Snapshot
        </Button>
      </div>
      <div class="rows">
        {one.volumes.map((volume) => (
          <div key={volume.name}>
            <Icon name="database" />
            <span class="mono">
              <Text value={volume.name} />
            </span>
            <span class="faint grow cut">{volume.policy}</span>
            <span class="dim">{volume.bytes != null ? `${bytes(volume.bytes)} own` : ""}</span>
            <IconButton
              small
              icon="undo"
              says={`Reset volume ${volume.name}…`}
              onClick={() => {
                asked.value = { kind: "reset", workspace: one, volume: volume.name };
              }}
            />
          </div>
        ))}
      </div>
      <ol class="snaps">
        <li>
          <b>now</b>
        </li>
        {snapshots.map((snapshot) => (
          <li key={snapshot.name}>
            <span class="cut">
              <Text value={snapshot.name} />
            </span>
            <span class="faint">{clock(snapshot.created_at)}</span>
            <span class="snaps__acts">
              <Button
                small
                kind="quiet"
                icon="undo"
                title={`Reset to ${snapshot.name}…`}
                onClick={() => {
                  asked.value = { kind: "reset", workspace: one, at: snapshot.name };
                }}
              >
                <span class="hide-1280">Reset</span>
                <span class="vh">Reset to {snapshot.name}</span>
              </Button>
              <Button
                small
                kind="quiet"
                icon="fork"
                title={`Fork ${snapshot.name}…`}
                onClick={() => {
                  asked.value = { kind: "fork", workspace: one, at: snapshot.name };
                }}
              >
                <span class="hide-1280">Fork</span>
                <span class="vh">Fork {snapshot.name}</span>
              </Button>
            </span>
          </li>
        ))}
        <li>
          <span>created</span>
          <span class="faint">{clock(one.created_at)}</span>
        </li>
      </ol>
    </section>
  );
}

function Egress({ hosts: { value, fault }, onMore }: { hosts: Loaded<Host[]>; onMore: () => void }) {
  const [allow, setAllow] = useState<Host | null>(null);
  const hosts = value ?? [];
  return (
    <section class="panel">
      <div class="panel__head">
        <h2>Egress</h2>
        {hosts.length > 4 && (
          <button type="button" class="linkish panel__note" onClick={onMore}>
            all {hosts.length}
          </button>
        )}
      </div>
      <div class="rows">
        {!value && (
          <div>
            <Unread fault={fault} />
          </div>
        )}
        {value?.length === 0 && <div class="faint">nothing left the workspace</div>}
        {hosts.slice(0, 4).map((host) => (
          <div key={host.name + host.refused}>
            <Glyph state={host.refused ? "needs" : "ready"} says={host.refused ? "refused" : "reached"} />
            <span class="mono cut grow">
              <Text value={host.name} />
            </span>
            {host.refused && host.allow ? (
              <Button small onClick={() => setAllow(host)}>
                Allow this…
              </Button>
            ) : (
              <span class="dim">{host.times}</span>
            )}
          </div>
        ))}
      </div>
      {allow && <AllowSheet host={allow} onClose={() => setAllow(null)} />}
    </section>
  );
}
