// The rows that the server has answered with, and the asking for more: one request at a time, for what is in
// sight and some more on each side.
//
// A row stays until a newer answer replaces it, so there is something to draw while a request is under way.

import { question } from "./view.js";

const MARGIN = 0.5; // of the span in sight, asked for on each side
const ROWS_AROUND = 10; // rows above and below those in sight
const ROWS_AT_ONCE = 100;
const COARSE = 1.8; // a row is asked for again if it was made for a scale this much coarser
const WIDTH_MAX = 4000; // pixels
const ROWS_KEPT = 2000;
const OLD_MS = 1000; // what reaches up to now is asked for again after this time
const AGAIN_MS = 1500; // after a request that failed

export class Store {
  /** `changed(answer)` is called after each answer, `failed(sentence)` after each failure. */
  constructor(api, { changed, failed }) {
    this.api = api;
    this.changed = changed;
    this.failed = failed;
    this.rows = new Map(); // by place: {row, from, until, seen, perMs, version}; `seen`: the newest that it can have
    this.total = null;
    this.answer = null;
    this.last = null; // what the last answer was made for
    this.version = 0;
    this.question = "";
    this.wanted = null;
    this.asking = null;
  }

  /** Says what is in sight: a view, its width in pixels, its first row and how many; and what time it is. */
  want(view, width, first, count, nowMs) {
    const wanted = String(question(view));
    if (wanted !== this.question) {
      this.question = wanted;
      this.rows.clear();
      this.total = null;
      this.asking?.abort();
      this.asking = null;
    }
    this.wanted = { view, width, first, count, nowMs };
    if (this.asking === null) this._ask();
  }

  /** The window has changed: what reaches up to now is asked for again, once it is wanted. */
  outdate(version) {
    this.version = version;
  }

  /** Whether a row has to be asked for: there is none, or it does not show what is wanted. */
  _lacks(kept) {
    const { view, width, nowMs } = this.wanted;
    if (!kept) return true;
    const until = Math.min(view.until, nowMs);
    if (kept.from > view.from || kept.until < until) return true;
    if (width / (view.until - view.from) > kept.perMs * COARSE) return true;
    if (kept.seen >= until) return false;
    return kept.version < this.version || kept.seen < until - OLD_MS;
  }

  /** The rows to ask for, as [first, count]; null if there is nothing to ask. */
  _missing() {
    const { first, count } = this.wanted;
    if (this.total === null) return [Math.max(0, first - ROWS_AROUND), Math.min(ROWS_AT_ONCE, count + 2 * ROWS_AROUND)];
    if (this.total === 0) return this._lacks(this.last) ? [0, ROWS_AT_ONCE] : null;
    const end = Math.min(this.total, first + count);
    let lack = first;
    while (lack < end && !this._lacks(this.rows.get(lack))) lack += 1;
    if (lack >= end) return null;
    const begin = Math.max(0, lack === first ? first - ROWS_AROUND : lack);
    return [begin, Math.min(ROWS_AT_ONCE, this.total - begin, end + ROWS_AROUND - begin)];
  }

  async _ask() {
    const missing = this._missing();
    if (missing === null) return;
    const { view, width } = this.wanted;
    const span = view.until - view.from;
    const margin = view.changed || view.rows === "request" ? 0 : MARGIN; // there the time decides which rows there are
    const from = Math.floor(view.from - span * margin);
    const until = Math.ceil(view.until + span * margin);
    const pixels = Math.min(WIDTH_MAX, Math.max(50, Math.round(width * (1 + 2 * margin))));
    const asking = new AbortController();
    this.asking = asking;
    try {
      const answer = await this._fetched(view, from, until, pixels, missing, asking.signal);
      if (this.asking !== asking) return;
      this._keep(answer, { from, until, seen: Math.min(until, answer.now), perMs: pixels / (until - from) });
      this.asking = null;
      this.changed(answer);
      if (this.wanted) this._ask();
    } catch (error) {
      if (this.asking !== asking) return;
      this.failed(error.message);
      setTimeout(() => {
        if (this.asking !== asking) return;
        this.asking = null;
        this._ask();
      }, AGAIN_MS);
    }
  }

  _fetched(view, from, until, width, [first, count], signal) {
    const time = new URLSearchParams({ from: Math.max(0, from), until, width, first, count });
    return asked(`${this.api}?${question(view)}&${time}`, signal);
  }

  _keep(answer, made) {
    if (this.rows.size > ROWS_KEPT || this.total !== answer.rows_total) this.rows.clear(); // rows have other places now
    this.answer = answer;
    this.total = answer.rows_total;
    this.last = { version: answer.version, ...made };
    answer.rows.forEach((row, place) => {
      this.rows.set(answer.first + place, { row, version: answer.version, ...made });
    });
    this.version = Math.max(this.version, answer.version);
  }
}

/** The JSON at an address. Throws an Error with a sentence. */
export async function asked(address, signal) {
  let answer;
  try {
    answer = await fetch(address, { signal, headers: { Accept: "application/json" } });
  } catch (error) {
    throw new Error("The console does not answer.", { cause: error });
  }
  const said = await answer.json().catch(() => null);
  if (answer.ok && said !== null) return said;
  throw new Error(said?.error ?? said?.message ?? `The console answered with ${answer.status}.`);
}
