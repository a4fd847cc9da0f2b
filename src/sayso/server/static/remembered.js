/** View of the remembered decisions, with revocation. */

import { say } from "./announce.js";
import { confirm } from "./dialogs.js";
import { button, fill, h, shown } from "./dom.js";
import * as hub from "./api.js";
import { moment } from "./times.js";
import { visible } from "./sanitize.js";

export class Remembered {
  constructor(place) {
    this.rows = h("ul", { class: "cards" });
    this.message = h("p", { class: "quiet", role: "status" }, "Loading…");
    this.heading = h("h2", { tabindex: "-1" }, "Remembered answers");
    fill(
      place,
      h(
        "div",
        { class: "pane page-pane" },
        this.heading,
        h("p", { class: "quiet" }, "Calls that one of these covers run, or are refused, without a question."),
        this.message,
        this.rows,
      ),
    );
  }

  async show() {
    try {
      const { items } = await hub.remembered();
      fill(
        this.rows,
        items.map((each) => this.#card(each)),
      );
      this.message.textContent = items.length
        ? ""
        : "Nothing is remembered: every call that needs an answer is asked about.";
    } catch (problem) {
      this.message.textContent = visible(problem.message);
    }
  }

  /** Show them anew, after the connection was lost. */
  refresh() {
    return this.show();
  }

  #card(each) {
    const { decision } = each;
    const ends = [
      each.session ? "in one session" : "in every session",
      each.uses_left !== null && `${each.uses_left} more ${Number(each.uses_left) === 1 ? "call" : "calls"}`,
      each.expires_at ? `until ${moment(each.expires_at)}` : "no end",
    ].filter(Boolean);
    return h(
      "li",
      { class: "card", data: { id: each.id } },
      h(
        "div",
        {},
        h(
          "p",
          {},
          h(
            "span",
            { class: `mark outcome ${decision.approved ? "allowed" : "denied"}` },
            decision.approved ? "allowed" : "denied",
          ),
          " ",
          h("strong", { class: "tool" }, shown(each.tool)),
        ),
        h("p", {}, shown(each.scope.label)),
        h(
          "p",
          { class: "quiet" },
          ends.join(" · "),
          decision.who ? ` · by ${visible(decision.who)}` : "",
          ` · ${moment(each.remembered_at)}`,
        ),
      ),
      button("Revoke…", () => this.#revoke(each), {
        class: "no-button",
        "aria-label": `Revoke the answer for ${visible(each.tool)}`,
      }),
    );
  }

  async #revoke(each) {
    const sentences = [
      h("code", {}, shown(`${each.tool}: ${each.scope.label}`)),
      "The next such call will be asked about again.",
    ];
    if (!(await confirm("Revoke this answer?", sentences, "Revoke it"))) return;
    try {
      await hub.revoke(each.id);
      say("Revoked. The next such call will be asked about.");
    } catch (problem) {
      say(visible(problem.message), "bad");
    }
    await this.show();
    this.heading.focus();
  }
}
