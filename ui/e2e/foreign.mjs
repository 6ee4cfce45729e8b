// Pages that are not the dashboard: a page of a preview and a page of another origin try the API, the page's frame, its window and
// its cookies; a cookie that an attacker planted signs nothing in (attacks 94–96, 104, 110).
import http from "node:http";
import { api, BASE, expect, holm, nextCode, open, until, workspace } from "./browser.mjs";

const { page, context, close } = await open();
const { id } = await workspace(page, "e2e-foreign");
const cookieName = (await context.cookies(BASE)).find((one) => one.name.startsWith("__Host-holm")).name;

/** What a hostile page does with the address of the dashboard; every answer that it gets is a leak. */
async function attack({ base, id, cookieName }) {
  const leaks = [];
  const tries = [
    [`${base}/api/v1/workspaces`, {}],
    [`${base}/api/v1/workspaces`, { headers: { "X-Holm-Tab": "x" } }],
    [`${base}/api/v1/workspaces/${id}/stop`, { method: "POST", body: "{}", headers: { "Content-Type": "application/json" } }],
    [`${base}/api/v1/workspaces/${id}/stop`, { method: "POST", body: "{}", headers: { "Content-Type": "text/plain" } }],
    [`${base}/ui/tab`, { method: "POST" }],
    [`${base}/ui/ticket`, { method: "POST" }],
    [`${base}/`, {}],
  ];
  for (const [url, options] of tries) {
    try {
      const answer = await fetch(url, { credentials: "include", ...options });
      leaks.push(`${options.method ?? "GET"} ${url}: ${answer.status} ${(await answer.text()).slice(0, 80)}`);
    } catch {
      // The browser hides the answer, and a preflight kept the request back.
    }
    await fetch(url, { credentials: "include", mode: "no-cors", ...options, headers: {} }).catch(() => undefined);
  }
  for (const path of ["/api/v1/events?after=0", `/api/v1/workspaces/${id}/exec`]) {
    for (const offered of [[], ["holm"], ["holm", "ticket.x"]]) {
      const opened = await new Promise((resolve) => {
        const stream = new WebSocket(base.replace("http", "ws") + path, offered);
        stream.onopen = () => resolve(true);
        stream.onerror = () => resolve(false);
      });
      if (opened) leaks.push(`WebSocket ${path} ${offered}`);
    }
  }
  const frame = document.createElement("iframe");
  frame.src = base;
  const framed = new Promise((resolve) => {
    frame.onload = resolve;
  });
  document.body.append(frame);
  await framed;
  try {
    if (frame.contentDocument?.querySelector(".app, .gate")) leaks.push("a frame");
  } catch {
    // Another origin.
  }
  for (const domain of ["", "; Domain=localhost", "; Domain=holm.localhost"])
    document.cookie = `${cookieName}=planted${domain}; Path=/; Max-Age=600`;
  for (let i = 0; i < 40; i += 1) document.cookie = `filler${i}=${"x".repeat(3000)}; Domain=localhost; Path=/`;
  return leaks;
}

const elsewhere = http.createServer((_, response) => {
  response.writeHead(200, { "Content-Type": "text/html" });
  response.end("<!doctype html><title>elsewhere</title><body>");
});
await new Promise((resolve) => elsewhere.listen(0, "127.0.0.1", resolve));
const preview = (await api(page, `/workspaces/${id}/ports`)).ports.find((port) => port.url).url;
for (const address of [preview, `http://127.0.0.1:${elsewhere.address().port}/`, `http://evil.localhost:${elsewhere.address().port}/`]) {
  const stranger = await context.newPage();
  await stranger.goto(address);
  const leaks = await stranger.evaluate(attack, { base: BASE, id, cookieName });
  expect(leaks.length === 0, `nothing for ${address}: ${leaks.join("; ")}`);
  expect(
    (await stranger.evaluate((base) => open(base)?.document?.title ?? "closed", BASE).catch(() => "hidden")) !== "Inbox · holm",
    "no window that can be looked into",
  );
  await stranger.close();
}
expect(JSON.parse(holm("show", "e2e-foreign", "--json")).state === "running", "no request of a stranger was carried out");
// The sign-in outlives what strangers did to the cookies.
await page.reload();
await page.waitForSelector(".app");
await api(page, "/workspaces");

// Session fixation: a cookie that was planted before the sign-in is replaced by a new one that its planter does not know.
const victim = await open({ code: "" });
const planted = (await context.cookies(BASE)).find((one) => one.name === cookieName);
await victim.context.addCookies([{ ...planted, value: `${planted.value.slice(0, -4)}0000` }]);
await victim.page.goto(`${BASE}/#code=${nextCode()}`);
await victim.page.reload();
await victim.page.waitForSelector(".app");
const own = (await victim.context.cookies(BASE)).find((one) => one.name === cookieName);
expect(own.value !== planted.value && !own.value.endsWith("0000"), "a cookie of its own");
// The headers that keep other sites out are on every answer of the page (attack 104).
for (const path of ["/", "/w/x", "/api/v1/workspaces", "/ui/state", "/nothing"]) {
  const headers = await victim.page.evaluate(async (path) => {
    const answer = await fetch(path);
    return Object.fromEntries(answer.headers);
  }, path);
  expect(headers["x-content-type-options"] === "nosniff", `nosniff on ${path}`);
}
await until(async () => !victim.page.url().includes("code"), "no code in the address");
await victim.close();
elsewhere.close();
await close();
console.log("foreign: done");
