// Everything about the machine rather than one workspace: health, trash, trust, secrets, audit, tokens, and this browser.
import { useEffect } from "preact/hooks";
import { command, hints } from "../../state/keys";
import { SETTINGS, type SettingsPage as Tab } from "../../state/route";
import { Audit } from "./audit";
import { Health } from "./health";
import { Look } from "./look";
import { Secrets } from "./secrets";
import { Tokens } from "./tokens";
import { Trash } from "./trash";
import { Trust } from "./trust";

const NAMES: Record<Tab, string> = {
  health: "Health",
  trash: "Trash",
  trust: "Trust",
  secrets: "Secrets",
  audit: "Audit",
  tokens: "Tokens",
  look: "This browser",
};
const COMMANDS: Record<Tab, string> = {
  health: "holm doctor",
  trash: "holm ls --trash",
  trust: "holm trust",
  secrets: "holm secret ls",
  audit: "holm audit",
  tokens: "holm token ls",
  look: "holm ui",
};

export function SettingsPage({ tab }: { tab: Tab }) {
  useEffect(() => {
    command.value = COMMANDS[tab];
    hints.value = [];
    document.title = `${NAMES[tab]} · holm`;
  }, [tab]);
  return (
    <>
      <header class="bar">
        <h1 class="bar__title">Settings</h1>
      </header>
      <nav class="tabs tabs--page" aria-label="Settings">
        {SETTINGS.map((one) => (
          <a key={one} class="tab" href={`/settings/${one}`} aria-current={one === tab ? "page" : undefined}>
            {NAMES[one]}
          </a>
        ))}
      </nav>
      <div class="scroll" tabIndex={0} aria-label={NAMES[tab]}>
        <div class="set">
          {tab === "health" ? (
            <Health />
          ) : tab === "trash" ? (
            <Trash />
          ) : tab === "trust" ? (
            <Trust />
          ) : tab === "secrets" ? (
            <Secrets />
          ) : tab === "audit" ? (
            <Audit />
          ) : tab === "tokens" ? (
            <Tokens />
          ) : (
            <Look />
          )}
        </div>
      </div>
    </>
  );
}
