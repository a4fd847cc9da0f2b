/** Sign-in page: opening the link does not consume it, the button does. */

import { showAccountButton, refusalSentence } from "./accounts.js";
import { find } from "./dom.js";
import { pageUrl, signIn } from "./api.js";
import { visible } from "./sanitize.js";

const query = new URLSearchParams(location.search);
const given = query.get("code") ?? new URLSearchParams(location.hash.slice(1)).get("code");

history.replaceState(null, "", location.pathname); // the code must not stay in the browser's history
find("#problem").textContent = refusalSentence(query) ?? "";
if (!given) {
  showCodeField("If you were sent a link, paste its code.");
  showAccountButton();
}

find("#sign-in").addEventListener("submit", async (event) => {
  event.preventDefault();
  const button = find("#sign-in button");
  button.disabled = true;
  try {
    const { opens } = await signIn(given || find("#code").value.trim());
    location.assign(pageUrl(opens ? `#/inbox/${encodeURIComponent(opens)}` : ""));
  } catch (problem) {
    find("#problem").textContent = visible(problem.message);
    button.disabled = false;
    showAccountButton(); // the way out if the link has expired
  }
});

function showCodeField(sentence) {
  find("#told").textContent = sentence;
  find("#code-field").hidden = false;
}
