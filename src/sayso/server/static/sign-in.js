/** Sign-in page: opening the link does not consume it, the button does; a browser that is signed in needs neither. */

import { showAccountButton, refusalSentence } from "./accounts.js";
import { fill, find, h } from "./dom.js";
import { getLink, getMe, pageUrl, signIn } from "./api.js";
import { visible } from "./sanitize.js";

const query = new URLSearchParams(location.search);
const given = query.get("code") ?? new URLSearchParams(location.hash.slice(1)).get("code");
const opens = query.get("opens");
const GONE = 410;

async function start() {
  history.replaceState(null, "", location.pathname); // the code must not stay in the browser's history
  find("#problem").textContent = refusalSentence(query) ?? "";
  find("#sign-in").addEventListener("submit", submit);
  if (given) await showLink();
  else showCodeField(h("p", {}, "If you were sent a link, paste its code."));
}

/** Show whom the link signs in; a browser that is signed in as that person goes on at once, used up or not. */
async function showLink() {
  const [link, me] = await Promise.all([getLink(given).catch((problem) => problem), getMe().catch(() => null)]);
  if (me && (link instanceof Error || link.name === me.name)) return goOn(link.opens || opens);
  if (link instanceof Error) return showProblem(link);
  const name = h("strong", {}, visible(link.name));
  fill(find("#told"), h("p", {}, "This link signs this browser in as ", name, ", once."), me && renderOther(me, link));
  find("#sign-in button").textContent = `Sign in as ${visible(link.name)}`;
  find("#sign-in").hidden = false;
}

function renderOther(me, link) {
  const stay = h("a", { href: addressOf(link.opens || opens) }, `Stay signed in as ${visible(me.name)}`);
  return h("p", {}, `This browser is signed in as ${visible(me.name)}. `, stay);
}

async function submit(event) {
  event.preventDefault();
  const button = find("#sign-in button");
  button.disabled = true;
  try {
    goOn((await signIn(given || find("#code").value.trim())).opens);
  } catch (problem) {
    button.disabled = false;
    showProblem(problem);
  }
}

function addressOf(request) {
  return pageUrl(request ? `#/inbox/${encodeURIComponent(request)}` : "");
}

function goOn(request) {
  location.replace(addressOf(request));
}

/** Show the ways on if the link is of no use; the code in it is not asked for again. */
function showProblem(problem) {
  find("#problem").textContent = visible(problem.message);
  showAccountButton();
  if (problem.status !== GONE || !given) {
    find("#sign-in").hidden = false;
    return;
  }
  find("h1").textContent = "This link does not work any more";
  find("#problem").textContent = "";
  find("#sign-in").hidden = true;
  fill(
    find("#told"),
    h("p", {}, "It was used already, or its time is up. A link signs in one browser, once."),
    h(
      "p",
      {},
      "In the browser where you used it, open it again: as long as you are signed in there, it leads to its request.",
    ),
    h(
      "p",
      {},
      "Otherwise ask the person who runs this hub to send you a new link; ",
      h("code", {}, "sayso token link"),
      " makes one.",
    ),
  );
}

function showCodeField(...sentences) {
  fill(find("#told"), sentences);
  find("#code-field").hidden = false;
  find("#sign-in").hidden = false;
  showAccountButton();
}

start();
