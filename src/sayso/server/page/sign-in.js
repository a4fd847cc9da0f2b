/** Signing in: the link only opens this page, the button uses it up. */

import { offerAccounts, refusal } from "./accounts.js";
import { find } from "./element.js";
import { home, signIn } from "./hub.js";
import { visible } from "./visible.js";

const query = new URLSearchParams(location.search);
const given = query.get("code") ?? new URLSearchParams(location.hash.slice(1)).get("code");

history.replaceState(null, "", location.pathname); // a code must not stay in the address
if (!given) askForCode("Paste the code from the link that you were sent.");
find("#problem").textContent = refusal(query) ?? "";
offerAccounts();

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
  }
});

function askForCode(sentence) {
  find("#told").textContent = sentence;
  find("#code-field").hidden = false;
}
