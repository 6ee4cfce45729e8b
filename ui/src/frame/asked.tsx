// The questions of state/actions.ts: one word for rename, fork and snapshot; what would be lost for remove and reset.
import { useState } from "preact/hooks";
import { Fault } from "../api/client";
import { AskWord, Dialog } from "../parts/overlay";
import { Button, Text } from "../parts/basic";
import { asked, fork, remove, rename, reset, snapshot, type Asked } from "../state/actions";
import { nameOf } from "../state/store";
import { failed } from "../state/toast";

const close = () => {
  asked.value = null;
};

export function Questions() {
  const one = asked.value;
  if (!one) return null;
  switch (one.kind) {
    case "rename":
      return (
        <AskWord
          title={`Rename ${nameOf(one.workspace)}`}
          label="Label"
          start={one.workspace.label}
          verb="Rename"
          hint="Id, ports, data and the branch inside stay. Previews get a new address; cookies and stored data of the old address do not move."
          onClose={close}
          onGive={(word) => rename(one.workspace, word)}
        />
      );
    case "fork":
      return (
        <AskWord
          title={one.at ? `Fork ${one.at} of ${nameOf(one.workspace)}` : `Fork ${nameOf(one.workspace)}`}
          label="Label of the new workspace"
          start={`${one.workspace.label}-2`}
          verb="Fork"
          hint="Code and data of this instant, with ports of its own."
          onClose={close}
          onGive={(word) => fork(one.workspace, word, one.at)}
        />
      );
    case "snapshot":
      return (
        <AskWord
          title={`Snapshot of ${nameOf(one.workspace)}`}
          label="Name"
          start="before-change"
          verb="Take snapshot"
          hint="Code and volumes; reset and fork can go back to it."
          onClose={close}
          onGive={(word) => snapshot(one.workspace, word)}
        />
      );
    case "remove":
      return <Removal asked={one} />;
    case "reset":
      return <Resetting asked={one} />;
  }
}

function Removal({ asked: one }: { asked: Extract<Asked, { kind: "remove" }> }) {
  return (
    <Dialog
      title={`Remove ${nameOf(one.workspace)}`}
      onClose={close}
      acts={
        <>
          <Button kind="quiet" cap="Esc" onClick={close}>
            Keep it
          </Button>
          <Button kind="danger" onClick={() => void remove(one.workspace, true)}>
            Remove with unsaved work
          </Button>
        </>
      }
    >
      <Lost why={one.why} />
      <p class="lost-say">It goes to the trash with this work, and can be restored until the trash is emptied.</p>
    </Dialog>
  );
}

/** The daemon's list of unsaved work: a sentence, then one line for each kind. */
function Lost({ why }: { why: string }) {
  const [first, ...rest] = why.split("\n").filter((line) => line.trim());
  return (
    <>
      <p>
        <Text value={first ?? ""} />
      </p>
      {rest.length > 0 && (
        <ul class="lost" tabIndex={0} aria-label="Unsaved work">
          {rest.map((line) => (
            <li key={line}>
              <Text value={line.trim()} />
            </li>
          ))}
        </ul>
      )}
    </>
  );
}

function Resetting({ asked: one }: { asked: Extract<Asked, { kind: "reset" }> }) {
  const [why, setWhy] = useState("");
  const [busy, setBusy] = useState(false);
  const name = nameOf(one.workspace);
  const title = one.volume ? `Reset volume ${one.volume} of ${name}` : `Reset ${name} to ${one.at ?? "its beginning"}`;
  const run = async () => {
    setBusy(true);
    try {
      await reset(one.workspace, { at: one.at, volume: one.volume, force: Boolean(why) });
    } catch (cause) {
      if (cause instanceof Fault && cause.code === "unsaved_work" && !why) setWhy(cause.message);
      else {
        failed(`Cannot reset ${nameOf(one.workspace)}`, cause);
        close();
      }
    }
    setBusy(false);
  };
  return (
    <Dialog
      title={title}
      onClose={close}
      acts={
        <>
          <Button kind="quiet" cap="Esc" onClick={close}>
            Keep it
          </Button>
          <Button kind="danger" busy={busy} onClick={() => void run()}>
            {why ? "Reset; a snapshot keeps it" : "Reset"}
          </Button>
        </>
      }
    >
      {why ? (
        <Lost why={why} />
      ) : (
        <p>
          {one.volume
            ? "The volume's data goes back to its seed; code stays. Services that use it restart."
            : "Code and volumes go back to that state. Unsaved work is asked about first."}
        </p>
      )}
    </Dialog>
  );
}
