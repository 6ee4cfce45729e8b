// The page begins here: sign in, then one stream of events, then draw.
import { render } from "preact";
import { effect } from "@preact/signals";
import { App } from "./frame/app";
import { connect } from "./state/events";
import { notifyOfItems } from "./state/notify";
import { listenToKeys } from "./state/keys";
import { followLinks } from "./state/route";
import { auth, signIn } from "./state/session";

followLinks();
listenToKeys();
notifyOfItems();
render(<App />, document.getElementById("holm")!);
effect(() => {
  if (auth.value === "in") void connect();
});
void signIn();
