// What shares what: a workspace stands on everything to its left; a slab is as tall as the number of workspaces on it.
import { useEffect, useState } from "preact/hooks";
import { api, lines } from "../api/client";
import type { Disk, Workspace } from "../api/types";
import { bytes, clock, plural, short } from "../lib/format";
import { Button, Glyph, Icon, Note, Seg, Text, Words } from "../parts/basic";
import { useAction, useEvents, useLoad, useSlow } from "../parts/hooks";
import { asked } from "../state/actions";
import { isHot, standing } from "../state/attention";
import { command, hints, useKeys } from "../state/keys";
import { minute } from "../state/look";
import { go, paths } from "../state/route";
import { inboxOf, nameOf, numbers, projects, runsOf, sessionsOf, workspaces } from "../state/store";
import { toast } from "../state/toast";
import { grid, type GridProject, type Slab } from "./data-grid";
import { Left, Restore, Unsaved, useTrash } from "./settings/trash";

export function DataPage() {
  const { value: disk, fault, reload } = useLoad((signal) => api.get("/api/v1/disk", { signal }), []);
  const [order, setOrder] = useState<"shared" | "largest">("shared");
  const [lit, setLit] = useState<string | null>(null);
  const [chosen, setChosen] = useState<string | null>(null);
  const slow = useSlow();
  const [busy, run] = useAction();
  useEvents(
    null,
    (type) => /^workspace\.(created|removed|restored)/.test(type),
    () => void reload(),
  );
  const shares = disk ? grid(workspaces.value, disk, order, projects.value.map((one) => one.name)) : [];
  const rows = shares.flatMap((project) => project.rows.map((row) => row.one));
  const at = rows.findIndex((one) => one.id === chosen);
  const selected = rows[at];
  const move = (by: number) => {
    const next = rows[Math.max(0, Math.min(rows.length - 1, at + by))];
    setChosen(next?.id ?? null);
    document.getElementById(`data-${next?.id}`)?.scrollIntoView({ block: "nearest" });
  };
  const ask = (kind: "fork" | "snapshot", workspace: Workspace) => {
    asked.value = { kind, workspace };
  };
  useKeys({
    "data.next": () => move(1),
    "data.previous": () => move(-1),
    ...(selected
      ? {
          "data.open": () => go(paths.workspace(selected.id)),
          "data.snapshot": () => ask("snapshot", selected),
          "data.fork": () => ask("fork", selected),
        }
      : {}),
  });
  useEffect(() => {
    command.value = selected ? `holm show ${nameOf(selected)}` : "holm df";
    hints.value = [
      ["data.next data.previous", "move"],
      ["data.open", "open"],
      ["data.snapshot", "snapshot"],
      ["data.fork", "fork"],
    ];
    document.title = "Data · holm";
  }, [selected?.id]);
  const clean = () =>
    void run("Cannot clean up", async () => {
      let freed = 0;
      for await (const event of lines<{ done?: { freed_bytes: number }; error?: { message: string } }>("post", "/api/v1/gc", {
        body: { all: false },
      })) {
        if (event.error) throw new Error(event.error.message);
        freed = event.done?.freed_bytes ?? freed;
      }
      toast(`Freed ${bytes(freed)}`);
      await reload();
    });
  return (
    <>
      <header class="bar">
        <h1 class="bar__title">Data</h1>
        <span class="bar__note hide-phone">what shares what, and where disk and memory go</span>
        <div class="bar__end">
          <Seg
            says="Order"
            className="hide-phone"
            value={order}
            onPick={setOrder}
            options={[
              { value: "shared", label: "Shared by" },
              { value: "largest", label: "Largest" },
            ]}
          />
          <Button busy={busy} title="Deletes what nothing uses; the trash stays" onClick={clean}>
            Clean up
          </Button>
        </div>
      </header>
      <div class="scroll" tabIndex={0} aria-label="Data">
        {fault && (
          <div class="empty">
            <Note state="failed" title="Cannot measure the disk">
              <p>
                <Text value={fault.message} />
              </p>
            </Note>
          </div>
        )}
        {!disk && !fault && slow && (
          <div class="total">
            <span class="bone bone--long" />
          </div>
        )}
        {disk && (
          <>
            <Total disk={disk} />
            <Shares
              disk={disk}
              grid={shares}
              selected={selected?.id}
              lit={lit}
              onLight={(key) => setLit(key === lit ? null : key)}
            />
            <Rest disk={disk} />
          </>
        )}
      </div>
    </>
  );
}

function Total({ disk }: { disk: Disk }) {
  const sum = (list: { bytes: number }[]) => list.reduce((all, one) => all + one.bytes, 0);
  const seeds = disk.layers.filter((layer) => layer.key.startsWith("volume-"));
  const layers = disk.layers.filter((layer) => !layer.key.startsWith("volume-"));
  const kept = disk.workspaces.reduce((all, one) => all + sum(one.snapshots), 0);
  const code = disk.workspaces.reduce((all, one) => all + one.bytes - one.volumes, -kept);
  const own = disk.workspaces.reduce((all, one) => all + one.volumes, 0);
  const kinds: [string, string, number][] = [
    ["own-base", "Bases", sum(disk.bases)],
    ["own-layer", "Layers", sum(layers)],
    ["own-seed", "Volume seeds", sum(seeds)],
    ["own-code", "Own code", code],
    ["own-vol", "Own volumes", own + sum(disk.volumes)],
    ["own-snapshot", "Snapshots", kept],
    ["own-trash", "Trash", sum(disk.trash)],
    ["own-trash", "Repositories, programs, logs", sum(disk.repositories) + disk.programs + disk.other + disk.leftovers],
  ];
  const parts = kinds.filter(([, , n]) => n > 0);
  const whole = parts.reduce((all, [, , n]) => all + n, 0) || 1;
  const alone =
    disk.total +
    disk.bases.reduce((all, one) => all + one.bytes * Math.max(0, one.used_by - 1), 0) +
    disk.layers.reduce((all, one) => all + one.bytes * Math.max(0, one.used_by - 1), 0);
  let x = 0;
  return (
    <section class="total">
      <p class="total__say">
        <b>{bytes(disk.total)}</b> on disk for {plural(disk.workspaces.length, "workspace")}.{" "}
        <span class="dim">
          {bytes(alone)} if nothing were shared; {bytes(disk.free)} free.
        </span>
      </p>
      <svg class="total__bar" viewBox="0 0 1000 12" preserveAspectRatio="none" aria-hidden="true">
        {parts.map(([tone, name, n]) => {
          const width = (n / whole) * 1000;
          const from = x;
          x += width;
          return <rect key={name} class={tone} x={from} width={Math.max(0, width - 2)} height="12" />;
        })}
      </svg>
      <ul class="total__key">
        {parts.map(([tone, name, n]) => (
          <li key={name}>
            <svg width="8" height="8" aria-hidden="true">
              <rect class={tone} width="8" height="8" rx="1" />
            </svg>
            {name} <span class="faint">{bytes(n)}</span>
          </li>
        ))}
      </ul>
    </section>
  );
}

function Shares({
  disk,
  grid,
  selected,
  lit,
  onLight,
}: {
  disk: Disk;
  grid: GridProject[];
  selected: string | undefined;
  lit: string | null;
  onLight: (key: string) => void;
}) {
  const most = Math.max(1, ...disk.workspaces.map((one) => one.bytes));
  return (
    <div class="wide" tabIndex={0}>
      <table class="sh">
        <thead>
          <tr>
            <th>Project</th>
            <th>Base</th>
            <th>Layer</th>
            <th>Volume</th>
            <th>Workspace</th>
            <th colSpan={2}>
              Own bytes{" "}
              <span class="sh__legend">
                <svg width="8" height="8" aria-hidden="true">
                  <rect class="own-code" width="8" height="8" rx="1" />
                </svg>
                code
                <svg width="8" height="8" aria-hidden="true">
                  <rect class="own-vol" width="8" height="8" rx="1" />
                </svg>
                volumes
                {disk.workspaces.some((one) => one.snapshots.length) && (
                  <>
                    <svg width="8" height="8" aria-hidden="true">
                      <rect class="own-snapshot" width="8" height="8" rx="1" />
                    </svg>
                    snapshots
                  </>
                )}
              </span>
            </th>
            <th colSpan={2}>Memory, of its limit</th>
          </tr>
        </thead>
        {grid.map((project) => (
          <tbody key={project.name}>
            {project.rows.map((row, i) => (
              <tr key={row.one.id} class={row.one.id === selected ? "is-hover" : ""}>
                {i === 0 && (
                  <th class="sh__proj mono" rowSpan={project.rows.length} scope="rowgroup">
                    <Text value={project.name} />
                  </th>
                )}
                {row.slabs.map(
                  (slab, column) =>
                    slab && <SlabCell key={column} slab={slab} lit={lit === slab.key} onLight={() => onLight(slab.key)} />,
                )}
                <td id={`data-${row.one.id}`} class={`sh__ws ${lit && row.keys.includes(lit) ? "is-lit" : ""}`}>
                  <Glyph state={stateOf(row.one)} />
                  <a class="mono" href={paths.workspace(row.one.id)}>
                    <Text value={row.one.label} />
                  </a>
                </td>
                <Own bytesOf={disk.workspaces.find((one) => one.id === row.one.id)} most={most} />
                <Memory one={row.one} />
              </tr>
            ))}
          </tbody>
        ))}
      </table>
    </div>
  );
}

const stateOf = (one: Workspace) =>
  standing(one, inboxOf.value.get(one.id), runsOf.value.get(one.id) ?? [], sessionsOf.value.get(one.id) ?? [], minute.value)
    .state;

const SlabCell = ({ slab, lit, onLight }: { slab: Slab; lit: boolean; onLight: () => void }) => (
  <td
    class={`slab ${slab.kind === "volume" ? "slab--volume" : ""} ${slab.kind === "none" ? "slab--none" : ""} ${lit ? "is-selected" : ""}`}
    rowSpan={slab.span}
    onClick={slab.kind === "none" ? undefined : onLight}
  >
    {slab.kind === "none" ? (
      <div>
        <span class="faint">{slab.name}</span>
      </div>
    ) : (
      <div>
        <b class={slab.mono ? "mono" : ""}>
          {slab.kind === "volume" && <Icon name="database" />}
          <Text value={slab.name} />
        </b>
        {slab.note && (
          <span>
            <Text value={slab.note} />
          </span>
        )}
        <span class="slab__n">{slab.bytes === null ? "" : bytes(slab.bytes)}</span>
      </div>
    )}
  </td>
);

function Own({ bytesOf, most }: { bytesOf: Disk["workspaces"][number] | undefined; most: number }) {
  if (!bytesOf)
    return (
      <>
        <td class="num sh__num">
          <span class="faint">–</span>
        </td>
        <td class="sh__own" />
      </>
    );
  const width = (n: number) => (n > 0 ? Math.max(2, (n / most) * 178) : 0);
  const kept = bytesOf.snapshots.reduce((all, one) => all + one.bytes, 0);
  const code = width(bytesOf.bytes - bytesOf.volumes - kept);
  const volumes = width(bytesOf.volumes);
  return (
    <>
      <td class="num sh__num">{bytes(bytesOf.bytes)}</td>
      <td class="sh__own">
        <svg viewBox="0 0 180 8" width="180" height="8" preserveAspectRatio="none" aria-hidden="true">
          <rect class="own-code" width={code} height="8" />
          <rect class="own-vol" x={code + 1} width={volumes} height="8" />
          <rect class="own-snapshot" x={code + volumes + 2} width={width(kept)} height="8" />
        </svg>
      </td>
    </>
  );
}

function Memory({ one }: { one: Workspace }) {
  const now = one.state === "running" ? numbers.value.get(one.id) : undefined;
  if (!now)
    return (
      <>
        <td class="num sh__num">
          <span class="faint">–</span>
        </td>
        <td class="sh__mem" />
      </>
    );
  const hot = isHot(one, now);
  const limit = one.limits.memory ?? now.memory * 2;
  return (
    <>
      <td class={`num sh__num ${hot ? "is-needs" : ""}`}>{bytes(now.memory)}</td>
      <td class="sh__mem">
        <svg viewBox="0 0 144 8" width="144" height="8" preserveAspectRatio="none" aria-hidden="true">
          <rect class="own-well" width="144" height="8" />
          <rect class={hot ? "own-hot" : "own-mem"} width={Math.min(1, now.memory / limit) * 144} height="8" />
        </svg>
      </td>
    </>
  );
}

function Rest({ disk }: { disk: Disk }) {
  const unused = [
    ...disk.bases
      .filter((one) => !one.used_by)
      .map((one) => ({ name: `base ${short(one.commit)}`, project: one.project, bytes: one.bytes })),
    ...disk.layers.filter((one) => !one.used_by).map((one) => ({ name: one.key, project: one.project, bytes: one.bytes })),
  ];
  return (
    <>
      <div class="sh__note">
        <p>A workspace stands on everything to its left and pays only for its own bytes.</p>
        {disk.notes?.map((note) => (
          <p key={note}>
            <Words text={note} />
          </p>
        ))}
      </div>
      <div class="two">
        <Snapshots disk={disk} />
        <TrashPart />
        <section>
          <h2 class="h">
            Used by no workspace <span class="faint">{bytes(unused.reduce((sum, one) => sum + one.bytes, 0))}</span>
          </h2>
          {unused.length ? (
            <table class="t t--plain">
              <tbody>
                {unused.slice(0, 20).map((one) => (
                  <tr key={one.name}>
                    <td class="mono cut">
                      <Text value={one.name} />
                    </td>
                    <td class="dim">{one.project && <Text value={one.project} />}</td>
                    <td class="num dim">{bytes(one.bytes)}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          ) : (
            <p class="dim">nothing</p>
          )}
        </section>
      </div>
    </>
  );
}

const sizeOf = (n: number | undefined): string => (n === undefined ? "" : bytes(n));

function TrashPart() {
  const { value } = useTrash();
  const all = value ?? [];
  return (
    <section>
      <h2 class="h">
        Trash <span class="faint">{all.length > 0 && bytes(all.reduce((sum, one) => sum + (one.bytes ?? 0), 0))}</span>
      </h2>
      {all.length ? (
        <div class="wide" tabIndex={0}>
          <table class="t t--tight t--plain" aria-label="Trash">
            <tbody>
              {all.map((one) => (
                <tr key={one.id}>
                  <td class="mono">
                    <Text value={nameOf(one)} />
                  </td>
                  <td>
                    <Unsaved one={one} />
                  </td>
                  <td class="num dim">{bytes(one.bytes ?? 0)}</td>
                  <td class="num dim">
                    <Left one={one} />
                  </td>
                  <td class="num">
                    <Restore one={one} />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      ) : (
        <p class="dim">{value && "empty"}</p>
      )}
    </section>
  );
}

function Snapshots({ disk }: { disk: Disk }) {
  const sizes = new Map(
    disk.workspaces.flatMap((one) => one.snapshots.map((snapshot) => [`${one.id} ${snapshot.name}`, snapshot.bytes])),
  );
  const all = workspaces.value
    .flatMap((one) => (one.snapshots ?? []).map((snapshot) => ({ one, ...snapshot })))
    .sort((a, b) => b.created_at.localeCompare(a.created_at));
  const ask = (kind: "fork" | "reset", { one, name }: (typeof all)[number]) => (
    <Button
      small
      kind="quiet"
      onClick={() => {
        asked.value = { kind, workspace: one, at: name };
      }}
    >
      {kind === "fork" ? "Fork" : "Reset to"}
      <span class="vh">
        {" "}
        <Text value={name} />
      </span>
    </Button>
  );
  return (
    <section>
      <h2 class="h">
        Snapshots <span class="faint">code and volumes, never change</span>
      </h2>
      {all.length ? (
        <div class="wide" tabIndex={0}>
          <table class="t t--tight t--plain" aria-label="Snapshots">
            <tbody>
              {all.map((snapshot) => (
                <tr key={snapshot.one.id + snapshot.name}>
                  <td>
                    <Text value={snapshot.name} />
                  </td>
                  <td>
                    <a class="mono dim" href={paths.workspace(snapshot.one.id)}>
                      <Text value={`${snapshot.one.project}/${snapshot.one.label}`} />
                    </a>
                  </td>
                  <td class="num dim">{sizeOf(sizes.get(`${snapshot.one.id} ${snapshot.name}`))}</td>
                  <td class="num dim">{clock(snapshot.created_at)}</td>
                  <td class="num">
                    {ask("fork", snapshot)}
                    {ask("reset", snapshot)}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      ) : (
        <p class="dim">
          none; <kbd>p</kbd> on a workspace's page takes one
        </p>
      )}
    </section>
  );
}
