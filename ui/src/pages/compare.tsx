// Two to four siblings side by side. Nothing is scored; equal rows are dimmed, so that differences stand out.
import { useEffect, useState } from "preact/hooks";
import { api, Fault, request } from "../api/client";
import type { Compared, Review, Run, Turn, Workspace } from "../api/types";
import { Button, Icon, Note, Text } from "../parts/basic";
import { ProjectCrumb } from "../parts/table";
import { useEvents, useLoad } from "../parts/hooks";
import { Menu } from "../parts/overlay";
import { firstLine } from "../state/attention";
import { command, hints, useKeys } from "../state/keys";
import { go, paths } from "../state/route";
import { byId, firstMessage, nameOf, runsOf, workspaces } from "../state/store";
import { AskAll } from "./compare-ask";
import { filesOf, Table } from "./compare-table";

export interface Column {
  one: Workspace;
  review: Review;
  turn: Turn | null;
  compared: Compared | null;
  run: Run | undefined;
}

export function ComparePage({ ids }: { ids: string[] }) {
  const known = ids.flatMap((id) => byId.value.get(id) ?? []).slice(0, 4);
  const [chosen, setChosen] = useState(0);
  const [at, setAt] = useState<string | null>(null);
  const [asking, setAsking] = useState(false);
  const [dim, setDim] = useState(true);
  const key = known.map((one) => one.id).join();
  const { value, fault, reload } = useLoad((signal) => read(known, signal), [key]);
  useEvents(
    null,
    (type) => /^(turn|run|check)\./.test(type),
    () => void reload(),
  );
  const columns = value ?? [];
  const pick = columns[Math.min(chosen, columns.length - 1)];
  const files = filesOf(columns);
  const move = (by: number) => {
    const next = files[Math.max(0, Math.min(files.length - 1, files.indexOf(at ?? "") + by))];
    if (next === undefined) return;
    setAt(next);
    document.getElementById(`cmp-${next}`)?.scrollIntoView({ block: "nearest" });
  };
  useEffect(() => {
    command.value = `holm compare ${known.map(nameOf).join(" ")}`;
    hints.value = [
      ["compare.choose", "choose"],
      ["compare.row compare.row.back", "file"],
      ["compare.open", "open file"],
      ["compare.review", "review"],
      ["compare.take", "take"],
    ];
    document.title = "Compare · holm";
  }, [key]);
  useKeys({
    "compare.choose": (stroke) => setChosen(Math.min(Number(stroke), columns.length) - 1),
    "compare.row": () => move(1),
    "compare.row.back": () => move(-1),
    ...(pick
      ? {
          "compare.ask": () => setAsking(true),
          ...(at ? { "compare.open": () => go(paths.reviewOf(pick.one.id, at)) } : {}),
          "compare.review": () => go(paths.review(pick.one.id)),
          "compare.take": () => go(paths.review(pick.one.id)),
        }
      : {}),
  });
  const project = known[0]?.project;
  const siblings = workspaces.value.filter((one) => one.project === project && !ids.includes(one.id));
  const message = known.map((one) => firstMessage(one.id)).find(Boolean);
  return (
    <>
      <header class="bar">
        <div class="crumb">
          {project && <ProjectCrumb name={project} />}
          <h1 class="bar__title">Compare {known.length}</h1>
        </div>
        <span class="bar__note cut hide-phone">
          {message && (
            <>
              “<Text value={firstLine(message)} />”
            </>
          )}
        </span>
        <div class="bar__end">
          <label class="check check--bar hide-phone">
            <input type="checkbox" checked={dim} onChange={(event) => setDim(event.currentTarget.checked)} />
            <span>Dim what is the same</span>
          </label>
          {ids.length < 4 && siblings.length > 0 && (
            <Menu
              says="Add sibling"
              choices={siblings.slice(0, 12).map((one) => ({
                label: one.label,
                run: () => go(paths.compare([...ids, one.id]), "replace"),
              }))}
            >
              <Icon name="plus" />
              Add sibling
            </Menu>
          )}
        </div>
      </header>
      {known.length < 2 ? (
        <p class="empty">
          Two to four workspaces of a project can be compared. Mark them with <kbd>x</kbd> in the{" "}
          <a class="link" href="/workspaces">
            list
          </a>
          .
        </p>
      ) : fault ? (
        <div class="empty">
          <Note state="failed" title="Cannot compare">
            <p>
              <Text value={fault.message} />
            </p>
          </Note>
        </div>
      ) : (
        <div class="scroll" tabIndex={0} aria-label="Comparison">
          <Table columns={columns} chosen={chosen} at={at} dim={dim} onChoose={setChosen} />
        </div>
      )}
      {pick && (
        <footer class="approve">
          <p class="approve__state">
            <b class="mono">
              <Text value={pick.one.label} />
            </b>
            <span>The others stay until you remove them.</span>
          </p>
          <div class="approve__acts">
            <Button cap="m" onClick={() => setAsking(true)}>
              Ask all a follow-up
            </Button>
            <Button cap="r" onClick={() => go(paths.review(pick.one.id))}>
              Review
            </Button>
            <Button kind="primary" cap="a" onClick={() => go(paths.review(pick.one.id))}>
              Approve {pick.turn ? `@${pick.turn.n} of ` : ""}
              <Text value={pick.one.label} />…
            </Button>
          </div>
        </footer>
      )}
      {asking && <AskAll all={known} onClose={() => setAsking(false)} />}
    </>
  );
}

async function read(known: Workspace[], signal: AbortSignal): Promise<Column[]> {
  const compared =
    known.length > 1
      ? await request<{ workspaces: Compared[] }>("get", "/api/v1/compare", {
          query: { workspaces: known.map((one) => one.id).join(",") },
          signal,
        }).catch((cause: unknown) => {
          if (cause instanceof Fault && cause.status === 404) return { workspaces: [] };
          throw cause;
        })
      : { workspaces: [] };
  return Promise.all(
    known.map(async (one) => {
      const path = { id: one.id };
      const [review, { turns }] = await Promise.all([
        api.get("/api/v1/workspaces/{id}/review", { path, query: { since: "base" }, signal }),
        api.get("/api/v1/workspaces/{id}/turns", { path, signal }),
      ]);
      return {
        one,
        review,
        turn: turns.at(-1) ?? null,
        compared: compared.workspaces.find((other) => other.id === one.id) ?? null,
        run: runsOf.value.get(one.id)?.[0],
      };
    }),
  );
}
