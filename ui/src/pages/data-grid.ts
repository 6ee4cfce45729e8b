// Which slabs stand under which workspaces. Pure; neighbours that share a slab are put next to each other.
import type { Disk, Workspace } from "../api/types";
import { plural, short } from "../lib/format";

export interface Slab {
  key: string;
  kind: "base" | "layer" | "volume" | "none";
  name: string;
  note: string;
  bytes: number | null;
  span: number;
  mono: boolean;
}
export interface GridRow {
  one: Workspace;
  keys: string[];
  slabs: (Slab | null)[];
}
export interface GridProject {
  name: string;
  rows: GridRow[];
}

const volumeName = (key: string): string => /^volume-(.+)-[0-9a-f]{16,}$/.exec(key)?.[1] ?? key;

/** A slab is null where the row above already has it. */
export function grid(
  workspaces: Workspace[],
  disk: Pick<Disk, "bases" | "layers" | "workspaces">,
  order: "shared" | "largest",
  projects: string[],
): GridProject[] {
  const size = (one: Workspace) => disk.workspaces.find((other) => other.id === one.id)?.bytes ?? 0;
  const names = [...new Set([...projects, ...workspaces.map((one) => one.project)])];
  return names.flatMap((name) => {
    const of = workspaces.filter((one) => one.project === name).map((one) => ({ one, columns: columnsOf(one, disk) }));
    const joined = (row: { columns: string[] }) => row.columns.join("\n");
    of.sort((a, b) =>
      order === "largest" ? size(b.one) - size(a.one) : joined(a).localeCompare(joined(b)) || size(b.one) - size(a.one),
    );
    const rows = of.map(({ one, columns }, i): GridRow => ({
      one,
      keys: columns.filter(Boolean),
      slabs: columns.map((key, column) => {
        const same = (j: number) => of[j]?.columns[column] === key && (column === 0 || of[j]!.columns[0] === columns[0]);
        if (i > 0 && same(i - 1)) return null;
        let span = 1;
        while (same(i + span)) span += 1;
        return slabOf(key, column, span, disk, one);
      }),
    }));
    return rows.length ? [{ name, rows }] : [];
  });
}

/** Base, layers and volume seeds by their keys; an empty key: none. */
function columnsOf(one: Workspace, disk: Pick<Disk, "layers">): string[] {
  // A snapshot names the layers of its workspace again.
  const layers = [...new Set(one.layers ?? [])];
  return [
    one.commit ?? "",
    layers.filter((key) => !key.startsWith("volume-")).join(" "),
    seedsOf(
      layers.filter((key) => key.startsWith("volume-")),
      disk,
    ).join(" "),
  ];
}

/** Seeds that it shares; a snapshot's own volume is shown with the workspace's bytes unless it has nothing else. */
function seedsOf(volumes: string[], disk: Pick<Disk, "layers">): string[] {
  const shared = volumes.filter((key) => (disk.layers.find((other) => other.key === key)?.used_by ?? 0) > 1);
  return shared.length ? shared : volumes;
}

function slabOf(key: string, column: number, span: number, disk: Pick<Disk, "bases" | "layers">, one: Workspace): Slab {
  const name = ["no base", "no layer", "no volume"][column]!;
  const none: Slab = { key, kind: "none", name, note: "", bytes: null, span, mono: false };
  if (!key) return none;
  if (column === 0) {
    const base = disk.bases.find((other) => other.commit === key);
    return {
      key,
      kind: "base",
      name: short(key),
      note: one.ref ?? "",
      bytes: base?.bytes ?? null,
      span,
      mono: true,
    };
  }
  const layers = key.split(" ");
  const bytes = layers.reduce<number | null>((sum, layer) => {
    const found = disk.layers.find((other) => other.key === layer)?.bytes;
    return found === undefined ? sum : (sum ?? 0) + found;
  }, null);
  if (column === 1)
    return {
      key,
      kind: "layer",
      name: layers.map((layer) => layer.replace(/-[0-9a-f]{16,}$/, "")).join(", "),
      note: "",
      bytes,
      span,
      mono: false,
    };
  return {
    key,
    kind: "volume",
    name: `${layers.map(volumeName).join(", ")} seed`,
    note: span > 1 ? `forked ${plural(span, "time")}` : "",
    bytes,
    span,
    mono: false,
  };
}
