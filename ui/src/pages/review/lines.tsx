// The table of a file's difference, in blocks that are drawn when they come near the screen.
import type { ComponentChildren, RefObject } from "preact";
import type { Line } from "../../api/types";
import { plural } from "../../lib/format";
import { Icon, Text } from "../../parts/basic";
import { Lazy } from "../../parts/virtual";
import { newLine, segments, type DiffRow, type Tones } from "./rows";

const BLOCK = 100;
const ROW = 20;

export interface Range {
  first: number;
  last: number;
}
export interface LinesProps {
  rows: DiffRow[];
  layout: "split" | "unified";
  tones: Map<Line, Tones>;
  range: Range | null;
  root: RefObject<HTMLElement | null>;
  path: string;
  /** What stands below a line: threads, or the field of a new comment. */
  below: (line: number) => ComponentChildren;
  onPick: (line: number, extend: boolean) => void;
  onUnfold: (gap: number) => void;
}

export function Lines(props: LinesProps) {
  const blocks = Array.from({ length: Math.ceil(props.rows.length / BLOCK) }, (_, i) =>
    props.rows.slice(i * BLOCK, (i + 1) * BLOCK),
  );
  return (
    <>
      {blocks.map((rows, i) => (
        <Lazy key={i} root={props.root} height={rows.length * ROW}>
          {() => <Block {...props} rows={rows} />}
        </Lazy>
      ))}
    </>
  );
}

function Block(props: LinesProps) {
  const wide = props.layout === "split" ? 4 : 3;
  return (
    <table class={`d d--${props.layout}`}>
      <colgroup>
        {props.layout === "split" ? (
          <>
            <col class="d-col-n" />
            <col />
            <col class="d-col-n" />
            <col />
          </>
        ) : (
          <>
            <col class="d-col-n" />
            <col class="d-col-n" />
            <col />
          </>
        )}
      </colgroup>
      <tbody>
        {props.rows.map((row) => {
          const line = newLine(row);
          const under = line === null ? null : props.below(line);
          return (
            <>
              <RowOf key={row.key} row={row} {...props} />
              {under && (
                <tr key={`${row.key}n`} class="d-note">
                  {props.layout === "split" && <td />}
                  <td colSpan={props.layout === "split" ? 3 : wide}>{under}</td>
                </tr>
              )}
            </>
          );
        })}
      </tbody>
    </table>
  );
}

function RowOf({ row, layout, tones, range, path, onPick, onUnfold }: LinesProps & { row: DiffRow }) {
  if (row.kind === "gap") {
    const where = row.at === 0 ? " above" : "";
    return (
      <tr class={row.lines === 0 ? "d-head" : "d-skip"}>
        <td colSpan={layout === "split" ? 4 : 3}>
          {row.lines === 0 ? (
            <Text value={row.header} />
          ) : (
            <button type="button" onClick={() => onUnfold(row.at)}>
              <Icon name="down" />
              {row.lines === null ? "Lines below" : `${plural(row.lines, "line")}${where}`}
              {row.header && (
                <span class="mono cut">
                  <Text value={row.header} />
                </span>
              )}
            </button>
          )}
        </td>
      </tr>
    );
  }
  const line = newLine(row);
  const chosen = range !== null && line !== null && line >= range.first && line <= range.last;
  const id = line === null ? undefined : `L-${path}-${line}`;
  const number = (n: number | null, side: "old" | "new", extra = "") => (
    <td class={`d-n ${extra} ${side === "new" ? "is-new" : ""}`}>
      {n !== null &&
        (side === "new" ? (
          <button type="button" tabIndex={-1} aria-label={`Line ${n}`} onClick={(event) => onPick(n, event.shiftKey)}>
            {n}
          </button>
        ) : (
          n
        ))}
    </td>
  );
  const mark = chosen ? "is-sel" : "";
  if (row.kind === "line") {
    const { line: one } = row;
    const kind = one.kind === "add" ? "d-add" : one.kind === "delete" ? "d-del" : "";
    if (layout === "unified")
      return (
        <tr class={`${kind} ${mark}`} id={id}>
          {number(one.old, "old")}
          {number(one.new, "new")}
          <Code line={one} tones={tones} />
        </tr>
      );
    return (
      <tr class={mark} id={id}>
        {one.new !== null ? number(one.new, "new", kind) : number(one.old, "old", kind)}
        <Code line={one} tones={tones} kind={kind} span={3} />
      </tr>
    );
  }
  const left = row.left && row.left.kind === "delete" ? "d-del" : "";
  const right = row.right && row.right.kind === "add" ? "d-add" : "";
  return (
    <tr class={mark} id={id}>
      {row.left ? (
        <>
          {number(row.left.old, "old", left)}
          <Code line={row.left} tones={tones} kind={left} />
        </>
      ) : (
        <>
          <td class="d-n d-void" />
          <td class="d-c d-void" />
        </>
      )}
      {row.right ? (
        <>
          {number(row.right.new, "new", right)}
          <Code line={row.right} tones={tones} kind={right} />
        </>
      ) : (
        <>
          <td class="d-n d-void" />
          <td class="d-c d-void" />
        </>
      )}
    </tr>
  );
}

function Code({ line, tones, kind = "", span }: { line: Line; tones: Map<Line, Tones>; kind?: string; span?: number }) {
  return (
    <td class={`d-c ${kind}`} colSpan={span}>
      {segments(line.text, tones.get(line), line.mark).map((part, i) =>
        part.mark ? (
          <mark key={i}>
            <Text value={part.text} />
          </mark>
        ) : part.tone ? (
          <i key={i} class={`c-${part.tone}`}>
            <Text value={part.text} />
          </i>
        ) : (
          <Text key={i} value={part.text} />
        ),
      )}
      {line.unended && (
        <span class="faint" title="The file ends here without a line end">
          {" "}
          ⊘
        </span>
      )}
    </td>
  );
}

export const Said = ({ icon, children }: { icon: string; children: ComponentChildren }) => (
  <div class="file__say">
    <Icon name={icon} />
    <span>{children}</span>
  </div>
);
