/** Entry point of the page: checks the session, loads open requests, follows events, and routes by the address. */

import { showAccountButton } from "./accounts.js";
import { hideNotice } from "./announce.js";
import { InboxView } from "./inbox_view.js";
import { fill, find, h, button } from "./dom.js";
import { HistoryView } from "./history.js";
import * as hub from "./api.js";
import { StatisticsView } from "./overview.js";
import * as keys from "./keys.js";
import { RememberedView } from "./remembered.js";
import { OpenRequests } from "./state.js";
import { visible } from "./sanitize.js";

const TITLES = { inbox: "Inbox", history: "History", remembered: "Remembered", overview: "Overview" };
const CONNECTION_TEXTS = {
  connecting: "Connecting…",
  live: "Live",
  lost: "Connection lost: what you see may be old. Trying again…",
};

let current = null;

async function start() {
  addEventListener("signed-out", showSignIn);
  find("#help").addEventListener("click", () => keys.showHelp());
  let me;
  try {
    me = await hub.getMe();
  } catch (problem) {
    if (problem.status === 401 || problem.status === 403) return showSignIn();
    showConnection("lost");
    setTimeout(start, 2000);
    return;
  }
  showMe(me);
  const inbox = new OpenRequests();
  const views = {
    inbox: new InboxView(find("#view-inbox"), inbox, me),
    history: new HistoryView(find("#view-history"), me),
    remembered: new RememberedView(find("#view-remembered")),
    overview: new StatisticsView(find("#view-overview")),
  };
  keys.listenToKeys((key) => handleKey(key, views));
  addEventListener("hashchange", () => route(views, true));
  inbox.addEventListener("change", () => updateTitle(inbox));
  setInterval(() => views.inbox.tick(), 1000);
  route(views, false);
  await views.inbox.load((point) => followEvents(point, inbox, views));
}

function followEvents(point, inbox, views) {
  const onState = (state) => {
    if (state === "signed out") return showSignIn();
    const isReconnected = state === "live" && find("#connection").dataset.state === "lost";
    showConnection(state);
    if (isReconnected) views[current]?.refresh?.();
  };
  new hub.EventFeed(point, { onRequest: (request) => inbox.update(request), onState }).run();
}

function showConnection(state) {
  const place = find("#connection");
  if (place.dataset.state === state) return;
  const before = place.dataset.state;
  place.dataset.state = state;
  place.textContent = CONNECTION_TEXTS[state];
  find("#polite").textContent =
    state === "lost" ? CONNECTION_TEXTS.lost : before === "lost" ? "Connected again; everything is up to date." : "";
}

function route(views, isNavigation) {
  if (find("#app").hidden) return;
  const parts = /^#\/([a-z]+)(?:\/([A-Za-z0-9_-]+))?(?:\?(.*))?$/.exec(location.hash) ?? [];
  const [, name = "inbox", id = null, query = ""] = parts;
  const view = views[name] ? name : "inbox";
  if (isNavigation) hideNotice();
  if (current !== view) views[current]?.invalidate?.();
  for (const each of Object.keys(views)) {
    find(`#view-${each}`).hidden = each !== view;
    const link = find(`nav a[href="#/${each}"]`);
    if (each === view) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  find("#app").classList.toggle("has-detail", Boolean(id));
  views[view].show(id, new URLSearchParams(query));
  const title = find("#title");
  title.textContent = TITLES[view];
  if (isNavigation && current !== view) title.focus();
  current = view;
  updateTitle.view = TITLES[view];
  document.title = `${TITLES[view]} · sayso`;
}

function updateTitle(inbox) {
  const count = inbox.openCount;
  document.title = `${count ? `(${count}) ` : ""}${updateTitle.view ?? "Inbox"} · sayso`;
}

function handleKey(key, views) {
  if (key === "?") return (keys.showHelp(), true);
  if (current === "inbox") return views.inbox.handleKey(key);
  if (keys.isFilterKey(key) && views[current].search) return (views[current].search.focus(), true);
  return false;
}

function showMe(me) {
  const roles = me.roles?.length ? ` · ${me.roles.map(visible).join(", ")}` : "";
  const project = me.project === "*" ? " · every project" : me.project ? ` · ${visible(me.project)}` : "";
  const signOut = async () => {
    await hub.signOut().catch(() => null);
    location.reload();
  };
  fill(
    find("#me"),
    h("span", { class: "me-name", title: `You are ${visible(me.name)}${roles}${project}` }, visible(me.name)),
    h("span", { class: "me-more" }, roles + project),
    button("Sign out", signOut, { class: "quiet-button" }),
  );
  find("#version").textContent = me.hub?.version ? `sayso ${visible(me.hub.version)}` : "";
}

function showSignIn() {
  find("#app").hidden = true;
  fill(find("#app")); // the next user of this browser must not see it
  find("nav").hidden = true;
  fill(find("#me"));
  find("footer").hidden = true;
  find("#signed-out").hidden = false;
  find("#signed-out h1").focus();
  showAccountButton();
}

start();
