// The frame of every page: navigation, banner, page, key line, what floats.
import { useEffect, useState } from "preact/hooks";
import { seconds } from "../lib/format";
import { Button, Glyph } from "../parts/basic";
import { Toasts } from "../parts/overlay";
import { copy } from "../state/actions";
import { connect, connection } from "../state/events";
import { command, useKeys } from "../state/keys";
import { go, route } from "../state/route";
import { auth } from "../state/session";
import { undoLast } from "../state/toast";
import { ComparePage } from "../pages/compare";
import { DataPage } from "../pages/data";
import { InboxPage } from "../pages/inbox";
import { NewPage } from "../pages/new";
import { ReviewPage } from "../pages/review/page";
import { SettingsPage } from "../pages/settings/page";
import { WorkspacePage } from "../pages/workspace/page";
import { WorkspacesPage } from "../pages/workspaces";
import { Questions } from "./asked";
import { Help } from "./help";
import { Keyline } from "./keyline";
import { Palette } from "./palette";
import { Side, Thumbs } from "./side";
import { SignedOut, SignIn } from "./signin";

export function App() {
  if (auth.value === "checking") return null;
  if (auth.value === "out") return <SignIn />;
  return <Frame />;
}

function Frame() {
  const [floating, setFloating] = useState<"palette" | "help" | null>(null);
  useKeys({
    find: () => setFloating("palette"),
    help: () => setFloating("help"),
    "go.inbox": () => go("/inbox"),
    "go.workspaces": () => go("/workspaces"),
    "go.data": () => go("/data"),
    "go.settings": () => go("/settings/health"),
    new: () => go("/new"),
    copy: () => void copy(command.value),
    undo: () => void undoLast(),
    filter: focusFilter,
    close: () => (document.activeElement as HTMLElement | null)?.blur(),
  });
  const rail = route.value.page === "review";
  return (
    <>
      <div class={`app ${rail ? "app--rail" : ""}`}>
        <Side rail={rail} />
        <main class="main">
          <Banner />
          <Page />
        </main>
        <Keyline />
        <Thumbs />
      </div>
      {floating === "palette" && <Palette onClose={() => setFloating(null)} />}
      {floating === "help" && <Help onClose={() => setFloating(null)} />}
      <Questions />
      <Toasts />
      {auth.value === "expired" && <SignedOut />}
    </>
  );
}

function Page() {
  const at = route.value;
  switch (at.page) {
    case "inbox":
      return <InboxPage wanted={at.item} />;
    case "workspaces":
      return <WorkspacesPage project={at.project} />;
    case "new":
      return (
        <>
          <WorkspacesPage project={null} />
          <NewPage project={at.project} />
        </>
      );
    case "workspace":
      return <WorkspacePage key={at.id} id={at.id} />;
    case "review":
      return <ReviewPage key={at.id} id={at.id} since={at.since} file={at.file} />;
    case "compare":
      return <ComparePage ids={at.ids} />;
    case "data":
      return <DataPage />;
    case "settings":
      return <SettingsPage tab={at.tab} />;
    case "missing":
      return (
        <>
          <header class="bar">
            <h1 class="bar__title">No such page</h1>
          </header>
          <p class="empty">
            Nothing is at <code>{at.path}</code>.{" "}
            <a class="link" href="/inbox">
              Go to the inbox
            </a>
          </p>
        </>
      );
  }
}

/** How old what is shown is, while the daemon does not answer. */
function Banner() {
  const { state, asOf, nextAt } = connection.value;
  const [, tick] = useState(0);
  useEffect(() => {
    if (state !== "lost") return;
    const timer = setInterval(() => tick((n) => n + 1), 500);
    return () => clearInterval(timer);
  }, [state]);
  if (state !== "lost" || auth.value !== "in") return null;
  const wait = Math.max(0, Math.ceil((nextAt - Date.now()) / 1000));
  return (
    <div class="banner banner--needs" role="status">
      <Glyph state="starting" says="reconnecting" />
      <b>Connection lost.</b>
      <span>
        Shown as of {seconds(new Date(asOf).toISOString())}. Typed text is kept; next attempt in {wait} s.
      </span>
      <Button small onClick={() => void connect()}>
        Try now
      </Button>
    </div>
  );
}

function focusFilter(): void {
  document.querySelector<HTMLElement>("[data-filter]")?.focus();
}
