// What a project's checkout requests of the host, and the person's approval of exactly that.
import { api } from "../api/client";
import type { TrustReport } from "../api/types";
import { Button, Glyph, Text, Words } from "./basic";
import { useAction } from "./hooks";
import { toast } from "../state/toast";
import type { ComponentChildren } from "preact";

/** Where the requests are read: the commit of `from`, the start of a turn, or the checkout with its uncommitted state. */
export interface TrustPlace {
  project: { id: string; name: string };
  from?: string;
  at?: string;
  dirty?: boolean;
}

export const readTrust = async ({ project, from, at, dirty }: TrustPlace, signal?: AbortSignal): Promise<TrustReport[]> =>
  (
    await api.get("/api/v1/projects/{id}/trust", {
      path: { id: project.id },
      query: { from: from || undefined, at, dirty: dirty || undefined },
      signal,
    })
  ).questions;

const MARKS: Record<string, string> = { added: "+", changed: "~", removed: "−" };

export function TrustQuestion({
  place,
  questions,
  onTrusted,
  children,
}: {
  place: TrustPlace;
  questions: TrustReport[];
  onTrusted: () => void;
  /** Other ways to go on. */
  children?: ComponentChildren;
}) {
  const [busy, run] = useAction();
  const open = questions.filter((one) => !one.approved);
  const asks = open.flatMap((one) => one.asks.map((ask) => ({ ...ask, mark: markOf(one, ask) })));
  const gone = open.flatMap((one) => one.changes.filter((change) => change.change === "removed"));
  const trust = () =>
    void run("Cannot trust it", async () => {
      await api.post("/api/v1/projects/{id}/trust", {
        path: { id: place.project.id },
        body: { digests: open.map((one) => one.digest), from: place.from || null, at: place.at ?? null, dirty: place.dirty ?? false },
      });
      toast(`Trusted what ${place.project.name} asks for`);
      onTrusted();
    });
  return (
    <div class="ask-trust">
      <Glyph state="needs" />
      <div>
        <p>
          <b>
            <Text value={place.project.name} /> asks for {asks.length === 1 ? "one thing" : `${asks.length} things`} that you have
            not trusted yet
          </b>
        </p>
        {[...asks, ...gone.map((one) => ({ ...one, mark: MARKS.removed }))].map((ask) => (
          <p key={ask.mark + ask.key + ask.words}>
            <span class="plus mono">{ask.mark}</span> <Words text={ask.words} />{" "}
            <code class="dim">
              <Text value={ask.key} />
            </code>
          </p>
        ))}
        <div class="ask-trust__acts">
          <Button small busy={busy} onClick={trust}>
            Trust this content
          </Button>
          {children}
        </div>
      </div>
    </div>
  );
}

function markOf(report: TrustReport, ask: { key: string; words: string }): string {
  const change = report.changes.find((one) => one.key === ask.key && one.words === ask.words);
  return change ? (MARKS[change.change] ?? "+") : report.approved_at ? " " : "+";
}
