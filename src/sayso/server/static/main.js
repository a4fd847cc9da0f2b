/** Entry point of the page: checks the session, loads open requests, follows events, and routes by the address. */

import { offerAccounts } from "./accounts.js";
import { Desk } from "./inbox_view.js";
import { fill, find, h, button } from "./dom.js";
import { History } from "./history.js";
import * as hub from "./api.js";
import { Insight } from "./overview.js";
import * as keys from "./keys.js";
import { Remembered } from "./remembered.js";
import { Inbox } from "./state.js";
import { visible } from "./sanitize.js";

const TITLES = { inbox: "Inbox", history: "History", remembered: "Remembered", overview: "Overview" };
const LINES = {
  connecting: "Connecting…",
  live: "Live",
  lost: "Connection lost: what you see may be old. Trying again…",
};

let current = null;

async function start() {
  addEventListener("signed-out", showSignIn);
  find("#help").addEventListener("click", () => keys.help());
  let me;
  try {
    me = await hub.me();
  } catch (problem) {
    if (problem.status === 401 || problem.status === 403) return showSignIn();
    connection("lost");
    setTimeout(start, 2000);
    return;
  }
  showMe(me);
  const inbox = new Inbox();
  const views = {
    inbox: new Desk(find("#view-inbox"), inbox, me),
    history: new History(find("#view-history"), me),
    remembered: new Remembered(find("#view-remembered")),
    overview: new Insight(find("#view-overview")),
  };
  keys.listen((key) => pressed(key, views));
  addEventListener("hashchange", () => route(views, true));
  inbox.addEventListener("change", () => titled(inbox));
  setInterval(() => views.inbox.tick(), 1000);
  route(views, false);
  await views.inbox.load((point) => listen(point, inbox, views));
}

function listen(point, inbox, views) {
  const onState = (state) => {
    if (state === "signed out") return showSignIn();
    const isBack = state === "live" && find("#connection").dataset.state === "lost";
    connection(state);
    if (isBack) views[current]?.refresh?.();
  };
  new hub.Feed(point, { onRequest: (request) => inbox.take(request), onState }).run();
}

function connection(state) {
  const place = find("#connection");
  if (place.dataset.state === state) return;
  const before = place.dataset.state;
  place.dataset.state = state;
  place.textContent = LINES[state];
  find("#polite").textContent =
    state === "lost" ? LINES.lost : before === "lost" ? "Connected again; everything is up to date." : "";
}

function route(views, byHand) {
  if (find("#app").hidden) return;
  const [, name, id] = /^#\/([a-z]+)(?:\/([A-Za-z0-9_-]+))?$/.exec(location.hash) ?? [null, "inbox", null];
  const view = views[name] ? name : "inbox";
  if (current !== view) views[current]?.leave?.();
  for (const each of Object.keys(views)) {
    find(`#view-${each}`).hidden = each !== view;
    const link = find(`nav a[href="#/${each}"]`);
    if (each === view) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  find("#app").classList.toggle("has-detail", Boolean(id));
  views[view].show(id ?? null);
  const title = find("#title");
  title.textContent = TITLES[view];
  if (byHand && current !== view) title.focus();
  current = view;
  titled.view = TITLES[view];
  document.title = `${TITLES[view]} · sayso`;
}

function titled(inbox) {
  const count = inbox.waiting;
  document.title = `${count ? `(${count}) ` : ""}${titled.view ?? "Inbox"} · sayso`;
}

function pressed(key, views) {
  if (key === "?") return (keys.help(), true);
  if (current === "inbox") return views.inbox.pressed(key);
  if (current === "history" && key === "/") return (views.history.search.focus(), true);
  return false;
}

function showMe(me) {
  const roles = me.roles?.length ? ` · ${me.roles.map(visible).join(", ")}` : "";
  const project = me.project === "*" ? " · every project" : me.project ? ` · ${visible(me.project)}` : "";
  const leave = async () => {
    await hub.signOut().catch(() => null);
    location.reload();
  };
  fill(
    find("#me"),
    h("span", { class: "me-name", title: `You are ${visible(me.name)}${roles}${project}` }, visible(me.name)),
    h("span", { class: "me-more" }, roles + project),
    button("Sign out", leave, { class: "quiet-button" }),
  );
  find("#version").textContent = me.hub?.version ? `sayso ${visible(me.hub.version)}` : "";
}

function showSignIn() {
  find("#app").hidden = true;
  fill(find("#app")); // nobody who comes later sees what was here
  find("nav").hidden = true;
  fill(find("#me"));
  find("#connection").textContent = "";
  find("#signed-out").hidden = false;
  find("#signed-out h1").focus();
  offerAccounts();
}

start();
