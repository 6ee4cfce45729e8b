// Parts that several pages have: tables, the form that adds a row, why a list is missing, and the way back to a project.
import type { ComponentChildren } from "preact";
import { paths } from "../state/route";
import { Button, Icon, Note, Text } from "./basic";

/** A heading that is empty belongs to a column of buttons. */
export const PlainTable = ({
  heads,
  tight = false,
  children,
}: {
  heads: string[];
  tight?: boolean;
  children: ComponentChildren;
}) => (
  <div class="wide" tabIndex={0}>
    <table class={`t t--plain ${tight ? "t--tight" : ""}`}>
      <thead>
        <tr>
          {heads.map((head, i) => (
            <th key={i}>{head || <span class="vh">Actions</span>}</th>
          ))}
        </tr>
      </thead>
      <tbody>{children}</tbody>
    </table>
  </div>
);

export interface Stored {
  key: string;
  cells: ComponentChildren[];
  run: () => void;
}

/** Things that are kept until a person takes them away: the first cell is a name, the last button takes it away. */
export const StoredTable = ({ heads, rows, verb, busy }: { heads: string[]; rows: Stored[]; verb: string; busy: boolean }) => (
  <PlainTable heads={[...heads, ""]}>
    {rows.map((row) => (
      <tr key={row.key}>
        {row.cells.map((cell, i) => (
          <td key={i} class={i === 0 ? "mono" : "dim"}>
            {cell}
          </td>
        ))}
        <td class="num">
          <Button small kind="danger" disabled={busy} onClick={row.run}>
            {verb}
          </Button>
        </td>
      </tr>
    ))}
  </PlainTable>
);

/** A row of fields that adds one. */
export const AddForm = ({
  verb,
  busy,
  disabled,
  onAdd,
  children,
}: {
  verb: string;
  busy: boolean;
  disabled: boolean;
  onAdd: () => void;
  children: ComponentChildren;
}) => (
  <form
    class="set__form"
    onSubmit={(event) => {
      event.preventDefault();
      if (!disabled && !busy) onAdd();
    }}
  >
    {children}
    <Button type="submit" busy={busy} disabled={disabled}>
      {verb}
    </Button>
  </form>
);

export const AddField = ({ says, children }: { says: string; children: ComponentChildren }) => (
  <label>
    <span>{says}</span>
    <span class="field">{children}</span>
  </label>
);

export const Missing = ({ what, fault }: { what: string; fault: Error | null }) =>
  fault && (
    <Note state="failed" title={what}>
      <p>
        <Text value={fault.message} />
      </p>
    </Note>
  );

/** The project of a page's title, as a link to its workspaces. */
export const ProjectCrumb = ({ name }: { name: string }) => (
  <>
    <a class="dim mono" href={paths.project(name)}>
      <Text value={name} />
    </a>
    <Icon name="right" />
  </>
);
