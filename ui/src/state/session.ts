// Who is signed in: the code of `holm ui` becomes a cookie and a token of this tab; later tabs get a token by the
// cookie alone.
import { signal } from "@preact/signals";

/** `expired`: the tab was signed in and is not any more; its page stays, with what was typed. */
export type Auth = "checking" | "in" | "out" | "expired";
export const auth = signal<Auth>("checking");
export const whyOut = signal("");

const KEPT = "holm.tab";
let token = sessionStorage.getItem(KEPT);
export const tabToken = () => token;

export async function signIn(): Promise<void> {
  const code = new URLSearchParams(location.hash.slice(1)).get("code");
  if (code) {
    history.replaceState(null, "", location.pathname + location.search);
    if (await exchange("/ui/login", { code })) return;
    auth.value = "out";
    return;
  }
  if (token && (await knows())) {
    auth.value = "in";
    return;
  }
  await again();
}

/** Tries the cookie; a tab that was signed in before keeps its page if that fails. */
export async function again(): Promise<boolean> {
  if (await exchange("/ui/tab", {})) return true;
  if (auth.value !== "expired") auth.value = "out";
  return false;
}

let renewing: Promise<boolean> | null = null;

/** A new token for this tab by the cookie; requests that fail together ask once. */
export function renew(): Promise<boolean> {
  renewing ??= exchange("/ui/tab", {}).finally(() => {
    renewing = null;
  });
  return renewing;
}

export function signedOut(why: string): void {
  keep(null);
  whyOut.value = why;
  if (auth.value === "in") auth.value = "expired";
}

export async function signOut(): Promise<void> {
  await fetch("/ui/logout", {
    method: "POST",
    headers: { "X-Holm-Tab": token ?? "", "Content-Type": "application/json" },
    body: "{}",
  });
  keep(null);
  auth.value = "out";
}

async function exchange(path: string, body: unknown): Promise<boolean> {
  try {
    const response = await fetch(path, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(body),
    });
    const answer = (await response.json()) as { token?: string; error?: { message: string } };
    if (response.ok && answer.token) {
      keep(answer.token);
      auth.value = "in";
      whyOut.value = "";
      return true;
    }
    whyOut.value = path === "/ui/login" ? (answer.error?.message ?? "") : "";
  } catch {
    whyOut.value = "The daemon does not answer. `holm daemon status` says whether it runs.";
  }
  return false;
}

async function knows(): Promise<boolean> {
  try {
    return (await fetch("/ui/state", { headers: { "X-Holm-Tab": token! } })).ok;
  } catch {
    return false;
  }
}

function keep(next: string | null): void {
  token = next;
  if (next) sessionStorage.setItem(KEPT, next);
  else sessionStorage.removeItem(KEPT);
}
