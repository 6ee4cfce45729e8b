// The output of a run as lines, live until the run ends.
import { useEffect, useState } from "preact/hooks";
import { socket } from "../api/client";
import type { Run, RunEvent } from "../api/types";
import { generation } from "../state/events";
import { failed } from "../state/toast";

const KEEP = 400;

export function useRunOutput(run: Run): string[] {
  const [text, setText] = useState<string[]>([""]);
  useEffect(() => {
    let stream: WebSocket | undefined;
    let live = true;
    setText([""]);
    void socket(`/api/v1/workspaces/${run.workspace}/runs/${run.id}/output`, { after: 0 })
      .then((opened) => {
        if (!live) {
          opened.close();
          return;
        }
        stream = opened;
        stream.onmessage = (message: MessageEvent<string>) => {
          const event = JSON.parse(message.data) as RunEvent;
          if ("output" in event) setText((before) => joined(before, textOf(event.output.data)));
          if ("error" in event) setText((before) => [...before, event.error.message]);
        };
      })
      .catch((cause: unknown) => failed("Cannot read the output", cause));
    return () => {
      live = false;
      stream?.close();
    };
  }, [run.id, generation.value]);
  return text;
}

const textOf = (data: string | number[]): string =>
  typeof data === "string" ? data : new TextDecoder().decode(Uint8Array.from(data));

/** New text continues the last line; only the newest lines are kept. */
export function joined(before: string[], text: string): string[] {
  const [first, ...rest] = text.replaceAll("\r\n", "\n").split("\n");
  return [...before.slice(0, -1), before.at(-1)! + first!, ...rest].slice(-KEEP);
}
