// Tokens of programs. A new one is shown once.
import { useState } from "preact/hooks";
import { api } from "../../api/client";
import type { Token } from "../../api/types";
import { Age, Button, Note, Text } from "../../parts/basic";
import { AddField, AddForm, Missing, StoredTable } from "../../parts/table";
import { useAction, useLoad } from "../../parts/hooks";
import { copy } from "../../state/actions";
import { toast } from "../../state/toast";

const DAY = 86_400;

export function Tokens() {
  const { value, fault, reload } = useLoad(async (signal) => (await api.get("/api/v1/tokens", { signal })).tokens, []);
  const [busy, run] = useAction();
  const [name, setName] = useState("");
  const [days, setDays] = useState("30");
  const [approve, setApprove] = useState(false);
  const [fresh, setFresh] = useState<string | null>(null);
  const make = () =>
    void run("Cannot make a token", async () => {
      const made = await api.post("/api/v1/tokens", {
        body: { name, expires_seconds: days ? Number(days) * DAY : null, may: approve ? ["approve"] : [] },
      });
      setFresh(made.token);
      setName("");
      await reload();
    });
  const revoke = (one: Token) =>
    void run(`Cannot revoke ${one.name}`, async () => {
      await api.delete("/api/v1/tokens/{token}", { path: { token: one.id } });
      toast(`Revoked ${one.name}; its connections are cut`);
      await reload();
    });
  return (
    <>
      <h2 class="h">Tokens</h2>
      <p class="dim">For programs that talk to the front door. holm keeps only a digest.</p>
      <Missing what="Cannot list the tokens" fault={fault} />
      <AddForm verb="Make token" busy={busy} disabled={!name} onAdd={make}>
        <AddField says="Name">
          <input
            class="mono"
            value={name}
            autocomplete="off"
            placeholder="laptop"
            onInput={(event) => setName(event.currentTarget.value)}
          />
        </AddField>
        <AddField says="Works for">
          <select value={days} onChange={(event) => setDays(event.currentTarget.value)}>
            <option value="1">1 day</option>
            <option value="30">30 days</option>
            <option value="365">a year</option>
            <option value="">until it is revoked</option>
          </select>
        </AddField>
        <label class="check check--bar">
          <input type="checkbox" checked={approve} onChange={(event) => setApprove(event.currentTarget.checked)} />
          <span>May approve</span>
        </label>
      </AddForm>
      {fresh && (
        <Note
          state="needs"
          title="Copy it now; it is never shown again"
          acts={
            <Button small icon="copy" onClick={() => void copy(fresh)}>
              Copy
            </Button>
          }
        >
          <p>
            <code>{fresh}</code>
          </p>
        </Note>
      )}
      {value && (
        <StoredTable
          heads={["Name", "May", "Made", "Expires"]}
          verb="Revoke"
          busy={busy}
          rows={value.map((one) => ({
            key: one.id,
            cells: [
              <Text value={one.name} />,
              rightsOf(one),
              <Age time={one.created_at} />,
              <Expiry token={one} />,
            ],
            run: () => revoke(one),
          }))}
        />
      )}
    </>
  );
}

function rightsOf({ workspace, may = [] }: Token): string {
  if (workspace) return `as workspace ${workspace}`;
  if (may.includes("approve")) return "everything, and approve";
  return may.length ? may.join(", ") : "everything but approve";
}

const Expiry = ({ token }: { token: Token }) =>
  token.expired ? (
    <span class="is-failed">expired</span>
  ) : (
    <>{token.expires_at ? new Date(token.expires_at).toLocaleDateString("en-GB") : "never"}</>
  );
