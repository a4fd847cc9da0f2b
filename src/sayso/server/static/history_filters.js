/** Filter fields of the history, and their form in the address, so that a link to a search can be shared. */

import { button, h } from "./dom.js";

const STATES = [
  ["all", "all"],
  ["open", "waiting"],
  ["approved", "allowed, not run yet"],
  ["used", "allowed and run"],
  ["denied", "denied"],
  ["expired", "expired"],
  ["withdrawn", "withdrawn"],
];
const MORE = [
  ["tool", "Tool", { placeholder: "name, or git_*" }],
  ["agent", "Agent", { placeholder: "name, or *coder*" }],
  ["who", "Answered by", { placeholder: "a person" }],
  ["from", "From", { type: "date" }],
  ["to", "To, that day too", { type: "date" }],
];
const TYPING_MS = 250; // pause after the last key

export class HistoryFilters {
  constructor(onChange) {
    this.onChange = onChange;
    this.fields = { q: this.#field("q", { type: "search", placeholder: "words" }), status: this.#stateField() };
    for (const [name, , how] of MORE) this.fields[name] = this.#field(name, how);
    this.count = h("summary", {});
    const rows = MORE.flatMap(([name, label]) => [h("label", { for: `history-${name}` }, label), this.fields[name]]);
    this.more = h("details", { class: "more-filters" }, this.count, h("div", { class: "filters two" }, rows));
    this.clearButton = button("Show everything", () => this.#clear(), { class: "link-button" });
    this.element = h(
      "div",
      { class: "history-filters", role: "search" },
      h(
        "div",
        { class: "filters two" },
        h("label", { for: "history-q" }, "Search"),
        this.fields.q,
        h("label", { for: "history-status" }, "State"),
        this.fields.status,
      ),
      this.more,
      this.clearButton,
    );
    this.#showCount();
  }

  get search() {
    return this.fields.q;
  }

  #field(name, how) {
    const onInput = how.type === "date" ? () => this.#changed() : () => this.#changedSoon();
    return h("input", { type: "text", id: `history-${name}`, autocomplete: "off", on: { input: onInput }, ...how });
  }

  #stateField() {
    return h(
      "select",
      { id: "history-status", on: { change: () => this.#changed() } },
      STATES.map(([value, text]) => h("option", { value }, text)),
    );
  }

  #changedSoon() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.#changed(), TYPING_MS);
  }

  #changed() {
    clearTimeout(this.timer);
    this.#showCount();
    this.onChange();
  }

  #clear() {
    this.read(new URLSearchParams());
    this.#changed();
    this.search.focus();
  }

  #showCount() {
    const count = MORE.filter(([name]) => this.fields[name].value).length;
    this.count.textContent = count ? `More filters (${count} set)` : "More filters";
    this.clearButton.hidden = !this.isSet;
  }

  /** Whether anything is filtered out. */
  get isSet() {
    return this.toString() !== "";
  }

  /** Set the fields as an address says; returns whether that changed anything. */
  read(params) {
    const before = this.toString();
    for (const [name, field] of Object.entries(this.fields)) {
      const value = params.get(name) ?? "";
      field.value = field.type !== "date" || /^\d{4}-\d\d-\d\d$/.test(value) ? value : "";
    }
    if (!this.fields.status.value) this.fields.status.value = "all"; // also for a state that does not exist
    if (MORE.some(([name]) => this.fields[name].value)) this.more.open = true;
    this.#showCount();
    return before !== this.toString();
  }

  /** Return the fields as the query of an address. */
  toString() {
    const given = Object.entries(this.fields).map(([name, field]) => [name, field.value.trim()]);
    const set = given.filter(([name, value]) => value && (name !== "status" || value !== "all"));
    return String(new URLSearchParams(set));
  }

  /** Return the fields as the query of `GET /approvals`. */
  asQuery() {
    const { q, status, tool, agent, who, from, to } = this.fields;
    const words = { q, tool, agent, who };
    return {
      ...Object.fromEntries(Object.entries(words).map(([name, field]) => [name, field.value.trim()])),
      status: status.value,
      since: startOfDay(from.value, 0),
      until: startOfDay(to.value, 1),
    };
  }
}

/** Return the start of a local day, or of the day `later` days after it, in seconds; null without a date. */
function startOfDay(date, later) {
  if (!date) return null;
  const [year, month, day] = date.split("-").map(Number);
  return new Date(year, month - 1, day + later).getTime() / 1000;
}
