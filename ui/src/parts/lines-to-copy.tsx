// Lines for a file or a terminal that a person copies; the page writes and runs nothing.
import { copy } from "../state/actions";
import { Button, Text } from "./basic";

export const AllowLine = ({ line }: { line: string }) => (
  <LineToAdd file="holm.toml" table="egress" line={line.replace(/^\[egress\] /, "")} what="allow it" then="holm reload" />
);

/** A setting that the page does not write: the line, and where it belongs. */
export const LineToAdd = (of: { file: string; table: string; line: string; what: string; then?: string }) => (
  <>
    <p class="f__hint">
      To {of.what}, add this to <code>{of.file}</code> under <code>[{of.table}]</code>
      {of.then && (
        <>
          {" "}
          and type <code>{of.then}</code>
        </>
      )}
      :
    </p>
    <CopyLine line={of.line} />
  </>
);

export const CopyLine = ({ line }: { line: string }) => (
  <div class="cmdline">
    <code>
      <Text value={line} />
    </code>
    <Button small icon="copy" onClick={() => void copy(line)}>
      Copy
    </Button>
  </div>
);
