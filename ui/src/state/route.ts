// The address is the page: every page and most of what it shows has a deep link.
import { signal } from "@preact/signals";

export type SettingsPage = "health" | "trash" | "trust" | "secrets" | "audit" | "tokens" | "look";
export type Route =
  | { page: "inbox"; item: string | null }
  | { page: "workspaces"; project: string | null }
  | { page: "workspace"; id: string }
  | { page: "review"; id: string; since: string | null; file: string | null }
  | { page: "compare"; ids: string[] }
  | { page: "data" }
  | { page: "new"; project: string | null }
  | { page: "settings"; tab: SettingsPage }
  | { page: "missing"; path: string };

export const SETTINGS: SettingsPage[] = ["health", "trash", "trust", "secrets", "audit", "tokens", "look"];

export function parse(path: string, search: string): Route {
  const query = new URLSearchParams(search);
  const parts = path.split("/").filter(Boolean).map(decode);
  const [first, second, third] = parts;
  if (!first || (first === "inbox" && parts.length <= 2)) return { page: "inbox", item: second ?? null };
  if (first === "workspaces" && parts.length === 1) return { page: "workspaces", project: query.get("project") };
  if (first === "w" && second && parts.length === 2) return { page: "workspace", id: second };
  if (first === "w" && second && third === "review" && parts.length === 3) {
    return { page: "review", id: second, since: query.get("since"), file: query.get("file") };
  }
  if (first === "compare" && parts.length === 1) return { page: "compare", ids: query.getAll("w") };
  if (first === "data" && parts.length === 1) return { page: "data" };
  if (first === "new" && parts.length === 1) return { page: "new", project: query.get("project") };
  if (first === "settings" && parts.length <= 2) {
    const tab = SETTINGS.find((one) => one === (second ?? "health"));
    if (tab) return { page: "settings", tab };
  }
  return { page: "missing", path };
}

export const route = signal<Route>(parse(location.pathname, location.search));

export function go(path: string, how: "push" | "replace" = "push"): void {
  if (how === "push") history.pushState(null, "", path);
  else history.replaceState(null, "", path);
  const [at, search] = path.split("?");
  route.value = parse(at!, search ?? "");
}

export const paths = {
  workspace: (id: string) => `/w/${id}`,
  review: (id: string) => `/w/${id}/review`,
  reviewOf: (id: string, file: string) => `/w/${id}/review?${new URLSearchParams({ since: "base", file })}`,
  compare: (ids: string[]) => `/compare?${new URLSearchParams(ids.map((id) => ["w", id]))}`,
  project: (name: string) => `/workspaces?${new URLSearchParams({ project: name })}`,
};

export function followLinks(): void {
  addEventListener("popstate", () => {
    route.value = parse(location.pathname, location.search);
  });
  addEventListener("click", (event) => {
    if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey) return;
    const link = (event.target as Element | null)?.closest?.("a[href]");
    const href = link?.getAttribute("href");
    if (!href?.startsWith("/") || link!.hasAttribute("target")) return;
    event.preventDefault();
    go(href);
  });
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
