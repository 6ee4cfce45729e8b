// Tokens of programs. A new one is shown once.
import { useState } from "preact/hooks";
import { api } from "../../api/client";
import type { Token } from "../../api/types";
import { Age, Button, Note, Text } from "../../parts/basic";
import { Missing, PlainTable } from "../../parts/table";
import { useAction, useLoad } from "../../parts/hooks";
import { copy } from "../../state/actions";
import { toast } from "../../state/toast";

const DAY = 86_400;

export function Tokens() {
  const { value, fault, reload } = useLoad(async (signal) => (await api.get("/api/v1/tokens", { signal })).tokens, []);
  const [busy, run] = useAction();
  const [name, setName] = useState("");
  const [days, setDays] = useState("30");
  const [fresh, setFresh] = useState<string | null>(null);
  const make = () =>
    void run("Cannot make a token", async () => {
      const made = await api.post("/api/v1/tokens", {
        body: { name, expires_seconds: days ? Number(days) * DAY : null },
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
      <form
        class="set__form"
        onSubmit={(event) => {
          event.preventDefault();
          make();
        }}
      >
        <label>
          <span>Name</span>
          <span class="field">
            <input
              class="mono"
              value={name}
              autocomplete="off"
              placeholder="laptop"
              onInput={(event) => setName(event.currentTarget.value)}
            />
          </span>
        </label>
        <label>
          <span>Works for</span>
          <span class="field">
            <select value={days} onChange={(event) => setDays(event.currentTarget.value)}>
              <option value="1">1 day</option>
              <option value="30">30 days</option>
              <option value="365">a year</option>
              <option value="">until it is revoked</option>
            </select>
          </span>
        </label>
        <Button busy={busy} disabled={!name} onClick={make}>
          Make token
        </Button>
      </form>
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
        <PlainTable heads={["Name", "May", "Made", "Expires", ""]}>
          {value.map((one) => (
            <tr key={one.id}>
              <td class="mono">
                <Text value={one.name} />
              </td>
              <td class="dim">{one.workspace ? `as workspace ${one.workspace}` : (one.may?.join(", ") ?? "")}</td>
              <td class="dim">
                <Age time={one.created_at} /> ago
              </td>
              <td class={one.expired ? "is-failed" : "dim"}>
                {one.expired ? "expired" : one.expires_at ? new Date(one.expires_at).toLocaleDateString("en-GB") : "never"}
              </td>
              <td class="num">
                <Button small kind="danger" disabled={busy} onClick={() => revoke(one)}>
                  Revoke
                </Button>
              </td>
            </tr>
          ))}
        </PlainTable>
      )}
    </>
  );
}
