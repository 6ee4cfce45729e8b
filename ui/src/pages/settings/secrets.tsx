// Stored secrets by name. Values come in and never out.
import { useState } from "preact/hooks";
import { api } from "../../api/client";
import type { Secret } from "../../api/types";
import { Age, Button, Note, Text } from "../../parts/basic";
import { Missing, PlainTable } from "../../parts/table";
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
      <form
        class="set__form"
        onSubmit={(event) => {
          event.preventDefault();
          store();
        }}
      >
        <label>
          <span>Name</span>
          <span class="field">
            <input
              class="mono"
              value={name}
              autocomplete="off"
              spellcheck={false}
              placeholder="STRIPE_KEY"
              onInput={(event) => setName(event.currentTarget.value)}
            />
          </span>
        </label>
        <label>
          <span>Value</span>
          <span class="field">
            <input type="password" value={secret} autocomplete="off" onInput={(event) => setSecret(event.currentTarget.value)} />
          </span>
        </label>
        <Button busy={busy} disabled={!name || !secret} onClick={store}>
          Store secret
        </Button>
      </form>
      {value && value.secrets.length === 0 && <p class="dim">None is stored.</p>}
      {value && value.secrets.length > 0 && (
        <PlainTable heads={["Name", "For", "Version", "Set", ""]}>
          {value.secrets.map((one) => (
            <tr key={one.name + scopeName(one.scope)}>
              <td class="mono">
                <Text value={one.name} />
              </td>
              <td class="dim">
                <Text value={scopeName(one.scope)} />
              </td>
              <td class="dim">{one.version}</td>
              <td class="dim">
                <Age time={one.set_at} />
              </td>
              <td class="num">
                <Button small kind="danger" disabled={busy} onClick={() => remove(one)}>
                  Delete
                </Button>
              </td>
            </tr>
          ))}
        </PlainTable>
      )}
    </>
  );
}
