/** Formatting of durations and times. */

const UNITS = [
  [86400, "d"],
  [3600, "h"],
  [60, "min"],
];

let clockOffset = 0; // seconds that the hub's clock is ahead of this one

/** Seconds since the epoch, by the hub's clock. */
export function now() {
  return Date.now() / 1000 + clockOffset;
}

/** Set the clock by the Date header of a response. */
export function setClock(date) {
  const hubTime = Date.parse(date ?? "");
  if (Number.isNaN(hubTime)) return;
  const difference = hubTime / 1000 - Date.now() / 1000;
  clockOffset = Math.abs(difference) < 2 ? 0 : difference; // the header has whole seconds only
}

/** Format a duration with at most two units: `45 s`, `3 min`, `2 h 5 min`. */
export function formatSpan(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  const at = UNITS.findIndex(([size]) => whole >= size);
  if (at < 0) return `${whole} s`;
  const [size, unit] = UNITS[at];
  const first = `${Math.floor(whole / size)} ${unit}`;
  const below = UNITS[at + 1];
  const rest = below ? Math.floor((whole % size) / below[0]) : 0;
  return rest ? `${first} ${rest} ${below[1]}` : first;
}

/** Format the time left, with seconds in the last two minutes. */
export function formatCountdown(seconds) {
  if (seconds >= 120 || seconds < 0) return formatSpan(seconds);
  const whole = Math.floor(seconds);
  return whole >= 60 ? `1 min ${whole - 60} s` : `${whole} s`;
}

/** Format a timestamp: the time of day, and the date if it is not today. */
export function formatMoment(at) {
  const date = new Date(Number(at) * 1000);
  const time = date.toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit" });
  const today = new Date().toDateString() === date.toDateString();
  return today
    ? time
    : `${date.toLocaleDateString(undefined, { day: "numeric", month: "short", year: "numeric" })}, ${time}`;
}
