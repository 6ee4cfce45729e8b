// What this browser remembers: theme, layout of differences, snoozed items, notifications. Nothing here is a secret.
import { effect, signal } from "@preact/signals";

export function kept<T>(name: string, start: T) {
  const key = `holm.${name}`;
  let first = start;
  try {
    first = JSON.parse(localStorage.getItem(key) ?? "null") ?? start;
  } catch {
    localStorage.removeItem(key);
  }
  const one = signal<T>(first);
  effect(() => {
    localStorage.setItem(key, JSON.stringify(one.value));
  });
  return one;
}

export type Theme = "system" | "light" | "dark";
export const theme = kept<Theme>("theme", "system");
export const diffLayout = kept<"split" | "unified">("diff", "split");
export const notify = kept<boolean>("notify", false);
/** When each snoozed item comes back, by its id. */
export const snoozed = kept<Record<string, number>>("snoozed", {});

effect(() => {
  if (theme.value === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme.value;
});
effect(() => {
  document.documentElement.dataset.diff = diffLayout.value;
});

export function toggleTheme(): void {
  const dark = theme.value === "dark" || (theme.value === "system" && matchMedia("(prefers-color-scheme: dark)").matches);
  theme.value = dark ? "light" : "dark";
}

/** The time of this minute; lists with ages depend on it. */
export const minute = signal(Date.now());
setInterval(() => {
  minute.value = Date.now();
}, 15_000);

const narrow = matchMedia("(max-width: 720px)");
export const phone = signal(narrow.matches);
narrow.addEventListener("change", () => {
  phone.value = narrow.matches;
});
const folded = matchMedia("(max-width: 1120px)");
export const oneColumn = signal(folded.matches);
folded.addEventListener("change", () => {
  oneColumn.value = folded.matches;
});

// Typed text outlives reloads and the daemon, until it was sent.
export const draft = {
  read: (name: string): string => sessionStorage.getItem(`holm.draft.${name}`) ?? "",
  write: (name: string, text: string): void => {
    if (text) sessionStorage.setItem(`holm.draft.${name}`, text);
    else sessionStorage.removeItem(`holm.draft.${name}`);
  },
};
