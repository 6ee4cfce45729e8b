// Not signed in: what to type. A tab that was signed in keeps its page behind a panel, with what was typed.
import { Glyph, Icon, Button, Words } from "../parts/basic";
import { Veil } from "../parts/overlay";
import { again, whyOut } from "../state/session";

const tryAgain = () => again();

const Why = () =>
  whyOut.value ? (
    <p class="gate__err" role="alert">
      <Glyph state="failed" />
      <span>
        <Words text={whyOut.value} />
      </span>
    </p>
  ) : null;

export const SignIn = () => (
  <main class="gate">
    <section class="gate__form">
      <p class="gate__brand">
        <Icon name="holm" className="i--brand" />
        holm
      </p>
      <h1>Sign in from your terminal</h1>
      <p class="dim">
        This browser is not signed in to the holm of this machine. Type this; it opens the page with a code that works once.
      </p>
      <div class="cmdline">
        <code>holm ui</code>
      </div>
      <Why />
      <div class="gate__ways">
        <Button class="btn--tall" onClick={() => void tryAgain()}>
          Try again
        </Button>
      </div>
      <p class="gate__foot faint">
        No account is needed. <code>holm ui --print</code> prints the address for another browser of this machine.
      </p>
    </section>
    <div class="gate__art">
      <Isle />
    </div>
  </main>
);

export const SignedOut = () => (
  <Veil onClose={() => undefined}>
    <section class="pal signed-out" role="dialog" aria-modal="true" aria-label="Signed out">
      <h1 class="ask-box__title">This tab is signed out</h1>
      <p class="dim">What you typed stays. Type this and come back, or try again if another tab is signed in.</p>
      <div class="cmdline">
        <code>holm ui</code>
      </div>
      <Why />
      <div class="ask-box__acts">
        <Button kind="primary" onClick={() => void tryAgain()}>
          Try again
        </Button>
      </div>
    </section>
  </Veil>
);

/** A holm, as a sea chart draws one: depth lines round a shore. */
function Isle() {
  const rings = Array.from({ length: 13 }, (_, i) => 60 + i * 42);
  return (
    <svg class="chart" viewBox="0 0 720 900" preserveAspectRatio="xMidYMid slice" aria-hidden="true">
      {rings.toReversed().map((size) => (
        <path key={size} class={`c ${size === 60 ? "c--shore" : ""}`} d={shore(size)} />
      ))}
    </svg>
  );
}

function shore(size: number): string {
  const points = Array.from({ length: 48 }, (_, i) => {
    const angle = (i / 48) * 2 * Math.PI;
    const bent =
      size * (1 + 0.16 * Math.sin(2 * angle + 0.7) + 0.09 * Math.sin(3 * angle + size / 160) + 0.04 * Math.sin(5 * angle - 1));
    return [380 + bent * 1.1 * Math.cos(angle), 430 + bent * Math.sin(angle)] as const;
  });
  const at = (i: number) => points[(i + points.length) % points.length]!;
  const middle = (i: number) => `${((at(i)[0] + at(i + 1)[0]) / 2).toFixed(1)} ${((at(i)[1] + at(i + 1)[1]) / 2).toFixed(1)}`;
  return `M${middle(-1)}${points.map((point, i) => `Q${point[0].toFixed(1)} ${point[1].toFixed(1)} ${middle(i)}`).join("")}Z`;
}
