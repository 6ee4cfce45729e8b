// Limits of a workspace with its use of them, and the isolation that the kernel enforces for it.
import { Fragment } from "preact";
import { useState } from "preact/hooks";
import { api } from "../../api/client";
import type { Workspace } from "../../api/types";
import { bytes, bytesOf, sizeText } from "../../lib/format";
import { Button, Meter, Spark, Text } from "../../parts/basic";
import { useLoad } from "../../parts/hooks";
import { CopyLine } from "../../parts/lines-to-copy";
import { Sheet } from "../../parts/overlay";
import { numbers } from "../../state/store";

export function Limits({ one }: { one: Workspace }) {
  const [raising, setRaising] = useState(false);
  const now = numbers.value.get(one.id);
  const { cpus, memory, disk, processes } = one.limits;
  const secrets = useLoad(
    async (signal) => (await api.get("/api/v1/workspaces/{id}/secrets", { path: { id: one.id }, signal })).secrets,
    [one.id, one.state],
  );
  return (
    <section class="panel">
      <div class="panel__head">
        <h2>Limits</h2>
        <Button small kind="quiet" onClick={() => setRaising(true)}>
          Change…
        </Button>
        {(one.isolation.limits_reached?.length ?? 0) > 0 && (
          <span class="panel__note is-needs">
            reached: <Text value={one.isolation.limits_reached!.join(", ")} />
          </span>
        )}
      </div>
      <dl class="limits">
        <div>
          <dt>CPU</dt>
          <dd>
            <Spark values={now?.history.cpu ?? []} top={cpus ?? 2} width={72} />
          </dd>
          <dd>
            {(now?.cpu ?? 0).toFixed(1)}
            {cpus ? ` of ${cpus}` : ""}
          </dd>
        </div>
        <div>
          <dt>Memory</dt>
          <dd>
            <Spark values={now?.history.memory ?? []} top={memory ?? Math.max(1, ...(now?.history.memory ?? []))} width={72} />
          </dd>
          <dd>{now ? (memory ? bytesOf(now.memory, memory) : bytes(now.memory)) : "–"}</dd>
        </div>
        <div>
          <dt>Disk</dt>
          <dd>{now?.disk != null && disk ? <Meter part={now.disk} whole={disk} width={72} /> : null}</dd>
          <dd>{now?.disk != null ? (disk ? bytesOf(now.disk, disk) : bytes(now.disk)) : "–"}</dd>
        </div>
        <div>
          <dt>Processes</dt>
          <dd />
          <dd>
            {now?.processes ?? "–"}
            {processes ? ` of ${processes}` : ""}
          </dd>
        </div>
        {(secrets.value ?? []).map((secret) => (
          <div key={secret.name}>
            <dt>Secret</dt>
            <dd />
            <dd class="cut" title={secret.state}>
              <span class="mono">
                <Text value={secret.name} />
              </span>{" "}
              {secret.to.length ? `to ${secret.to.join(", ")}` : ""} <span class="faint">{secret.state}</span>
            </dd>
          </div>
        ))}
        <div>
          <dt>Id</dt>
          <dd />
          <dd class="mono">{one.id}</dd>
        </div>
      </dl>
      {raising && <LimitsSheet one={one} onClose={() => setRaising(false)} />}
    </section>
  );
}

/** Limits are part of holm.toml; the page shows the lines and writes nothing. */
function LimitsSheet({ one, onClose }: { one: Workspace; onClose: () => void }) {
  const now = numbers.value.get(one.id);
  const { cpus, memory, disk, processes } = one.limits;
  const rows: [string, string, string | null][] = [
    ["Memory", now ? (memory ? bytesOf(now.memory, memory) : bytes(now.memory)) : "", memory ? `memory = "${sizeText(memory * 2)}"` : null],
    ["CPUs", `${(now?.cpu ?? 0).toFixed(1)}${cpus ? ` of ${cpus}` : ""}`, cpus ? `cpus = ${(cpus * 2).toFixed(1)}` : null],
    ["Processes", `${now?.processes ?? "–"}${processes ? ` of ${processes}` : ""}`, processes ? `processes = ${processes * 2}` : null],
    ["Disk", now?.disk != null ? (disk ? bytesOf(now.disk, disk) : bytes(now.disk)) : "", disk ? `disk = "${sizeText(disk * 2)}"` : null],
  ];
  return (
    <Sheet
      title={
        <>
          Limits of{" "}
          <span class="mono">
            <Text value={one.label} />
          </span>
        </>
      }
      onClose={onClose}
    >
      <p class="dim">
        To change a limit, add its line to <code>holm.toml</code> under <code>[limits]</code> and type <code>holm reload</code>. A limit
        above your own settings needs your trust. The page writes nothing.
      </p>
      {rows.map(([name, used, line]) => (
        <Fragment key={name}>
          <h2 class="h">
            {name} <span class="faint">{used}</span>
          </h2>
          {line ? <CopyLine line={line} /> : <p class="faint">no limit</p>}
        </Fragment>
      ))}
    </Sheet>
  );
}

const PARTS = ["user", "mount", "pid", "net", "ipc", "seccomp", "no_new_privs", "landlock"] as const;

/** What the kernel enforces for this workspace, part by part. */
export function Isolation({ one }: { one: Workspace }) {
  const { isolation } = one;
  const parts: [string, boolean][] = [
    ...PARTS.map((part): [string, boolean] => [part.replaceAll("_", " "), isolation[part]]),
    ["control groups", Boolean(isolation.cgroup)],
  ];
  const inForce = parts.filter(([, on]) => on).length;
  if (one.state !== "running")
    return (
      <section class="panel">
        <div class="panel__head">
          <h2>Isolation</h2>
          <span class="panel__note">in force while it runs</span>
        </div>
      </section>
    );
  const whole = inForce === parts.length;
  return (
    <section class="panel">
      <div class="panel__head">
        <h2>Isolation</h2>
        <span class={`panel__note ${whole ? "is-ready" : "is-degraded"}`}>
          {whole ? "full" : isolation.degraded.length ? "weaker" : "without limits"}, {inForce} of {parts.length} parts
        </span>
      </div>
      <p class="panel__note">
        {parts.map(([name, on], i) => (
          <span key={name} class={on ? "" : "is-degraded"}>
            {i > 0 && ", "}
            {name}
            {on ? "" : " (missing)"}
          </span>
        ))}
      </p>
      {(one.protected_paths?.length ?? 0) > 0 && (
        <p class="panel__note">
          Read-only inside:{" "}
          <span class="mono">
            <Text value={one.protected_paths!.join(", ")} />
          </span>
        </p>
      )}
    </section>
  );
}
