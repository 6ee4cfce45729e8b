// Parts that several pages have: a plain table, why a list is missing, and the way back to a project.
import type { ComponentChildren } from "preact";
import { paths } from "../state/route";
import { Icon, Note, Text } from "./basic";

/** A heading that is empty belongs to a column of buttons. */
export const PlainTable = ({
  heads,
  tight = false,
  children,
}: {
  heads: string[];
  tight?: boolean;
  children: ComponentChildren;
}) => (
  <div class="wide" tabIndex={0}>
    <table class={`t t--plain ${tight ? "t--tight" : ""}`}>
      <thead>
        <tr>
          {heads.map((head, i) => (
            <th key={i}>{head || <span class="vh">Actions</span>}</th>
          ))}
        </tr>
      </thead>
      <tbody>{children}</tbody>
    </table>
  </div>
);

export const Missing = ({ what, fault }: { what: string; fault: Error | null }) =>
  fault && (
    <Note state="failed" title={what}>
      <p>
        <Text value={fault.message} />
      </p>
    </Note>
  );

/** The project of a page's title, as a link to its workspaces. */
export const ProjectCrumb = ({ name }: { name: string }) => (
  <>
    <a class="dim mono" href={paths.project(name)}>
      <Text value={name} />
    </a>
    <Icon name="right" />
  </>
);
