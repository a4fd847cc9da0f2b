/** Sign-in page: opening the link does not consume it, the button does. */

import { offerAccounts, refusal } from "./accounts.js";
import { find } from "./dom.js";
import { home, signIn } from "./api.js";
import { visible } from "./sanitize.js";

const query = new URLSearchParams(location.search);
const given = query.get("code") ?? new URLSearchParams(location.hash.slice(1)).get("code");

history.replaceState(null, "", location.pathname); // a code must not stay in the address
find("#problem").textContent = refusal(query) ?? "";
if (!given) {
  askForCode("If you were sent a link, paste its code.");
  offerAccounts();
}

find("#sign-in").addEventListener("submit", async (event) => {
  event.preventDefault();
  const button = find("#sign-in button");
  button.disabled = true;
  try {
    const { opens } = await signIn(given || find("#code").value.trim());
    location.assign(home(opens ? `#/inbox/${encodeURIComponent(opens)}` : ""));
  } catch (problem) {
    find("#problem").textContent = visible(problem.message);
    button.disabled = false;
    offerAccounts(); // a link that has had its time need not be the end
  }
});

function askForCode(sentence) {
  find("#told").textContent = sentence;
  find("#code-field").hidden = false;
}
