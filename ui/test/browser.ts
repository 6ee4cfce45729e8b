// The few globals of a browser that modules read when they are loaded.
const storage = () => {
  const held = new Map<string, string>();
  return {
    getItem: (name: string) => held.get(name) ?? null,
    setItem: (name: string, value: string) => {
      held.set(name, value);
    },
    removeItem: (name: string) => {
      held.delete(name);
    },
  };
};
const query = { matches: false, addEventListener: () => undefined };
Object.assign(globalThis, {
  localStorage: storage(),
  sessionStorage: storage(),
  location: new URL("http://holm.localhost:7070/inbox"),
  matchMedia: () => query,
  addEventListener: () => undefined,
  document: { documentElement: { dataset: {} }, visibilityState: "hidden", getElementById: () => null },
  setInterval: () => 0,
  history: { pushState: () => undefined, replaceState: () => undefined },
});
export {};
