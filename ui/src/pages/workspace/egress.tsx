// The egress record of a workspace: one row per address, and the line that would allow a refused one.
import { useState } from "preact/hooks";
import { api } from "../../api/client";
import type { EgressEntry } from "../../api/types";
import { bytes, clock, count } from "../../lib/format";
import { Button, Glyph, Text } from "../../parts/basic";
import { useEvents, useLoad, type Loaded } from "../../parts/hooks";
import { AllowLine } from "../../parts/lines-to-copy";
import { Sheet } from "../../parts/overlay";

export interface Host {
  name: string;
  refused: boolean;
  by: string;
  times: number;
  out: number;
  in: number;
  last: string;
  allow: string | null;
  reason: string | null;
}

/** One row per address, refused ones first. */
export function hostsOf(entries: EgressEntry[]): Host[] {
  const found = new Map<string, Host>();
  for (const entry of entries) {
    if (entry.kind === "resolve" && !entry.reason) continue;
    const name = `${entry.name ?? entry.address ?? "?"}${entry.port ? `:${entry.port}` : ""}`;
    const refused = Boolean(entry.reason);
    const key = `${name} ${refused}`;
    const before = found.get(key);
    found.set(key, {
      name,
      refused,
      by: entry.process?.name ?? before?.by ?? "",
      times: (before?.times ?? 0) + (entry.count ?? 1),
      out: (before?.out ?? 0) + (entry.bytes_out ?? 0),
      in: (before?.in ?? 0) + (entry.bytes_in ?? 0),
      last: before && before.last > entry.time ? before.last : entry.time,
      allow: entry.allow ?? before?.allow ?? null,
      reason: entry.reason ?? null,
    });
  }
  return [...found.values()].sort((a, b) => Number(b.refused) - Number(a.refused) || b.last.localeCompare(a.last));
}

/** The egress record of a workspace, read again when an item or a run of it changes. */
export function useHosts(id: string): Loaded<Host[]> {
  const hosts = useLoad(
    async (signal) =>
      hostsOf((await api.get("/api/v1/workspaces/{id}/egress", { path: { id }, query: { limit: 1000 }, signal })).egress),
    [id],
  );
  useEvents(
    id,
    (type) => type.startsWith("inbox.") || type.startsWith("run."),
    () => void hosts.reload(),
  );
  return hosts;
}

/** Stands for a record that was not read. */
export const Unread = ({ fault }: { fault: Error | null }) => <span class="faint">{fault ? "cannot be read" : "…"}</span>;

export function EgressTable({ hosts: { value: hosts, fault } }: { hosts: Loaded<Host[]> }) {
  const [asked, setAsked] = useState<Host | null>(null);
  if (!hosts)
    return (
      <p class="inbox__end">
        <Unread fault={fault} />
      </p>
    );
  if (hosts.length === 0) return <p class="inbox__end">Nothing left this workspace, and nothing was refused.</p>;
  return (
    <>
      <table class="t t--tight">
        <thead>
          <tr>
            <th>
              <span class="vh">State</span>
            </th>
            <th>Host</th>
            <th>By</th>
            <th class="num">Times</th>
            <th class="num">Out</th>
            <th class="num">In</th>
            <th class="num">Last</th>
            <th>
              <span class="vh">Actions</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {hosts.map((host) => (
            <tr key={host.name + host.refused}>
              <td>
                <Glyph state={host.refused ? "needs" : "ready"} says={host.refused ? "refused" : "allowed"} />
              </td>
              <td class="mono">
                <Text value={host.name} />
              </td>
              <td>
                <Text value={host.by} />
              </td>
              <td class="num">{count(host.times)}</td>
              <td class="num">{host.refused ? "–" : bytes(host.out)}</td>
              <td class="num">{host.refused ? "–" : bytes(host.in)}</td>
              <td class="num">{clock(host.last)}</td>
              <td class="num">
                {host.refused && host.allow && (
                  <Button small onClick={() => setAsked(host)}>
                    Allow this…
                  </Button>
                )}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {asked && <AllowSheet host={asked} onClose={() => setAsked(null)} />}
    </>
  );
}

export const AllowSheet = ({ host, onClose }: { host: Host; onClose: () => void }) => (
  <Sheet
    title={
      <>
        Allow{" "}
        <span class="mono">
          <Text value={host.name} />
        </span>
      </>
    }
    onClose={onClose}
  >
    <p class="dim">
      <Text value={host.reason ?? ""} />
    </p>
    {host.allow && <AllowLine line={host.allow} />}
    <p class="f__hint">The page writes nothing: what a workspace may reach is decided outside of it.</p>
  </Sheet>
);
