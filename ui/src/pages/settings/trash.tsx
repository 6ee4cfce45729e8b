// Removed workspaces, until their time is over.
import { api } from "../../api/client";
import type { Workspace } from "../../api/types";
import { clock, full, left } from "../../lib/format";
import { Ago, Button, Text } from "../../parts/basic";
import { Missing, PlainTable } from "../../parts/table";
import { useAction, useEvents, useLoad, type Loaded } from "../../parts/hooks";
import { restore } from "../../state/actions";
import { minute } from "../../state/look";
import { nameOf } from "../../state/store";

/** The trash, read again when a workspace goes in or out. */
export function useTrash(): Loaded<Workspace[]> {
  const loaded = useLoad(
    async (signal) => (await api.get("/api/v1/workspaces", { query: { trash: true }, signal })).workspaces,
    [],
  );
  useEvents(
    null,
    (type) => /^workspace\.(removed|restored)/.test(type),
    () => void loaded.reload(),
  );
  return loaded;
}

/** What a removed workspace had that no commit has, as far as holm last saw. */
export const Unsaved = ({ one }: { one: Workspace }) =>
  one.dirty ? (
    <span class="is-needs">uncommitted changes</span>
  ) : (
    <span class="dim">{one.dirty === false ? "nothing uncommitted" : ""}</span>
  );

export const Left = ({ one }: { one: Workspace }) =>
  one.expires_at ? (
    <span title={full(one.expires_at)}>{left(one.expires_at, minute.value)}</span>
  ) : (
    <>until the disk needs room</>
  );

export function Restore({ one }: { one: Workspace }) {
  const [busy, run] = useAction();
  return (
    <Button
      small
      busy={busy}
      aria-label={`Restore ${nameOf(one)}`}
      onClick={() => void run(`Cannot restore ${nameOf(one)}`, () => restore(one.id))}
    >
      Restore
    </Button>
  );
}

export function Trash() {
  const { value, fault } = useTrash();
  return (
    <>
      <h2 class="h">Trash</h2>
      <p class="dim">
        A removed workspace keeps its code, data and turns here until the time below, or until the disk needs the room.
      </p>
      <Missing what="Cannot read the trash" fault={fault} />
      {value?.length === 0 && <p class="dim">Nothing is in the trash.</p>}
      {value && value.length > 0 && (
        <div class="trash">
          <PlainTable heads={["Workspace", "Removed", "Deleted for good", ""]}>
            {value.map((one) => (
              <tr key={one.id}>
                <td class="mono">
                  <Text value={nameOf(one)} />
                </td>
                <td>{one.removed_at && <Ago time={one.removed_at} />}</td>
                <td title={one.expires_at ? full(one.expires_at) : undefined}>
                  {one.expires_at ? clock(one.expires_at) : "when the disk needs room"}
                </td>
                <td class="num">
                  <Restore one={one} />
                </td>
              </tr>
            ))}
          </PlainTable>
        </div>
      )}
    </>
  );
}
