// What stands before the difference: risks, and the evidence that holm recorded.
import type { Check, Evidence, Review, Risk, Run } from "../../api/types";
import { visible } from "../../lib/odd";
import { clock, duration, plural } from "../../lib/format";
import { Glyph, Icon, Text, type State } from "../../parts/basic";
import { Sheet } from "../../parts/overlay";
import { useRunOutput } from "../../parts/run-output";
import { styled } from "../../lib/sgr";
import { runsOf } from "../../state/store";

const SAYS: Record<string, string> = {
  conflict: "Conflict",
  differs: "Differs from the disk",
  hidden: "Ignored by a new rule",
  protected: "Protected path",
  secret: "Looks like a secret",
  invisible: "Invisible characters",
  test: "A test was deleted",
  ci: "CI",
  hook: "Hook",
  agent: "Agent instructions",
  git: "Git settings",
  editor: "Editor settings",
  shell: "Shell start-up",
  package: "Package scripts",
  build: "Build script",
  container: "Container",
  mode: "Mode",
  install: "Install script",
  lock: "Lock file",
  exec: "Executable",
  link: "Link",
  submodule: "Submodule",
  binary: "Binary",
  nested: "Nested repository",
  unread: "Not compared",
  deletion: "Large deletion",
};
const WEIGHTS: Record<string, State> = { high: "failed", middle: "needs", medium: "needs", low: "degraded" };

export const riskName = (kind: string): string => SAYS[kind] ?? kind;

export function Strips({
  workspace,
  review,
  checks,
  onRisk,
  onEvidence,
}: {
  workspace: string;
  review: Review;
  checks: Check[];
  onRisk: (risk: Risk) => void;
  onEvidence: () => void;
}) {
  const run = runsOf.value.get(workspace)?.find((one) => one.agent && one.ended_at);
  return (
    <section class="strips" aria-label="Risks and evidence">
      <div class="strip">
        <h2>
          Risks <span>{review.risks.length}</span>
        </h2>
        <ul>
          {review.risks.length === 0 && <li class="faint">none found</li>}
          {review.risks.slice(0, 8).map((risk) => (
            <li key={risk.kind + risk.path + risk.text}>
              <button type="button" onClick={() => onRisk(risk)} title={visible(risk.text)}>
                <Glyph state={WEIGHTS[risk.weight] ?? "needs"} says={risk.weight} />
                <b>{riskName(risk.kind)}</b>
                <span class="mono">
                  <Text value={risk.path.slice(risk.path.lastIndexOf("/") + 1) || risk.text} />
                </span>
              </button>
            </li>
          ))}
          {review.risks.length > 8 && (
            <li>
              <button type="button" onClick={onEvidence}>
                and {review.risks.length - 8} more
              </button>
            </li>
          )}
        </ul>
      </div>
      <EvidenceStrip evidence={review.evidence} checks={checks} onEvidence={onEvidence} />
      {run && <Claim run={run} checks={checks} />}
    </section>
  );
}

const LONGEST_CLAIM = 240;

/** The last line that the agent wrote, below what holm recorded; a check that failed contradicts a claim that it passed. */
function Claim({ run, checks }: { run: Run; checks: Check[] }) {
  const last = useRunOutput(run).findLast((line) => line.trim()) ?? "";
  const says = styled(last)
    .map((part) => part.text)
    .join("")
    .trim()
    .slice(0, LONGEST_CLAIM);
  const broken = /pass/i.test(says) ? checks.filter((check) => checkState(check) === "failed") : [];
  if (!says) return null;
  return (
    <p class="claim">
      <span class="faint">
        <Text value={run.agent!} /> says
      </span>{" "}
      <q>
        <Text value={says} />
      </q>{" "}
      {broken.length > 0 && (
        <span class="is-needs">Not what was recorded: {broken.map((check) => check.name).join(", ")} failed.</span>
      )}
    </p>
  );
}

export const checkState = (check: { state: string }): State =>
  check.state === "passed" || check.state === "succeeded"
    ? "ready"
    : check.state === "running" || check.state === "queued"
      ? "running"
      : check.state === "failed" || check.state === "timed_out"
        ? "failed"
        : "stopped";

/** Of files that are too many, or cannot be read. */
const NOT_ALL = "not all files were looked at";

const saysOf = (volume: Evidence["volumes"][number]) => {
  if (volume.partial) return NOT_ALL;
  if (volume.replaced) return "replaced";
  return volume.files ? `${plural(volume.files, "file")} written` : "changed";
};

function EvidenceStrip({ evidence, checks, onEvidence }: { evidence: Evidence; checks: Check[]; onEvidence: () => void }) {
  const commands = evidence.commands.filter((one) => one.kind !== "service");
  const bad = commands.filter((one) => one.exit_code !== null && one.exit_code !== 0).length;
  const refused = evidence.hosts.filter((one) => one.refused).length;
  const outside = evidence.outside.reduce((sum, one) => sum + one.files, 0);
  const written = outside ? plural(outside, "file") : "nothing";
  const fact = (icon: string, name: string, says: preact.ComponentChildren, hide = "") => (
    <li class={hide}>
      <button type="button" onClick={onEvidence}>
        <Icon name={icon} />
        <b>{name}</b>
        <span>{says}</span>
      </button>
    </li>
  );
  return (
    <div class="strip">
      <h2>Evidence</h2>
      <ul>
        {checks.map((check) => (
          <li key={check.name}>
            <button type="button" onClick={onEvidence}>
              <Glyph state={checkState(check)} says={check.state} />
              <b>
                <Text value={check.name} />
              </b>
              <span class="faint">{check.ms != null ? duration(check.ms) : check.state}</span>
            </button>
          </li>
        ))}
        {fact(
          "terminal",
          plural(commands.length, "command"),
          commands.length ? bad ? <span class="is-needs">{bad} failed</span> : "none failed" : "",
        )}
        {fact(
          "globe",
          plural(evidence.hosts.length - refused, "host"),
          refused ? <span class="is-needs">{refused} refused</span> : "none refused",
        )}
        {evidence.volumes.map((volume) =>
          fact("database", volume.name, saysOf(volume)),
        )}
        {fact("file", "Outside the tree", evidence.outside.some((one) => one.partial) ? NOT_ALL : written, "hide-1280")}
      </ul>
    </div>
  );
}

/** All of it, on one sheet. */
export function EvidenceSheet({ review, checks, onClose }: { review: Review; checks: Check[]; onClose: () => void }) {
  const { evidence } = review;
  return (
    <Sheet title="Risks and evidence" onClose={onClose}>
      <h2 class="h">
        Risks <span class="faint">{review.risks.length}</span>
      </h2>
      <ul class="rows">
        {review.risks.map((risk) => (
          <li key={risk.kind + risk.path + risk.text}>
            <Glyph state={WEIGHTS[risk.weight] ?? "needs"} says={risk.weight} />
            <b>{riskName(risk.kind)}</b>
            <span class="mono cut grow" title={visible(risk.text)}>
              <Text value={risk.path} />
            </span>
            <span class="faint cut">
              <Text value={risk.text} />
            </span>
          </li>
        ))}
      </ul>
      {checks.length > 0 && (
        <>
          <h2 class="h">Checks</h2>
          <ul class="rows">
            {checks.map((one) => (
              <li key={one.name}>
                <Glyph state={checkState(one)} says={one.state} />
                <b class="grow">
                  <Text value={one.name} />
                </b>
                <span>
                  {one.state}
                  {one.exit_code ? `, exit ${one.exit_code}` : ""}
                </span>
                <span class="faint">{one.ms != null && duration(one.ms)}</span>
              </li>
            ))}
          </ul>
        </>
      )}
      <h2 class="h">Commands</h2>
      <ul class="rows">
        {evidence.commands.map((one, i) => (
          <li key={i}>
            <Glyph state={one.exit_code ? "failed" : one.state === "running" ? "running" : "ready"} says={one.state} />
            <span class="mono cut grow" title={visible(one.command)}>
              <Text value={one.command} />
            </span>
            <span class="faint">
              {one.exit_code !== null ? `exit ${one.exit_code}` : one.state}
              {one.at && `, ${clock(one.at)}`}
            </span>
          </li>
        ))}
      </ul>
      <h2 class="h">Hosts</h2>
      <ul class="rows">
        {evidence.hosts.length === 0 && <li class="faint">none reached</li>}
        {evidence.hosts.map((one) => (
          <li key={one.host + one.port}>
            <Glyph state={one.refused ? "needs" : "ready"} says={one.refused ? "refused" : "reached"} />
            <span class="mono cut grow">
              <Text value={`${one.host}${one.port ? `:${one.port}` : ""}`} />
            </span>
            <span class="dim">
              {one.refused ? "refused" : ""} {one.count}
            </span>
          </li>
        ))}
      </ul>
      <h2 class="h">Outside the tree</h2>
      <ul class="rows">
        {evidence.outside.length === 0 && <li class="faint">nothing written</li>}
        {evidence.outside.map((one) => (
          <li key={one.path}>
            <span class="mono cut grow">
              <Text value={one.path} />
            </span>
            <span class="dim">{one.partial ? NOT_ALL : plural(one.files, "file")}</span>
          </li>
        ))}
      </ul>
      <h2 class="h">Processes now</h2>
      <ul class="rows">
        {evidence.processes.map((one) => (
          <li key={one.pid}>
            <span class="faint">{one.pid}</span>
            <span class="mono cut grow">
              <Text value={one.command} />
            </span>
            <span class="faint">{one.service}</span>
          </li>
        ))}
      </ul>
    </Sheet>
  );
}
