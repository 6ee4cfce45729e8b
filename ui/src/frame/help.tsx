// Every key, from the one table.
import { IconButton, Kbd } from "../parts/basic";
import { Veil } from "../parts/overlay";
import { KEYS, type Key, type Scope } from "../state/keys";

const COLUMNS: { title: string; scopes: Scope[] }[] = [
  { title: "Everywhere", scopes: ["everywhere"] },
  { title: "Lists", scopes: ["list", "inbox", "workspaces"] },
  { title: "Review", scopes: ["review"] },
  { title: "Workspace, compare, data", scopes: ["workspace", "compare", "data"] },
];

/** A key and its opposite are one row. */
function paired(keys: Key[]): Key[] {
  return keys.flatMap((one, i) => {
    const after = keys[i + 1];
    const before = keys[i - 1];
    const back = (a: Key | undefined, b: Key | undefined) =>
      Boolean(a?.says.startsWith("next") && b?.says === a.says.replace("next", "previous"));
    if (back(before, one) || back(one, before)) return [];
    if (back(one, after))
      return [{ ...one, keys: `${one.keys} ${after!.keys}`, says: one.says.replace("next", "next, previous") }];
    return back(after, one)
      ? [{ ...one, keys: `${one.keys} ${after!.keys}`, says: one.says.replace("previous", "previous, next") }]
      : [one];
  });
}

export const Help = ({ onClose }: { onClose: () => void }) => (
  <Veil onClose={onClose}>
    <section class="pal help" role="dialog" aria-modal="true" aria-label="All keys">
      <header class="help__head">
        <h1>Keys</h1>
        <IconButton icon="x" says="Close (Esc)" onClick={onClose} />
      </header>
      <div class="kit__keys scroll" tabIndex={0}>
        {COLUMNS.map((column) => (
          <div key={column.title}>
            <h2>{column.title}</h2>
            <dl>
              {paired(KEYS.filter((one) => column.scopes.includes(one.scope))).map((one) => (
                <div key={one.id}>
                  <dt>
                    <Kbd keys={one.keys} />
                  </dt>
                  <dd>{one.says}</dd>
                </div>
              ))}
            </dl>
          </div>
        ))}
      </div>
    </section>
  </Veil>
);
