/** HTTP client of the hub: one function per route, and the event stream with catch-up. */

import { toSentence } from "./dom.js";
import { parseJson, writeJson } from "./exact_json.js";
import { setClock } from "./times.js";

const BASE = new URL("../", import.meta.url);
const RETRY_SECONDS = [0.5, 1, 2, 4, 8, 15]; // back-off between attempts to connect
const SILENCE_MS = 40_000; // the hub pings every 15 s

/** Error response of the hub: `status` (0 if it was not reached), a sentence, and the other fields of the body. */
export class Problem extends Error {
  constructor(status, detail, facts = {}) {
    super(toSentence(detail));
    this.status = status;
    this.facts = facts;
  }
}

function makeUrl(path, query = {}) {
  const url = new URL(path, BASE);
  for (const [name, value] of Object.entries(query)) {
    if (value !== null && value !== undefined && value !== "") url.searchParams.set(name, value);
  }
  return url;
}

async function sendRequest(method, path, { query, body } = {}) {
  const options = { method, credentials: "same-origin", headers: { Accept: "application/json" } };
  if (body !== undefined) {
    options.headers["Content-Type"] = "application/json";
    options.body = writeJson(body);
  }
  let response, text;
  try {
    response = await fetch(makeUrl(path, query), options);
    text = await response.text();
  } catch {
    const changes = method !== "GET" ? " Nothing was changed as far as this page knows." : "";
    throw new Problem(0, `The hub cannot be reached.${changes}`);
  }
  setClock(response.headers.get("date"));
  if (response.ok) return text ? parseJson(text) : null;
  throw parseProblem(response.status, text);
}

function parseProblem(status, text) {
  try {
    const facts = parseJson(text);
    if (typeof facts.detail === "string") return new Problem(status, facts.detail, facts);
  } catch {
    // no problem details: a proxy has answered
  }
  return new Problem(status, `The hub answered with the status ${status}.`);
}

const approvalPath = (id) => `approvals/${encodeURIComponent(id)}`;

export const getMe = () => sendRequest("GET", "me");
export const signIn = (code) => sendRequest("POST", "sign-in", { body: { code } });
export const getLink = (code) => sendRequest("POST", "sign-in/link", { body: { code } });
export const getAccounts = () => sendRequest("GET", "sign-in/accounts");
export const signOut = () => sendRequest("POST", "sign-out", { body: {} });
export const listRequests = (query) => sendRequest("GET", "approvals", { query });
export const getRequest = (id) => sendRequest("GET", approvalPath(id));
export const getCovered = (id, query) => sendRequest("GET", `${approvalPath(id)}/covered`, { query });
export const postAnswer = (id, decision) => sendRequest("POST", approvalPath(id), { body: decision });
export const markSeen = (id) => sendRequest("POST", `${approvalPath(id)}/seen`, { body: {} });
export const listRemembered = () => sendRequest("GET", "remembered");
export const revoke = (id) => sendRequest("DELETE", `remembered/${encodeURIComponent(id)}`);
export const getAuditState = () => sendRequest("GET", "audit/state");
export const getStats = (hours) => sendRequest("GET", "stats", { query: { hours } });

/** Return the address of the page. */
export const pageUrl = (fragment = "") => new URL(fragment, BASE).href;

/** Event stream of request changes from a point on; reconnects by itself and misses nothing. */
export class EventFeed {
  constructor(point, { onRequest, onState }) {
    this.point = point;
    this.onRequest = onRequest;
    this.onState = onState;
    this.failures = 0;
    this.retryNow = () => {};
    addEventListener("online", () => this.retryNow());
    document.addEventListener("visibilitychange", () => this.retryNow());
  }

  /** Follow the stream until the session ends. */
  async run() {
    for (;;) {
      try {
        await this.readStream();
      } catch (problem) {
        if (problem instanceof Problem && problem.status === 401) {
          this.onState("signed out");
          return;
        }
      }
      this.onState("lost");
      await this.waitToRetry(RETRY_SECONDS[Math.min(this.failures, RETRY_SECONDS.length - 1)]);
      this.failures += 1;
    }
  }

  waitToRetry(seconds) {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, seconds * 1000);
      this.retryNow = () => (clearTimeout(timer), resolve());
    });
  }

  async readStream() {
    const stop = new AbortController();
    let silence;
    const onData = () => {
      clearTimeout(silence);
      silence = setTimeout(() => stop.abort(), SILENCE_MS);
    };
    onData();
    try {
      const url = makeUrl("events", { after: String(this.point) });
      const stream = await fetch(url, {
        credentials: "same-origin",
        headers: { Accept: "text/event-stream" },
        signal: stop.signal,
      });
      if (!stream.ok) throw parseProblem(stream.status, await stream.text());
      setClock(stream.headers.get("date"));
      this.failures = 0;
      this.onState("live");
      for await (const event of parseEvents(stream.body, onData)) this.handleEvent(event);
    } finally {
      clearTimeout(silence);
      stop.abort();
    }
  }

  handleEvent({ event, data, id }) {
    if (event === "request") this.onRequest(parseJson(data));
    if (id) this.point = id;
  }
}

/** Parse the events of a stream; `onData` is called for every chunk, pings too. */
async function* parseEvents(body, onData) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  let event = { event: "message", data: "", id: "" };
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    onData();
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
