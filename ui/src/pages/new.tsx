// New workspaces: project, place to start, agents and message in one form; progress and errors stay in it.
import { useEffect, useState } from "preact/hooks";
import { api, Fault } from "../api/client";
import { KNOWN_AGENTS } from "../lib/agents";
import { plural, shellWord } from "../lib/format";
import { Button, Glyph, Icon, IconButton, Note, Pm, Text, Words } from "../parts/basic";
import { useDraft, useLoad } from "../parts/hooks";
import { Sheet } from "../parts/overlay";
import { command } from "../state/keys";
import { go, paths } from "../state/route";
import { homely, projects, put, runs } from "../state/store";
import { readTrust, TrustQuestion } from "../parts/trust";
import { toast } from "../state/toast";
import { RefField, turnOf, useStarts } from "./new-ref";

interface Made {
  label: string;
  agent: string | null;
  state: "waits" | "making" | "made" | "failed";
  id?: string;
  fault?: Fault | Error;
}

/** A workspace without an agent. */
const SHELL = "shell";
const isUrl = (text: string): boolean => /^(https|ssh):\/\/|^git@/.test(text);

export function NewPage({ project: wanted }: { project: string | null }) {
  const [message, setMessage] = useDraft("new.message");
  const [project, setProject] = useState(wanted ?? projects.value[0]?.name ?? "");
  const [label, setLabel] = useDraft("new.label");
  const [from, setFrom] = useDraft("new.from");
  const [dirty, setDirty] = useState(false);
  const [include, setInclude] = useState<string[]>([]);
  const [untrusted, setUntrusted] = useState(false);
  const [counts, setCounts] = useState<Record<string, number>>({});
  const [made, setMade] = useState<Made[]>([]);
  const known = projects.value.find((one) => one.name === project);
  const starts = useStarts(known, from);
  const turn = turnOf(known, from);
  useEffect(() => {
    if (!project && projects.value[0]) setProject(projects.value[0].name);
  }, [projects.value]);
  const agents = [...new Set([...KNOWN_AGENTS, ...runs.value.flatMap((run) => run.agent ?? [])]), SHELL];
  const chosen = agents.flatMap((agent) => Array.from({ length: counts[agent] ?? 0 }, () => (agent === SHELL ? null : agent)));
  const takers = chosen.filter(Boolean).length;
  const list: (string | null)[] = chosen.length ? chosen : [null];
  const busy = made.some((one) => one.state === "making" || one.state === "waits");
  const labels = list.map((_, i) => (!label ? "" : list.length > 1 ? `${label}-${i + 1}` : label));
  const text = message.trim();
  const verb = list.length > 1 ? `Create ${list.length}` : "Create";
  const start = from && `--${turn ? "at" : "from"} ${shellWord(from)}`;
  const notBrought = starts?.not_brought ?? [];
  const taken = include.filter((path) => notBrought.includes(path));
  const left = notBrought.filter((path) => !include.includes(path));
  const options = [start, dirty && !from && "--dirty", ...taken.map((path) => `--include ${shellWord(path)}`)];
  const line = commandFor(labels[0]!, options, list[0] ?? null, text);
  useEffect(() => {
    command.value = line;
  }, [line]);
  const close = () => go("/workspaces");

  const make = async () => {
    if (busy || !project) return;
    const rows: Made[] = list.map((agent, i) => ({ label: labels[i]!, agent, state: "waits" }));
    const show = () => setMade([...rows]);
    show();
    for (const row of rows) {
      row.state = "making";
      show();
      try {
        const answer = await api.post("/api/v1/workspaces", {
          key: crypto.randomUUID(),
          body: {
            ...(isUrl(project) ? { url: project } : project.startsWith("/") ? { path: project } : { project }),
            label: row.label || null,
            from: turn ? null : from || null,
            at: turn,
            dirty: dirty && !from,
            include: taken,
            untrusted,
            wait: false,
          },
        });
        put(answer);
        row.id = answer.id;
        row.label = answer.label;
        if (text && row.agent)
          await api.post("/api/v1/workspaces/{id}/runs", {
            path: { id: answer.id },
            key: crypto.randomUUID(),
            body: { agent: row.agent, message: text },
          });
        row.state = "made";
      } catch (cause) {
        row.state = "failed";
        row.fault = cause as Error;
      }
      show();
    }
    if (!rows.every((row) => row.state === "made")) return;
    toast(rows.length === 1 ? `Made ${rows[0]!.label}` : `Made ${rows.length} workspaces`);
    setMessage("");
    setLabel("");
    setFrom("");
    go(rows.length === 1 ? paths.workspace(rows[0]!.id!) : "/workspaces");
  };
  const onKey = (event: KeyboardEvent) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      void make();
    }
  };
  const refused = made.some((row) => row.fault instanceof Fault && row.fault.code === "not_trusted");
  const place = known && (turn ? { project: known, at: turn } : { project: known, from, dirty: dirty && !from });
  // While a ref is being typed there is nothing to ask about.
  const settled = !from || Boolean(turn) || starts?.refs.some((one) => one.name === from);
  const { value: asked, reload } = useLoad(
    async (signal) => (place && (settled || refused) ? await readTrust(place, signal) : null),
    [known?.id, from, turn, dirty, settled, refused],
  );
  const untold = !untrusted && asked?.some((one) => !one.approved);
  return (
    <Sheet
      title="New workspace"
      onClose={close}
      foot={
        <>
          <ul class="will">
            <li>
              <Icon name="check" />
              {plural(list.length, "workspace")} with own ports, services and data
            </li>
            {taken.length > 0 && (
              <li>
                <Icon name="check" />
                <span>
                  Brings <Paths of={taken} />{" "}
                  <button type="button" class="linkish" onClick={() => setInclude([])}>
                    Leave {taken.length === 1 ? "it" : "them"}
                  </button>
                </span>
              </li>
            )}
            {left.length > 0 && (
              <li class="is-needs">
                <Icon name="minus" />
                <span>
                  Not brought: <Paths of={left} /> {left.length === 1 ? "is" : "are"} ignored by git.{" "}
                  <button type="button" class="linkish" onClick={() => setInclude([...include, ...left])}>
                    Include {left.length === 1 ? "it" : "them"}
                  </button>
                </span>
              </li>
            )}
            {text && !takers && (
              <li class="is-needs">
                <Icon name="minus" />
                Choose an agent that gets the message
              </li>
            )}
          </ul>
          <div class="sheet__go">
            <code class="cut">
              <Text value={line} />
            </code>
            <Button kind="quiet" cap="Esc" onClick={close}>
              Cancel
            </Button>
            <Button
              kind="primary"
              cap="Ctrl ⏎"
              busy={busy}
              disabled={!project || (Boolean(text) && !takers)}
              onClick={() => void make()}
            >
              {text && takers ? `${verb} and run` : verb}
            </Button>
          </div>
        </>
      }
    >
      <div onKeyDown={onKey}>
        <div class="f">
          <label class="f__label" for="n-msg">
            Message
          </label>
          <textarea
            id="n-msg"
            data-first
            class="f__area"
            rows={3}
            value={message}
            onInput={(event) => setMessage(event.currentTarget.value)}
          />
          <p class="f__hint">Leave it empty to get a workspace without a run.</p>
        </div>
        <fieldset class="f">
          <legend class="f__label">
            Agents <span class="faint">one workspace each</span>
          </legend>
          <ul class="agents">
            {agents.map((agent) => (
              <Counter key={agent} agent={agent} n={counts[agent] ?? 0} onChange={(n) => setCounts({ ...counts, [agent]: n })} />
            ))}
          </ul>
        </fieldset>
        <div class="f f--2">
          <div>
            <label class="f__label" for="n-project">
              Project, path or URL
            </label>
            <div class="field field--tall">
              <Icon name="folder" />
              <input
                id="n-project"
                class="mono"
                list="n-projects"
                value={project}
                type="text"
                spellcheck={false}
                onInput={(event) => setProject(event.currentTarget.value)}
              />
              <datalist id="n-projects">
                {projects.value.map((one) => (
                  <option key={one.id} value={one.name} />
                ))}
              </datalist>
            </div>
          </div>
          <div>
            <label class="f__label" for="n-label">
              Label
            </label>
            <div class="field field--tall">
              <input
                id="n-label"
                class="mono"
                value={label}
                placeholder="holm chooses one"
                type="text"
                spellcheck={false}
                onInput={(event) => setLabel(event.currentTarget.value)}
              />
              {list.length > 1 && <span class="faint mono">-1 … -{list.length}</span>}
            </div>
          </div>
        </div>
        <div class="f">
          <label class="f__label" for="n-ref">
            From
          </label>
          <RefField project={known} value={from} starts={starts} onPick={setFrom} />
          <label class="check">
            <input type="checkbox" checked={dirty && !from} disabled={Boolean(from)} onChange={(event) => setDirty(event.currentTarget.checked)} />
            <span>
              Take the uncommitted state of{" "}
              <span class="mono">
                <Text value={starts ? homely(starts.checkout) : "the checkout"} />
              </span>{" "}
              along{" "}
              {starts?.uncommitted != null && (
                <span class="faint">
                  {starts.uncommitted ? plural(starts.uncommitted, "file") : "it has none"}
                  {starts.uncommitted > 0 && starts.added + starts.removed > 0 && (
                    <>
                      , <Pm added={starts.added} removed={starts.removed} />
                    </>
                  )}
                </span>
              )}
            </span>
          </label>
        </div>
        {place && asked && untold && (
          <TrustQuestion place={place} questions={asked} onTrusted={() => void (refused ? make() : reload())}>
            <Button
              small
              kind="quiet"
              onClick={() => {
                setUntrusted(true);
                setMade([]);
              }}
            >
              Go on without
            </Button>
          </TrustQuestion>
        )}
        {untrusted && <p class="f__hint">What is not trusted is left out.</p>}
        {made.length > 0 && !(refused && untold) && <Progress made={made} />}
      </div>
    </Sheet>
  );
}

const Paths = ({ of }: { of: string[] }) => (
  <>
    {of.map((path, i) => (
      <span key={path}>
        {i > 0 && ", "}
        <span class="mono">
          <Text value={path} />
        </span>
      </span>
    ))}
  </>
);

const Counter = ({ agent, n, onChange }: { agent: string; n: number; onChange: (n: number) => void }) => (
  <li class={n ? "" : "is-off"}>
    <span class="agents__n">
      <IconButton small icon="minus" says={`Fewer ${agent}`} disabled={n === 0} onClick={() => onChange(n - 1)} />
      <b>{n}</b>
      <IconButton small icon="plus" says={`More ${agent}`} disabled={n > 8} onClick={() => onChange(n + 1)} />
    </span>
    <span class="agents__name">
      <Text value={agent} />
    </span>
    {agent === SHELL && <span class="faint">just you</span>}
  </li>
);

const Progress = ({ made }: { made: Made[] }) => (
  <ul class="will will--made" aria-live="polite">
    {made.map((row, i) => (
      <li key={i}>
        {row.state === "failed" ? (
          <Note state="failed" title={<>Cannot make {row.label || "the workspace"}</>}>
            <p>
              <Text value={row.fault!.message} />
            </p>
            {row.fault instanceof Fault && (
              <p class="note__hint">
                <Words text={row.fault.hint} />
              </p>
            )}
          </Note>
        ) : (
          <>
            <Glyph state={row.state === "made" ? "ready" : row.state === "making" ? "running" : "starting"} says={row.state} />
            <span class="mono">
              <Text value={row.label || "a new one"} />
            </span>
            {row.agent && (
              <span class="faint">
                <Text value={row.agent} />
              </span>
            )}
            <span class="dim">{row.state === "making" ? "is being made" : row.state}</span>
          </>
        )}
      </li>
    ))}
  </ul>
);

function commandFor(label: string, options: (string | false)[], agent: string | null, text: string): string {
  const name = shellWord(label || "LABEL");
  const up = ["holm up", name, ...options].filter(Boolean).join(" ");
  return agent && text ? `${up} && holm run ${name} --agent ${agent} …` : up;
}
