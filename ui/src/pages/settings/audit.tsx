// Who changed what, the newest first.
import { useState } from "preact/hooks";
import { api } from "../../api/client";
import type { AuditEntry } from "../../api/types";
import { clock, full, seconds } from "../../lib/format";
import { Button, Icon, Text } from "../../parts/basic";
import { Missing, PlainTable } from "../../parts/table";
import { useAction, useLoad } from "../../parts/hooks";
import { byId, nameOf } from "../../state/store";

export function Audit() {
  const [bad, setBad] = useState(false);
  const [more, setMore] = useState<AuditEntry[]>([]);
  const [next, setNext] = useState<number | null>(null);
  const [filter, setFilter] = useState("");
  const [busy, run] = useAction();
  const { value, fault } = useLoad(
    async (signal) => {
      const answer = await api.get("/api/v1/audit", { query: { limit: 100, bad }, signal });
      setMore([]);
      setNext(answer.next ?? null);
      return answer.audit;
    },
    [bad],
  );
  const older = () =>
    void run("Cannot read older entries", async () => {
      const answer = await api.get("/api/v1/audit", { query: { limit: 200, bad, before: next! } });
      setMore([...more, ...answer.audit]);
      setNext(answer.next ?? null);
    });
  const low = filter.toLowerCase();
  const rows = [...(value ?? []), ...more].filter(
    (one) => !low || `${one.actor} ${one.method} ${one.route} ${one.subject ?? ""} ${one.code ?? ""}`.toLowerCase().includes(low),
  );
  return (
    <>
      <h2 class="h">Audit</h2>
      <p class="dim">Every request that may change something: caller, route, workspace, answer. The newest 20 000 are kept.</p>
      <div class="set__form">
        <label class="field">
          <Icon name="filter" />
          <span class="vh">Filter</span>
          <input
            data-filter
            placeholder="approve, token, …"
            value={filter}
            onInput={(event) => setFilter(event.currentTarget.value)}
          />
        </label>
        <label class="check check--bar">
          <input type="checkbox" checked={bad} onChange={(event) => setBad(event.currentTarget.checked)} />
          <span>Only refused and failed</span>
        </label>
      </div>
      <Missing what="Cannot read the audit" fault={fault} />
      <PlainTable tight heads={["Time", "Who", "What", "Workspace", "Answer"]}>
        {rows.map((one) => (
          <tr key={one.cursor}>
            <td class="dim" title={full(one.time)}>
              {clock(one.time).length > 5 ? clock(one.time) : seconds(one.time)}
            </td>
            <td>
              <Text value={one.actor} />
            </td>
            <td class="mono">
              {one.method} <Text value={one.route.replace("/api/v1", "")} />
              {one.count > 1 && <span class="faint"> ×{one.count}</span>}
            </td>
            <td class="mono dim">
              {one.workspace && (
                <Text value={byId.value.has(one.workspace) ? nameOf(byId.value.get(one.workspace)!) : one.workspace} />
              )}
            </td>
            <td class={one.status >= 400 ? "is-failed" : "dim"}>{one.code ?? one.outcome ?? one.status}</td>
          </tr>
        ))}
      </PlainTable>
      {next !== null && (
        <p class="reply">
          <Button busy={busy} onClick={older}>
            Show older
          </Button>
        </p>
      )}
    </>
  );
}
