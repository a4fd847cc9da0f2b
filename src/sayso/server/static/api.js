/** HTTP client of the hub: one function per route, and the event stream with catch-up. */

import { read, write } from "./exact_json.js";
import { learn } from "./times.js";

const BASE = new URL("../", import.meta.url);
const PAUSES = [0.5, 1, 2, 4, 8, 15]; // seconds between attempts to connect
const SILENCE = 40_000; // ms; the hub says something every 15 s

/** The hub said no: `status` (0 if it was not reached), `message`, and what else it told. */
export class Problem extends Error {
  constructor(status, detail, facts = {}) {
    super(detail);
    this.status = status;
    this.facts = facts;
  }
}

function address(path, query = {}) {
  const url = new URL(path, BASE);
  for (const [name, value] of Object.entries(query)) {
    if (value !== null && value !== undefined && value !== "") url.searchParams.set(name, value);
  }
  return url;
}

async function send(method, path, { query, body } = {}) {
  const settings = { method, credentials: "same-origin", headers: { Accept: "application/json" } };
  if (body !== undefined) {
    settings.headers["Content-Type"] = "application/json";
    settings.body = write(body);
  }
  let answer, text;
  try {
    answer = await fetch(address(path, query), settings);
    text = await answer.text();
  } catch {
    const changes = method !== "GET" ? " Nothing was changed as far as this page knows." : "";
    throw new Problem(0, `The hub cannot be reached.${changes}`);
  }
  learn(answer.headers.get("date"));
  if (answer.ok) return text ? read(text) : null;
  throw problemOf(answer.status, text);
}

function problemOf(status, text) {
  try {
    const facts = read(text);
    if (typeof facts.detail === "string") return new Problem(status, facts.detail, facts);
  } catch {
    // no problem details: something between us and the hub has answered
  }
  return new Problem(status, `The hub answered with the status ${status}.`);
}

const at = (id) => `approvals/${encodeURIComponent(id)}`;

export const me = () => send("GET", "me");
export const signIn = (code) => send("POST", "sign-in", { body: { code } });
export const accounts = () => send("GET", "sign-in/accounts");
export const signOut = () => send("POST", "sign-out", { body: {} });
export const requests = (query) => send("GET", "approvals", { query });
export const request = (id) => send("GET", at(id));
export const answer = (id, decision) => send("POST", at(id), { body: decision });
export const seen = (id) => send("POST", `${at(id)}/seen`, { body: {} });
export const remembered = () => send("GET", "remembered");
export const revoke = (id) => send("DELETE", `remembered/${encodeURIComponent(id)}`);
export const auditState = () => send("GET", "audit/state");
export const stats = (hours) => send("GET", "stats", { query: { hours } });

/** Where the page is, and where one signs in. */
export const home = (fragment = "") => new URL(fragment, BASE).href;

/** The changes of all requests, from a point on: it connects again by itself and misses nothing. */
export class Feed {
  constructor(point, { onRequest, onState }) {
    this.point = point;
    this.onRequest = onRequest;
    this.onState = onState;
    this.failures = 0;
    this.wake = () => {};
    addEventListener("online", () => this.wake());
    document.addEventListener("visibilitychange", () => this.wake());
  }

  /** Listen until somebody has to sign in again. */
  async run() {
    for (;;) {
      try {
        await this.listen();
      } catch (problem) {
        if (problem instanceof Problem && problem.status === 401) {
          this.onState("signed out");
          return;
        }
      }
      this.onState("lost");
      await this.pause(PAUSES[Math.min(this.failures, PAUSES.length - 1)]);
      this.failures += 1;
    }
  }

  pause(seconds) {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, seconds * 1000);
      this.wake = () => (clearTimeout(timer), resolve());
    });
  }

  async listen() {
    const stop = new AbortController();
    let silence;
    const heard = () => {
      clearTimeout(silence);
      silence = setTimeout(() => stop.abort(), SILENCE);
    };
    heard();
    try {
      const url = address("events", { after: String(this.point) });
      const stream = await fetch(url, {
        credentials: "same-origin",
        headers: { Accept: "text/event-stream" },
        signal: stop.signal,
      });
      if (!stream.ok) throw problemOf(stream.status, await stream.text());
      learn(stream.headers.get("date"));
      this.failures = 0;
      this.onState("live");
      for await (const event of eventsOf(stream.body, heard)) this.take(event);
    } finally {
      clearTimeout(silence);
      stop.abort();
    }
  }

  take({ event, data, id }) {
    if (event === "request") this.onRequest(read(data));
    if (id) this.point = id;
  }
}

/** The events of a stream; `heard` is called whenever anything comes, also for a mere sign of life. */
async function* eventsOf(body, heard) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  let event = { event: "message", data: "", id: "" };
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    heard();
    const lines = (rest + value).split(/\r\n|\n|\r(?!$)/);
    rest = lines.pop();
    for (const line of lines) {
      const [, name, content] = /^([^:]*):? ?(.*)$/s.exec(line);
      if (line === "") {
        if (event.data) yield event;
        event = { event: "message", data: "", id: "" };
      } else if (name === "data") event.data += event.data ? `\n${content}` : content;
      else if (Object.hasOwn(event, name)) event[name] = content;
    }
  }
}
