// The rows of a comparison.
import type { ComponentChildren } from "preact";
import { visible } from "../lib/odd";
import type { Compared, Review } from "../api/types";
import { duration, plural } from "../lib/format";
import { Ago, Cap, Glyph, Pm, Text } from "../parts/basic";
import { standing } from "../state/attention";
import { minute } from "../state/look";
import { paths } from "../state/route";
import { inboxOf, runsOf, sessionsOf } from "../state/store";
import { checkState, riskName } from "./review/strips";
import type { Column } from "./compare";

export function Table({
  columns,
  chosen,
  at,
  dim,
  onChoose,
}: {
  columns: Column[];
  chosen: number;
  /** The path of the selected row. */
  at: string | null;
  dim: boolean;
  onChoose: (i: number) => void;
}) {
  const wide = columns.length + 1;
  const isSame = (values: Cell[]) => dim && values.length > 1 && values.every((one) => one.same === values[0]!.same);
  const row = (name: ComponentChildren, key: string, values: Cell[], path: string | null = null) => (
    <tr
      key={key}
      id={path === null ? undefined : `cmp-${path}`}
      aria-current={path !== null && path === at ? true : undefined}
      class={`${isSame(values) ? "is-same" : ""} ${path !== null && path === at ? "is-selected" : ""}`}
    >
      <th scope="row">{name}</th>
      {values.map((one, i) => (
        <td key={i}>{one.says}</td>
      ))}
    </tr>
  );
  const all = (says: (column: Column) => Cell) => columns.map(says);
  const branch = columns.find((column) => column.compared?.branch)?.compared?.branch;
  const checks = [...new Set(columns.flatMap((column) => checksOf(column).map((check) => check.name)))];
  const files = filesOf(columns);
  const longest = Math.max(1, ...columns.map((column) => timeOf(column) ?? 0));
  return (
    <table class="cmp">
      <thead>
        <tr>
          <td />
          {columns.map((column, i) => (
            <th key={column.one.id} scope="col" class={i === chosen ? "is-selected" : ""} onMouseDown={() => onChoose(i)}>
              <Head column={column} n={i + 1} />
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        <tr class="cmp__sec">
          <th colSpan={wide} scope="rowgroup">
            Recorded by holm
          </th>
        </tr>
        {checks.map((name) =>
          row(
            <>
              Check <Text value={name} />
            </>,
            `c${name}`,
            all((column) => {
              const check = checksOf(column).find((one) => one.name === name);
              return {
                same: check?.state ?? "",
                says: check ? (
                  <span class="cmp__v">
                    <Glyph state={checkState(check)} says={check.state} />
                    {check.state}
                    {"ms" in check && check.ms != null && <span class="faint">{duration(check.ms)}</span>}
                  </span>
                ) : (
                  <span class="faint">not run</span>
                ),
              };
            }),
          ),
        )}
        {row(
          "Commands",
          "commands",
          all(({ review }) => {
            const commands = review.evidence.commands.filter((one) => one.kind !== "service");
            const bad = commands.filter((one) => one.exit_code).length;
            return {
              same: `${commands.length} ${bad}`,
              says: (
                <>
                  {commands.length}
                  {bad ? (
                    <>
                      , <span class="is-needs">{bad} failed</span>
                    </>
                  ) : commands.length ? (
                    ", none failed"
                  ) : (
                    ""
                  )}
                </>
              ),
            };
          }),
        )}
        {row(
          "Hosts",
          "hosts",
          all(({ review }) => {
            const refused = review.evidence.hosts.filter((one) => one.refused).length;
            const reached = review.evidence.hosts.length - refused;
            return {
              same: `${reached} ${refused}`,
              says: (
                <>
                  {reached} reached
                  {refused > 0 && (
                    <>
                      , <span class="is-needs">{refused} refused</span>
                    </>
                  )}
                </>
              ),
            };
          }),
        )}
        {row(
          "Volumes",
          "volumes",
          all(({ review }) => {
            const names = review.evidence.volumes.map((one) => one.name).join(", ");
            return {
              same: names,
              says: names ? (
                <>
                  changed:{" "}
                  <span class="mono">
                    <Text value={names} />
                  </span>
                </>
              ) : (
                "no change"
              ),
            };
          }),
        )}
        {row(
          "Risks",
          "risks",
          all(({ review }) => {
            const kinds = [...new Set(review.risks.map((risk) => riskName(risk.kind)))].join(", ");
            return { same: kinds, says: kinds ? <span class="is-needs">{kinds}</span> : "none" };
          }),
        )}
        {columns.some((column) => column.compared) && (
          <>
            {row(
              <>
                Merge into <Text value={branch ?? "your branch"} />
              </>,
              "merge",
              all((column) => conflicts(column, (one) => !one.workspace)),
            )}
            {row(
              "With live siblings",
              "siblings",
              all((column) => conflicts(column, (one) => Boolean(one.workspace))),
            )}
          </>
        )}
        <tr class="cmp__sec">
          <th colSpan={wide} scope="rowgroup">
            Size
          </th>
        </tr>
        {row(
          "Run time",
          "time",
          all((column) => {
            const ms = timeOf(column);
            return {
              same: String(ms),
              says:
                ms === null ? (
                  <span class="faint">–</span>
                ) : (
                  <span class="cmp__v">
                    {duration(ms)}{" "}
                    <svg class="cmp__bar" viewBox="0 0 96 8" width="96" height="8" aria-hidden="true">
                      <rect width={(ms / longest) * 96} height="8" rx="1" />
                    </svg>
                  </span>
                ),
            };
          }),
        )}
        {row(
          "Files",
          "files",
          all(({ review }) => ({ same: String(review.files.length), says: review.files.length })),
        )}
        {row(
          "Lines",
          "lines",
          all(({ review }) => {
            const [added, removed] = lines(review);
            return {
              same: `${added} ${removed}`,
              says: added || removed ? <Pm added={added} removed={removed} /> : <span class="faint">–</span>,
            };
          }),
        )}
        <tr class="cmp__sec">
          <th colSpan={wide} scope="rowgroup">
            Files
          </th>
        </tr>
        {files.map((path) =>
          row(
            <span class="mono" title={visible(path)}>
              <Text value={path} />
            </span>,
            path,
            all(({ review }) => {
              const file = review.files.find((one) => one.path === path);
              return {
                same: file ? `${file.added} ${file.removed}` : "",
                says: file ? <Pm added={file.added} removed={file.removed} /> : <span class="faint">–</span>,
              };
            }),
            path,
          ),
        )}
      </tbody>
    </table>
  );
}

interface Cell {
  says: ComponentChildren;
  same: string;
}

/** What cannot be merged, one line for each other side, with the files. */
function conflicts({ one, compared }: Column, of: (conflict: Compared["conflicts"][number]) => boolean): Cell {
  const found = compared?.conflicts.filter(of) ?? [];
  return {
    same: found.map((conflict) => conflict.with).join(),
    says: found.length
      ? found.map(({ with: name, workspace, paths: files, more }) => (
          <p key={name} class="is-failed" title={visible(files.join("\n"))}>
            {plural(files.length + more, "file")}
            {workspace && (
              <>
                {" "}
                with{" "}
                <a class="link mono" href={paths.compare([one.id, workspace])}>
                  <Text value={name} />
                </a>
              </>
            )}
            : <Text value={files[0] ?? ""} />
            {files.length + more > 1 && "…"}
          </p>
        ))
      : "clean",
  };
}

const MOST_FILES = 200;
export const filesOf = (columns: Column[]): string[] =>
  [...new Set(columns.flatMap((column) => column.review.files.map((file) => file.path)))].sort().slice(0, MOST_FILES);

function Head({ column: { one, turn }, n }: { column: Column; n: number }) {
  const is = standing(
    one,
    inboxOf.value.get(one.id),
    runsOf.value.get(one.id) ?? [],
    sessionsOf.value.get(one.id) ?? [],
    minute.value,
  );
  return (
    <>
      <span class="cmp__name">
        <Glyph state={is.state} />
        <a class="mono" href={paths.workspace(one.id)}>
          <Text value={one.label} />
        </a>
        {turn && <span class="dim">@{turn.n}</span>}
        <Cap keys={String(n)} />
      </span>
      <span class="faint">
        {is.agent && (
          <>
            <Text value={is.agent} />,{" "}
          </>
        )}
        <Ago time={is.since} />; {is.group.toLowerCase()}
      </span>
    </>
  );
}

const checksOf = (column: Column): { name: string; state: string; ms?: number | null }[] =>
  column.compared?.checks ?? column.review.evidence.checks;
const timeOf = (column: Column): number | null => column.compared?.ms ?? column.run?.duration_ms ?? null;
const lines = (review: Review): [number, number] => [
  review.files.reduce((sum, file) => sum + (file.added ?? 0), 0),
  review.files.reduce((sum, file) => sum + (file.removed ?? 0), 0),
];
