// What each project's checkout requests of the host, and the person's decision about it.
import type { Project } from "../../api/types";
import { Text, Words } from "../../parts/basic";
import { useLoad } from "../../parts/hooks";
import { Missing } from "../../parts/table";
import { readTrust, TrustQuestion } from "../../parts/trust";
import { homely, projects } from "../../state/store";

export const Trust = () => (
  <>
    <h2 class="h">Trust</h2>
    <p class="dim">
      A <code>holm.toml</code> can ask for things outside of its workspace: secrets, hosts, programs of yours. holm gives none of
      them before you approved exactly that content. This is what the checkouts ask for now.
    </p>
    {projects.value.length === 0 && <p class="dim">No project yet.</p>}
    {projects.value.map((one) => (
      <OfProject key={one.id} project={one} />
    ))}
  </>
);

function OfProject({ project }: { project: Project }) {
  const { value, fault, reload } = useLoad((signal) => readTrust({ project }, signal), [project.id]);
  const rules = [
    ...(project.isolation ? [`isolation ${project.isolation}`] : []),
    ...(project.protected_paths?.length ? [`protected ${project.protected_paths.join(", ")}`] : []),
  ].join("; ");
  return (
    <section class="trust">
      <h3>
        <span class="mono">
          <Text value={project.name} />
        </span>{" "}
        <span class="faint mono">
          <Text value={homely(project.path)} />
        </span>
      </h3>
      {rules && (
        <p class="dim">
          <Text value={rules} />
        </p>
      )}
      <Missing what="Cannot read what it asks for" fault={fault} />
      {value?.length === 0 && <p class="dim">It asks for nothing.</p>}
      {value?.some((one) => !one.approved) && (
        <TrustQuestion place={{ project }} questions={value} onTrusted={() => void reload()} />
      )}
      {value
        ?.filter((one) => one.approved)
        .flatMap((one) => one.asks)
        .map((ask) => (
          <p key={ask.key + ask.words} class="dim">
            <span class="is-ready">trusted</span> <Words text={ask.words} />{" "}
            <code>
              <Text value={ask.key} />
            </code>
          </p>
        ))}
    </section>
  );
}
