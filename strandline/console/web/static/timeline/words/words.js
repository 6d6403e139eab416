// Items, moments and lengths of time in words.

const NAMED_MOST = 3; // of what an item stands for
const BEHIND_MS = 5000;
const FIELD_WORDS = { hw: "high watermark", leo: "log end", isr: "ISR" };

/** What an item is, without its time. */
export function itemWords(lane, item) {
  if (item.merged) return severalWords(lane, item);
  switch (lane.kind) {
    case "leader":
      if (item.unknown) return `leader and ISR not known: ${item.unknown}${item.broker < 0 ? "" : `; last known: broker ${item.broker} at epoch ${item.epoch}`}`;
      return item.broker < 0 ? "no leader" : `broker ${item.broker} leads at epoch ${item.epoch}`;
    case "isr":
      return `ISR ${item.size}${item.of === null ? "" : ` of ${item.of}`}: ${item.members?.join(", ") || "none"}`;
    case "offsets":
      return `high watermark ${item.hw ?? "unknown"}, log end ${item.leo ?? "unknown"}`;
    case "request":
      return `${item.command}${item.about ? ` of ${item.about}` : ""} on broker ${item.broker}: ${item.state}${waits(item)}`;
    case "alive":
    case "drain":
    case "generation":
    case "transaction":
    case "fault":
      return item.label;
    case "owned":
      return `${lane.name} has ${item.label}${item.partitions ? `: ${item.partitions}` : ""}`;
    case "learner":
      return `${lane.name}, ${lane.task}: ${item.label}`;
    case "reassignment":
      return `reassignment ${item.label}: ${item.state}`;
    case "marks":
      return `${markWords(item)}${item.about ? `: ${item.about}` : ""}`;
    default:
      return item.label ? `${lane.kind}: ${item.label}` : lane.kind;
  }
}

function markWords(item) {
  return item.kind.replaceAll(/[-_]/g, " ").replace("isr", "ISR");
}

/** What an item stands for: how many there are, and the first of them. */
function severalWords(lane, item) {
  const marks = lane.kind === "marks";
  const what = marks ? `${markWords(item)}, ${item.merged} times` : `${item.merged} events closer than a pixel`;
  const parts = item.parts.slice(0, NAMED_MOST);
  const named = parts.map((part) => (marks ? part.about : itemWords(lane, part))).filter(Boolean);
  if (named.length === 0) return what;
  const left = item.merged - named.length;
  return `${what}: ${named.join(marks ? ", " : "; ")}${left ? ` and ${left} more` : ""}`;
}

/** When the first and the last began of what an item stands for: [ms, ms], the first null if that is not known. */
export function timesOf(item) {
  const first = item.parts?.[0] ?? item;
  const began = first.at ?? first.from;
  return [began, item.last ?? began];
}

/** When an item began, or the first and the last of what it stands for. */
export function whenWords(item, zero) {
  const [first, last] = timesOf(item);
  if (first === null) return last === null ? "at an unknown time" : `until ${moment(last, zero)}`;
  return first === last ? moment(first, zero) : `${moment(first, zero)} to ${moment(last, zero)}`;
}

/** What the lane of a member is called, the longest words first. */
export function laneWords(row, lane) {
  if (!lane.task || row.id.startsWith("task/")) return [lane.name];
  return [`${lane.task} · learner on ${lane.name}`, `${lane.task} · ${lane.name}`];
}

/** Says up to when events are read, if they are behind; empty if not, or if that is not known. */
export function behindWords({ read_until: until = null, now }) {
  return until === null || now - until < BEHIND_MS ? "" : `Events are read up to ${moment(until, null).slice(0, 8)}: what happened since is not shown yet.`;
}

/** Says which part of a view was not read; empty if all was. */
export function unreadWords(keptFrom, view) {
  return keptFrom === null || keptFrom <= view.from ? "" : `Nothing was read from before ${moment(keptFrom, null).slice(0, 8)}`;
}

function waits(item) {
  const received = item.received ?? null;
  if (received === null) return item.until === null ? ", waiting in its queue" : "";
  const took = item.until === null ? "" : `, done in ${length(item.until - received)}`;
  return ` (waited ${length(received - item.from)}${took})`;
}

/** A length of time. */
export function length(ms) {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(ms < 10_000 ? 2 : 1)} s`;
  const [large, small, unit, rest] = ms < 3_600_000 ? ["min", "s", 60_000, 1000] : ms < 86_400_000 ? ["h", "min", 3_600_000, 60_000] : ["days", "h", 86_400_000, 3_600_000];
  const left = Math.floor((ms % unit) / rest);
  return `${Math.floor(ms / unit)} ${large}${left ? ` ${left} ${small}` : ""}`;
}

/** A moment, to the millisecond: in the browser's zone, or since a run began (at `zero`). */
export function moment(ms, zero) {
  if (zero !== null) return `${((ms - zero) / 1000).toFixed(3)} s`;
  const date = new Date(ms);
  const two = (number) => String(number).padStart(2, "0");
  const clock = [date.getHours(), date.getMinutes(), date.getSeconds()].map(two).join(":");
  return `${clock}.${String(date.getMilliseconds()).padStart(3, "0")}`;
}

/** A <time> with a moment: UTC when it is pointed at. */
export function momentElement(ms, zero) {
  const element = document.createElement("time");
  element.textContent = moment(ms, zero);
  if (zero !== null) return element;
  element.dateTime = new Date(ms).toISOString();
  element.title = `${new Date(ms).toLocaleDateString()}; ${element.dateTime.replace("T", " ").replace("Z", "")} UTC`;
  return element;
}

/** The name of a field, for people. */
export function fieldWords(name) {
  return FIELD_WORDS[name] ?? name.replaceAll("_", " ");
}

/** The value of a field, for people. */
export function valueWords(value) {
  if (value === null || value === undefined) return "none";
  if (Array.isArray(value)) return value.map(valueWords).join(", ") || "none";
  if (typeof value === "object") return Object.entries(value).map(([name, each]) => `${name} ${valueWords(each)}`).join("; ");
  return String(value);
}
