/** View of the remembered decisions, with revocation. */

import { showNotice } from "./announce.js";
import { askToConfirm } from "./dialogs.js";
import { button, fill, h, visibleNodes } from "./dom.js";
import * as hub from "./api.js";
import { matchesRemembered, parseFilter } from "./filters.js";
import { formatMoment } from "./times.js";
import { visible } from "./sanitize.js";

export class RememberedView {
  constructor(place) {
    this.rows = h("ul", { class: "cards" });
    this.message = h("p", { class: "quiet", role: "status" }, "Loading…");
    this.heading = h("h2", { tabindex: "-1" }, "Remembered answers");
    this.search = h("input", {
      type: "search",
      id: "remembered-search",
      autocomplete: "off",
      placeholder: "words, tool:name",
      on: { input: () => this.#draw() },
    });
    this.items = null;
    fill(
      place,
      h(
        "div",
        { class: "pane page-pane" },
        this.heading,
        h("p", { class: "quiet" }, "Calls that one of these covers run, or are refused, without a question."),
        h("div", { class: "filters" }, h("label", { for: "remembered-search" }, "Search"), this.search),
        this.message,
        this.rows,
      ),
    );
  }

  async show() {
    try {
      this.items = (await hub.listRemembered()).items;
      this.#draw();
    } catch (problem) {
      this.message.textContent = visible(problem.message);
    }
  }

  #draw() {
    if (!this.items) return; // not loaded yet
    const wanted = parseFilter(this.search.value);
    const found = this.items.filter((each) => matchesRemembered(wanted, each));
    fill(
      this.rows,
      found.map((each) => this.#renderCard(each)),
    );
    const isWhole = found.length === this.items.length;
    this.message.textContent = isWhole ? "" : `${found.length} of ${this.items.length} match.`;
    if (!this.items.length)
      this.message.textContent = "Nothing is remembered: every call that needs an answer is asked about.";
  }

  /** Reload after a lost connection. */
  refresh() {
    return this.show();
  }

  #renderCard(each) {
    const { decision } = each;
    const ends = [
      each.session ? "in one session" : "in every session",
      each.uses_left !== null && `${each.uses_left} more ${Number(each.uses_left) === 1 ? "call" : "calls"}`,
      each.expires_at ? `until ${formatMoment(each.expires_at)}` : "no end",
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
          h("strong", { class: "tool" }, visibleNodes(each.tool)),
        ),
        h("p", {}, visibleNodes(each.scope.label)),
        h(
          "p",
          { class: "quiet" },
          ends.join(" · "),
          decision.who ? ` · by ${visible(decision.who)}` : "",
          ` · ${formatMoment(each.remembered_at)}`,
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
      h("code", {}, visibleNodes(`${each.tool}: ${each.scope.label}`)),
      "The next such call will be asked about again.",
    ];
    if (!(await askToConfirm("Revoke this answer?", sentences, "Revoke it"))) return;
    try {
      await hub.revoke(each.id);
      showNotice("Revoked. The next such call will be asked about.");
    } catch (problem) {
      showNotice(visible(problem.message), "bad");
    }
    await this.show();
    this.heading.focus();
  }
}
