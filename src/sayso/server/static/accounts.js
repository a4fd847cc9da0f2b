/** Button for OpenID Connect sign-in, if the hub has a provider. */

import { find } from "./dom.js";
import { getAccounts } from "./api.js";
import { visible } from "./sanitize.js";

const REFUSALS = {
  400: "That sign-in was not begun in this browser, was used already, or took too long. Begin again.",
  401: "You did not sign in there. Try again.",
  403: "That account may not sign in here: its mail address is not proven, or it is none that this hub takes.",
  429: "Too many sign-ins were begun from where you are. Wait a minute.",
  502: "The provider of that account did not confirm who you are. Try again; the hub's log says why.",
};

/** Return why the provider's sign-in failed, by the status in the address; null without one. */
export function refusalSentence(query) {
  const status = query.get("refused");
  return status === null ? null : (REFUSALS[status] ?? "You were not signed in. Try again.");
}

/** Show the button if the hub has a provider. */
export async function showAccountButton() {
  const { at } = await getAccounts().catch(() => ({ at: null }));
  if (at === null) return;
  find("#accounts a").textContent = `Sign in with your account at ${visible(at)}`;
  find("#accounts").hidden = false;
}
