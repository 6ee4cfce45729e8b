// Stored secrets by name. Values come in and never out.
import { useState } from "preact/hooks";
import { api } from "../../api/client";
import type { Secret } from "../../api/types";
import { Age, Note, Text } from "../../parts/basic";
import { AddField, AddForm, Missing, StoredTable } from "../../parts/table";
import { useAction, useLoad } from "../../parts/hooks";
import { toast } from "../../state/toast";

const scopeName = (scope: Secret["scope"]): string =>
  scope === "user" ? "all projects" : "project" in scope ? `project ${scope.project}` : `workspace ${scope.workspace}`;

export function Secrets() {
  const { value, fault, reload } = useLoad((signal) => api.get("/api/v1/secrets", { signal }), []);
  const [busy, run] = useAction();
  const [name, setName] = useState("");
  const [secret, setSecret] = useState("");
  const store = () =>
    void run(`Cannot store ${name}`, async () => {
      await api.put("/api/v1/secrets", { body: { name, scope: "user", value: secret } });
      setSecret("");
      setName("");
      toast(`Stored ${name}`);
      await reload();
    });
  const remove = (one: Secret) =>
    void run(`Cannot delete ${one.name}`, async () => {
      await api.delete("/api/v1/secrets", { body: { name: one.name, scope: one.scope } });
      toast(`Deleted ${one.name}; workspaces lose it`);
      await reload();
    });
  return (
    <>
      <h2 class="h">Secrets</h2>
      <p class="dim">
        Encrypted on this machine. A workspace gets only those that its <code>holm.toml</code> declares and you trusted, and only
        the named services see them.
      </p>
      <Missing what="Cannot read the secrets" fault={fault} />
      {value?.locked && (
        <Note state="needs" title="The secrets are locked">
          <p>
            <Text value={value.locked_why ?? ""} />
          </p>
          <p class="note__hint">
            <code>holm secret unlock</code>
          </p>
        </Note>
      )}
      <AddForm verb="Store secret" busy={busy} disabled={!name || !secret} onAdd={store}>
        <AddField says="Name">
          <input
            class="mono"
            value={name}
            autocomplete="off"
            spellcheck={false}
            placeholder="STRIPE_KEY"
            onInput={(event) => setName(event.currentTarget.value)}
          />
        </AddField>
        <AddField says="Value">
          <input type="password" value={secret} autocomplete="off" onInput={(event) => setSecret(event.currentTarget.value)} />
        </AddField>
      </AddForm>
      {value && value.secrets.length === 0 && <p class="dim">None is stored.</p>}
      {value && value.secrets.length > 0 && (
        <StoredTable
          heads={["Name", "For", "Version", "Set"]}
          verb="Delete"
          busy={busy}
          rows={value.secrets.map((one) => ({
            key: one.name + scopeName(one.scope),
            cells: [<Text value={one.name} />, <Text value={scopeName(one.scope)} />, one.version, <Age time={one.set_at} />],
            run: () => remove(one),
          }))}
        />
      )}
    </>
  );
}
