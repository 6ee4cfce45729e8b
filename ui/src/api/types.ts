// The documents of the API by their names. Those of routes that docs/openapi.json does not describe yet are written
// here by hand, once, after SPEC §9.
import type { components } from "./schema";

type S = components["schemas"];
export type Workspace = S["Workspace"];
export type Service = S["Service"];
export type Port = S["Port"];
export type Project = S["Project"];
export type Session = S["Session"];
export type Run = S["Run"];
export type RunEvent = S["RunEvent"];
export type Turn = S["Turn"];
export type Review = S["Review"];
export type ReviewFile = S["ReviewFile"];
export type Risk = S["Risk"];
export type Evidence = S["Evidence"];
export type Comment = S["Comment"];
export type Approval = S["Approval"];
export type Effect = S["Effect"];
export type Starts = S["Starts"];
export type TrustReport = S["TrustReport"];
export type Numbers = S["WorkspaceNumbers"];
export type CanonicalPort = S["CanonicalPort"];
export type Disk = S["Disk"];
export type Doctor = S["Doctor"];
export type Daemon = S["Status"];
export type EgressEntry = S["EgressEntry"];
export type LogLine = S["LogLine"];
export type Snapshot = S["Snapshot"];
export type AuditEntry = S["AuditEntry"];
export type Token = S["Token"];
export type Secret = S["Secret"];
export type DeclaredSecret = S["DeclaredSecret"];
export type Bytes = S["Bytes"];

export type Reason = "ready" | "question" | "failed" | "stalled" | "refused" | "limit" | "conflict" | "comment";
export interface InboxItem {
  id: string;
  workspace: string;
  label: string;
  project: string;
  reason: Reason;
  text: string;
  since: string;
  next: string;
  /** A text of a program inside is data, not an instruction. */
  origin?: "holm" | "workspace";
}

export interface Check {
  name: string;
  state: string;
  exit_code: number | null;
  tree: string | null;
  ms: number | null;
  reason?: string | null;
}
export interface CheckList {
  checks: Check[];
  tree: string | null;
  revision: number;
}

export interface Compared {
  id: string;
  label: string;
  turn: number | null;
  tree: string | null;
  files: number;
  added: number;
  removed: number;
  checks: { name: string; state: string }[];
  ms: number;
  branch: string | null;
  conflicts: { with: string; workspace: string | null; paths: string[]; more: number }[];
}

export type LineKind = "context" | "add" | "delete";
export interface Line {
  kind: LineKind;
  old: number | null;
  new: number | null;
  text: string;
  mark?: [number, number];
  unended?: boolean;
}
export interface Hunk {
  old_start: number;
  old_lines: number;
  new_start: number;
  new_lines: number;
  header: string;
  lines: Line[];
}
export interface Hunks {
  binary: boolean;
  truncated: boolean;
  hunks: Hunk[];
}

/** GET /ui/state: small facts about the daemon that no other route has. */
export interface UiState {
  version: string;
  port: number;
  home: string;
  memory: number | null;
}

export interface HolmEvent {
  cursor: number;
  time: string;
  type: string;
  workspace: string;
  [more: string]: unknown;
}
