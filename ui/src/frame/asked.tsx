// The questions of state/actions.ts: one word for rename, fork and snapshot; what would be lost for remove and reset.
import { useState } from "preact/hooks";
import { Fault } from "../api/client";
import { plural } from "../lib/format";
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
          hint="The label only; id, ports and data stay."
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
            {one.files.length ? `Remove, ${plural(one.files.length, "file")} unsaved` : "Remove"}
          </Button>
        </>
      }
    >
      <p>
        <Text value={one.why} />
      </p>
      {one.files.length > 0 && (
        <ul class="lost" tabIndex={0} aria-label="Unsaved files">
          {one.files.slice(0, 200).map((path) => (
            <li key={path}>
              <Text value={path} />
            </li>
          ))}
        </ul>
      )}
      <p class="lost-say">It goes to the trash with these files, and can be restored until the trash is emptied.</p>
    </Dialog>
  );
}

function Resetting({ asked: one }: { asked: Extract<Asked, { kind: "reset" }> }) {
  const [why, setWhy] = useState(one.why ?? "");
  const [busy, setBusy] = useState(false);
  const what = one.volume ? `volume ${one.volume}` : one.at ? `to ${one.at}` : "to its beginning";
  const run = async () => {
    setBusy(true);
    try {
      await reset(one.workspace, { at: one.at, volume: one.volume, force: Boolean(why) });
    } catch (cause) {
      if (cause instanceof Fault && cause.status === 409 && !why) setWhy(cause.message);
      else {
        failed(`Cannot reset ${nameOf(one.workspace)}`, cause);
        close();
      }
    }
    setBusy(false);
  };
  return (
    <Dialog
      title={`Reset ${nameOf(one.workspace)} ${what}`}
      onClose={close}
      acts={
        <>
          <Button kind="quiet" cap="Esc" onClick={close}>
            Keep it
          </Button>
          <Button kind="danger" busy={busy} onClick={() => void run()}>
            {why ? "Reset, and lose them" : "Reset"}
          </Button>
        </>
      }
    >
      <p>
        {why ? (
          <Text value={why} />
        ) : one.volume ? (
          "The volume's data goes back to its seed; code stays. Services that use it restart."
        ) : /^@/.test(one.at ?? "") ? (
          "The files of that turn come back. The state before becomes a turn first."
        ) : (
          "Code and volumes go back."
        )}
      </p>
    </Dialog>
  );
}
