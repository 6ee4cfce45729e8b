// The smallest parts: icons, states, text from elsewhere, numbers of a change, key caps, buttons.
import type { ButtonHTMLAttributes, ComponentChildren } from "preact";
import { minus, plus, age, full } from "../lib/format";
import { pieces } from "../lib/odd";
import { styled } from "../lib/sgr";
import { minute } from "../state/look";

export type State = "running" | "starting" | "ready" | "needs" | "failed" | "stopped" | "degraded";

export const Icon = ({ name, className = "" }: { name: string; className?: string }) => (
  <svg class={`i ${className}`} aria-hidden="true">
    <use href={`#i-${name}`} />
  </svg>
);

const SAYS: Record<State, string> = {
  running: "working",
  starting: "starting",
  ready: "ready",
  needs: "needs you",
  failed: "failed",
  stopped: "stopped",
  degraded: "degraded",
};
export const Glyph = ({ state, says = SAYS[state] }: { state: State; says?: string }) => (
  <svg class={`st st--${state}`} role="img" aria-label={says}>
    <use href={`#s-${state}`} />
  </svg>
);

/** Text that holm did not write: what would act is drawn as a boxed name. */
export const Text = ({ value }: { value: string }) => (
  <>
    {pieces(value).map((piece, i) =>
      "odd" in piece ? (
        <span key={i} class="odd" title={piece.title}>
          {piece.odd}
        </span>
      ) : (
        piece.text
      ),
    )}
  </>
);

/** A line of output with its colours. */
export const Coloured = ({ value }: { value: string }) => (
  <>
    {styled(value).map((part, i) =>
      part.classes ? (
        <span key={i} class={part.classes}>
          <Text value={part.text} />
        </span>
      ) : (
        <Text key={i} value={part.text} />
      ),
    )}
  </>
);

export const Pm = ({ added, removed }: { added: number | null; removed: number | null }) => (
  <span class="pm">
    {added ? <span class="plus">{plus(added)}</span> : null}
    {removed ? <span class="minus">{minus(removed)}</span> : null}
  </span>
);

export const Kbd = ({ keys }: { keys: string }) => (
  <>
    {keys.split(" ").map((one, i) => (
      <kbd key={i}>{one}</kbd>
    ))}
  </>
);
/** A stroke with a modifier in one cap, as on buttons. */
export const Cap = ({ keys }: { keys: string }) => <kbd>{keys}</kbd>;

export const Age = ({ time, className }: { time: string; className?: string }) => (
  <time class={className} dateTime={time} title={full(time)}>
    {age(time, minute.value)}
  </time>
);

/** `now`, or `3 min ago`. */
export const Ago = ({ time }: { time: string }) => (
  <>
    <Age time={time} />
    {age(time, minute.value) !== "now" && " ago"}
  </>
);

interface ButtonProps extends Omit<ButtonHTMLAttributes<HTMLButtonElement>, "icon"> {
  kind?: "primary" | "quiet" | "danger";
  small?: boolean;
  icon?: string;
  cap?: string;
  busy?: boolean;
  disabled?: boolean;
  children?: ComponentChildren;
}
export function Button({ kind, small, icon, cap, busy, disabled, children, class: extra, ...rest }: ButtonProps) {
  const name = ["btn", kind && `btn--${kind}`, small && "btn--small", extra].filter(Boolean).join(" ");
  return (
    <button type="button" {...rest} class={name} disabled={disabled || busy} aria-busy={busy || undefined}>
      {busy ? <Glyph state="running" says="in progress" /> : icon ? <Icon name={icon} /> : null}
      {children}
      {cap && <Cap keys={cap} />}
    </button>
  );
}

export function IconButton({
  icon,
  says,
  small,
  ...rest
}: { icon: string; says: string; small?: boolean } & Omit<ButtonHTMLAttributes<HTMLButtonElement>, "icon">) {
  return (
    <button type="button" title={says} {...rest} class={`btn btn--icon ${small ? "btn--small" : ""}`}>
      <Icon name={icon} />
      <span class="vh">{says}</span>
    </button>
  );
}

export function Seg<T extends string>({
  says,
  value,
  options,
  onPick,
  className = "",
}: {
  says: string;
  value: T;
  options: { value: T; label: ComponentChildren; hide?: string }[];
  onPick: (value: T) => void;
  className?: string;
}) {
  return (
    <div class={`seg ${className}`} role="group" aria-label={says}>
      {options.map((one) => (
        <button
          key={one.value}
          type="button"
          class={one.hide}
          aria-pressed={one.value === value}
          onClick={() => onPick(one.value)}
        >
          {one.label}
        </button>
      ))}
    </div>
  );
}

export const Meter = ({
  part,
  whole,
  width = 96,
  hot = false,
}: {
  part: number;
  whole: number;
  width?: number;
  hot?: boolean;
}) => (
  <svg
    class={`meter ${hot ? "meter--needs" : ""}`}
    viewBox={`0 0 ${width} 4`}
    width={width}
    height="4"
    preserveAspectRatio="none"
    aria-hidden="true"
  >
    <rect class="meter__well" width={width} height="4" rx="2" />
    <rect class="meter__bar" width={whole ? Math.min(1, part / whole) * width : 0} height="4" rx="2" />
  </svg>
);

/** A line that answers "is it alive"; `top` is the value that touches the upper edge. */
export function Spark({
  values,
  top,
  width = 56,
  hot = false,
}: {
  values: number[];
  top: number;
  width?: number;
  hot?: boolean;
}) {
  const last = values.slice(-22);
  const step = last.length > 1 ? width / (last.length - 1) : 0;
  const points =
    last.length > 1
      ? last
          .map((value, i) => `${(i * step).toFixed(1)},${(14.7 - Math.min(1, top ? value / top : 0) * 13.4).toFixed(1)}`)
          .join(" ")
      : `0,14.7 ${width},14.7`;
  const kind = hot ? "spark--hot" : last.length > 1 ? "" : "spark--flat";
  return (
    <svg class={`spark ${kind}`} viewBox={`0 0 ${width} 16`} width={width} height="16" aria-hidden="true">
      <polyline points={points} />
    </svg>
  );
}

export function Note({
  state,
  title,
  children,
  acts,
}: {
  state: "failed" | "needs" | "degraded";
  title: ComponentChildren;
  children?: ComponentChildren;
  acts?: ComponentChildren;
}) {
  return (
    <div class={`note note--${state}`} role={state === "failed" ? "alert" : undefined}>
      <Glyph state={state} />
      <div>
        <p>
          <b>{title}</b>
        </p>
        {children}
      </div>
      {acts && <div>{acts}</div>}
    </div>
  );
}

/** Backticks of hints become code. */
export const Words = ({ text }: { text: string }) => (
  <>
    {text.split("`").map((part, i) =>
      i % 2 ? (
        <code key={i}>
          <Text value={part} />
        </code>
      ) : (
        <Text key={i} value={part} />
      ),
    )}
  </>
);
