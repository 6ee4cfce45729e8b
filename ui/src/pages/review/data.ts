// Everything that a review shows, read again when an event says that it changed.
import { useEffect, useRef, useState } from "preact/hooks";
import { api, Fault, request } from "../../api/client";
import type { Approval, Check, CheckList, Comment, Review, Turn } from "../../api/types";
import { useEvents, useLoad } from "../../parts/hooks";
import { failed } from "../../state/toast";

export interface ReviewData {
  review: Review | null;
  turns: Turn[];
  comments: Comment[];
  approval: Approval | null;
  /** Null: this daemon has no checks. */
  checks: Check[] | null;
  fault: Error | null;
  nextRound: number;
  lookedFrom: number | null;
  reload: () => Promise<void>;
  reloadComments: () => Promise<void>;
  reloadChecks: () => Promise<void>;
  look: (looked: { paths?: string[] | null; turn?: number | null }) => Promise<void>;
}

export function useReview(id: string, since: string): ReviewData {
  const path = { id };
  const [lookedFrom, setLookedFrom] = useState<number | null>(null);
  // A viewed mark is a look, too; the page goes on from where this visit began.
  const began = useRef<{ key: string; since: string } | null>(null);
  const main = useLoad(
    async (signal) => {
      const key = `${id} ${since}`;
      const from = began.current?.key === key ? began.current.since : since;
      const [review, { turns }, approval] = await Promise.all([
        api.get("/api/v1/workspaces/{id}/review", { path, query: { since: from }, signal }),
        api.get("/api/v1/workspaces/{id}/turns", { path, signal }),
        api.get("/api/v1/workspaces/{id}/approve", { path, signal }),
      ]);
      began.current = { key, since: review.from === null ? "base" : `@${review.from}` };
      if (since === "look") setLookedFrom(review.from);
      return { review, turns, approval };
    },
    [id, since],
  );
  const notes = useLoad(async (signal) => (await api.get("/api/v1/workspaces/{id}/comments", { path, signal })).comments, [id]);
  const seen = useRef<number | undefined>(undefined);
  const checks = useLoad(
    async (signal) => {
      const list = await readChecks(id, seen.current, signal);
      seen.current = list?.checks.some((one) => one.state === "queued" || one.state === "running") ? list.revision : undefined;
      return list;
    },
    [id],
  );
  useEvents(
    id,
    (type) => type.startsWith("turn.") || type.startsWith("run.ended"),
    () => {
      void main.reload();
      void checks.reload();
    },
  );
  useEvents(
    id,
    (type) => type.startsWith("comment."),
    () => void notes.reload(),
  );
  useEvents(
    id,
    (type) => type.startsWith("check."),
    () => void checks.reload(),
  );
  const busy = checks.value?.checks.some((one) => one.state === "queued" || one.state === "running") ?? false;
  // While a check runs, each answer waits for the next news.
  useEffect(() => {
    if (busy) void checks.reload();
  }, [busy, checks.value?.revision]);
  const comments = notes.value ?? [];
  const look: ReviewData["look"] = async (looked) => {
    try {
      await api.post("/api/v1/workspaces/{id}/review", { path, body: looked });
      if (!looked.paths) began.current = null;
      await main.reload();
    } catch (cause) {
      failed("Cannot mark it as viewed", cause);
    }
  };
  return {
    review: main.value?.review ?? null,
    turns: main.value?.turns ?? [],
    approval: main.value?.approval ?? null,
    comments,
    checks: checks.value?.checks ?? null,
    fault: main.fault,
    lookedFrom,
    nextRound: Math.max(0, ...comments.map((one) => one.round ?? 0)) + 1,
    reload: main.reload,
    reloadComments: notes.reload,
    reloadChecks: checks.reload,
    look,
  };
}

async function readChecks(id: string, after: number | undefined, signal: AbortSignal): Promise<CheckList | null> {
  try {
    return await request<CheckList>("get", "/api/v1/workspaces/{id}/checks", {
      path: { id },
      query: { after },
      signal,
    });
  } catch (cause) {
    if (cause instanceof Fault && cause.status === 404) return null;
    throw cause;
  }
}
