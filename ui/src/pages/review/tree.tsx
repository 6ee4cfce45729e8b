// The files of a review, risky ones first, with their viewed marks; and the rounds of comments.
import { visible } from "../../lib/odd";
import { useState } from "preact/hooks";
import type { Comment, ReviewFile } from "../../api/types";
import { clock, plural } from "../../lib/format";
import { Icon, IconButton, Pm, Text } from "../../parts/basic";

export function Tree({
  files,
  comments,
  current,
  onOpen,
  onViewed,
}: {
  files: ReviewFile[];
  comments: Comment[];
  current: string | null;
  onOpen: (path: string) => void;
  onViewed: (path: string) => void;
}) {
  const [filter, setFilter] = useState<string | null>(null);
  const shown = filter ? files.filter((file) => file.path.toLowerCase().includes(filter.toLowerCase())) : files;
  const risky = shown.filter((file) => file.risks.length > 0);
  const dirs = new Map<string, ReviewFile[]>();
  for (const file of shown) {
    if (file.risks.length) continue;
    const dir = file.path.slice(0, Math.max(0, file.path.lastIndexOf("/")));
    dirs.set(dir, [...(dirs.get(dir) ?? []), file]);
  }
  const entry = (file: ReviewFile, inside: boolean) => (
    <Entry
      key={file.path}
      file={file}
      inside={inside}
      n={comments.filter((one) => one.path === file.path).length}
      selected={file.path === current}
      onOpen={onOpen}
      onViewed={onViewed}
    />
  );
  return (
    <>
      <div class="rv__head">
        <h2>Files</h2>
        <span class="faint">
          {files.filter((file) => file.viewed).length} of {files.length} viewed
        </span>
        <IconButton icon="search" says="Filter files (/)" small onClick={() => setFilter(filter === null ? "" : null)} />
      </div>
      {filter !== null && (
        <label class="field rv__filter">
          <Icon name="filter" />
          <span class="vh">Filter files</span>
          <input
            type="text"
            data-filter
            value={filter}
            ref={(field) => field?.focus()}
            onInput={(event) => setFilter(event.currentTarget.value)}
          />
        </label>
      )}
      <ul class="tree">
        {risky.length > 0 && <li class="tree__group">Risky first</li>}
        {risky.map((file) => entry(file, false))}
        {[...dirs].map(([dir, inside]) => (
          <>
            {dir && (
              <li key={dir} class="tree__dir">
                <Icon name="folder" />
                <span class="mono cut">
                  <Text value={dir} />
                </span>
              </li>
            )}
            {inside.map((file) => entry(file, Boolean(dir)))}
          </>
        ))}
      </ul>
    </>
  );
}

function Entry({
  file,
  inside,
  n,
  selected,
  onOpen,
  onViewed,
}: {
  file: ReviewFile;
  inside: boolean;
  n: number;
  selected: boolean;
  onOpen: (path: string) => void;
  onViewed: (path: string) => void;
}) {
  const name = inside ? file.path.slice(file.path.lastIndexOf("/") + 1) : file.path;
  const flag = file.operation === "delete" ? "deleted" : file.risks[0];
  return (
    <li class={`tree__row ${inside ? "tree__row--in" : ""}`}>
      <button
        type="button"
        class={`tree__file ${selected ? "is-selected" : ""}`}
        aria-current={selected || undefined}
        onClick={() => onOpen(file.path)}
        title={visible(file.path)}
      >
        <span class="mono cut grow">
          <Text value={name} />
        </span>
        {flag && <span class="tree__flag">{flag}</span>}
        {n > 0 && (
          <span class="tree__c">
            <Icon name="comment" />
            {n}
          </span>
        )}
        <Pm added={file.added} removed={file.removed} />
      </button>
      <button
        type="button"
        class={`tree__view ${file.viewed ? "is-viewed" : ""}`}
        aria-pressed={file.viewed}
        title={file.viewed ? "Viewed" : "Mark as viewed"}
        disabled={file.viewed}
        onClick={() => onViewed(file.path)}
      >
        {file.viewed && <Icon name="check" />}
        <span class="vh">{file.viewed ? "Viewed" : "Mark as viewed"}</span>
      </button>
    </li>
  );
}

export function Rounds({ comments, next, onOpen }: { comments: Comment[]; next: number; onOpen: (comment: Comment) => void }) {
  const drafts = comments.filter((one) => one.round === null);
  const rounds = [...new Set(comments.flatMap((one) => one.round ?? []))].sort((a, b) => b - a);
  if (comments.length === 0)
    return (
      <p class="inbox__end">
        No comments yet. Select a line and write one. <kbd>c</kbd>
      </p>
    );
  return (
    <ol class="rounds">
      {drafts.length > 0 && (
        <li class="is-selected">
          <span class="rounds__n">{next}</span>
          <span>
            <b>Draft</b>
            <span class="faint"> {plural(drafts.length, "comment")}, not sent</span>
          </span>
        </li>
      )}
      {rounds.map((round) => {
        const of = comments.filter((one) => one.round === round);
        const solved = of.filter((one) => one.state === "resolved").length;
        const answered = of.filter((one) => one.state === "open" && one.replies.length).length;
        const latest = of
          .flatMap((one) => one.replies.map((reply) => reply.at))
          .sort()
          .at(-1);
        return (
          <li key={round}>
            <span class="rounds__n">{round}</span>
            <span>
              <button type="button" class="linkish" onClick={() => onOpen(of[0]!)}>
                {plural(of.length, "comment")}
              </button>
              <span class="faint">
                {" "}
                {latest ? `answered ${clock(latest)}` : of[0]!.delivered ? "sent" : "waits for the next run"}
              </span>
              <br />
              {solved > 0 && <span class="is-ready">{solved} resolved</span>}
              {solved > 0 && answered > 0 && <span class="faint">, </span>}
              {answered > 0 && <span class="is-needs">{answered} answered</span>}
            </span>
          </li>
        );
      })}
    </ol>
  );
}
