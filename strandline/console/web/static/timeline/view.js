// What the timeline shows, as one value, and the address that says it.
//
// A view: {rows, from, until, follow, fits, first, event, kinds, filters, changed, run}. Times are milliseconds since
// 1970; `fits`: its time was not chosen, so it is as long as what is kept; `first` is the number of the first row in
// sight; `changed`: only rows with events in this time. Views are not changed: each function returns another one.

export const ROWS = ["partition", "broker", "group", "task", "request", "transaction"];
export const FILTERS = ["topic", "partition", "broker", "group", "transaction", "text"];
export const SPAN_LEAST_MS = 50;
export const SPAN_MOST_MS = 31 * 24 * 3600 * 1000;
export const SPAN_FIRST_MS = 15 * 60 * 1000; // at most, of what is kept
export const SPAN_FIRST_LEAST_MS = 60 * 1000;

/** The view of an address. `whole`: what to show if the address names no time; null: the newest, live. */
export function fromAddress(search, nowMs, whole = null) {
  const given = new URLSearchParams(search);
  const number = (name) => {
    const value = given.get(name);
    return value !== null && /^-?\d{1,15}$/.test(value) ? Number(value) : null;
  };
  const filters = {};
  for (const name of FILTERS) filters[name] = (given.get(name) ?? "").trim();
  let [from, until] = [number("from"), number("until")];
  let follow = given.get("follow") === "1";
  const unsaid = from === null || until === null || until <= from;
  if (unsaid) {
    [from, until] = whole ?? [nowMs - SPAN_FIRST_MS, nowMs];
    follow = whole === null;
  }
  const rows = given.get("rows");
  return bounded({
    rows: ROWS.includes(rows) ? rows : "partition",
    from,
    until,
    follow,
    fits: unsaid && follow,
    first: Math.max(0, number("first") ?? 0),
    event: given.get("event") ?? "",
    kinds: given.getAll("kind").filter(Boolean),
    filters,
    changed: given.get("changed") === "1",
    run: given.get("run") ?? "",
  });
}

/** The address of a view, from its question mark on. */
export function toAddress(view) {
  const said = question(view);
  said.set("from", Math.round(view.from));
  said.set("until", Math.round(view.until));
  if (view.first) said.set("first", view.first);
  if (view.event) said.set("event", view.event);
  if (view.follow) said.set("follow", "1");
  return `?${said}`;
}

/** What decides which rows there are, as parameters: views with the same ones differ in time and place only. */
export function question(view) {
  const said = new URLSearchParams({ rows: view.rows });
  if (view.run) said.set("run", view.run);
  for (const name of FILTERS) if (view.filters[name]) said.set(name, view.filters[name]);
  for (const kind of view.kinds) said.append("kind", kind);
  if (view.changed) said.set("changed", "1");
  return said;
}

/** Moved in time. The end of following, unless the view moves to the newest by itself. */
export function panned(view, byMs) {
  return { ...view, from: view.from + byMs, until: view.until + byMs, follow: false, fits: false };
}

/** Zoomed so that `atMs` stays where it is. A factor below 1 shows less time. A view that follows keeps its end. */
export function zoomed(view, factor, atMs) {
  const span = view.until - view.from;
  const wanted = Math.min(SPAN_MOST_MS, Math.max(SPAN_LEAST_MS, span * factor));
  const fixed = view.follow ? view.until : atMs;
  const from = fixed - (fixed - view.from) * (wanted / span);
  return { ...view, from, until: from + wanted, fits: false };
}

/** Around a moment, in the span that it has, unless it is well in sight already. */
export function centred(view, atMs) {
  const span = view.until - view.from;
  if (atMs >= view.from + span / 20 && atMs <= view.until - span / 20) return view;
  return { ...view, from: atMs - span / 2, until: atMs + span / 2, follow: false, fits: false };
}

/** In to two moments, which then stand well apart; null if they do in this view, or never can. */
export function spread(view, firstMs, lastMs) {
  const wanted = Math.max(SPAN_LEAST_MS, (lastMs - firstMs) * 1.6);
  if (lastMs <= firstMs || wanted >= view.until - view.from) return null;
  const from = (firstMs + lastMs - wanted) / 2;
  return { ...view, from, until: from + wanted, follow: false, fits: false };
}

/** The newest time at the right edge, in the same span. */
export function atNewest(view, nowMs) {
  return { ...view, from: nowMs - (view.until - view.from), until: nowMs };
}

/** As long as what is kept, within bounds. `keptFrom`: null if nothing is. */
export function fitted(view, keptFrom, nowMs) {
  const kept = (nowMs - (keptFrom ?? nowMs)) * 1.03; // so that its beginning is in sight
  return { ...view, from: nowMs - Math.min(SPAN_FIRST_MS, Math.max(SPAN_FIRST_LEAST_MS, kept)), until: nowMs };
}

function bounded(view) {
  const span = Math.min(SPAN_MOST_MS, Math.max(SPAN_LEAST_MS, view.until - view.from));
  return { ...view, from: view.until - span };
}

// --- the page's address -----------------------------------------------------------------------

const REST_MS = 300; // browsers bound how often the address may change
const FOLLOWING_MS = 5000;

/** Keeps the address of the page at the view. */
export class Address {
  constructor() {
    this.kept = location.search;
    this.timer = undefined;
    this.view = null;
  }

  keep(view) {
    const before = this.view;
    this.view = view;
    const same = before?.event === view.event && String(question(before)) === String(question(view));
    const only = same && before.follow && view.follow;
    if (only && this.timer) return; // the view moves by itself: the address comes after it in time
    clearTimeout(this.timer);
    if (before && before.event !== view.event) {
      this._write(); // somebody picked it: nothing else changes it
      return;
    }
    this.timer = setTimeout(() => this._write(), only ? FOLLOWING_MS : REST_MS);
  }

  _write() {
    this.timer = undefined;
    const said = toAddress(this.view);
    if (said === this.kept) return;
    this.kept = said;
    history.replaceState(null, "", said);
  }
}
