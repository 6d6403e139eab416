// The timeline of a page: the parts put together.

import * as keys from "./keys.js";
import * as pointer from "./pointer.js";
import { Controls } from "./controls.js";
import { listen, ServerClock } from "./following.js";
import { Panel } from "./words/panel.js";
import { Picture } from "./picture/picture.js";
import { Store } from "./store.js";
import * as table from "./words/table.js";
import { Address, atNewest, centred, fitted, fromAddress, panned, spread, zoomed } from "./view.js";
import { behindWords, itemWords, laneWords, moment, timesOf, unreadWords, whenWords } from "./words/words.js";

const PAN = 0.15; // of the span, for a key
const ZOOM = 1.5;
const WORDS_AFTER_MS = 400; // of rest until the table is filled again
const WORDS_FOLLOWING_MS = 1000;
const REFRESH_MS = 500; // between two drawings of what has changed
const FOLLOW_MS = 100; // between two steps of a view that follows, at least

class Timeline {
  constructor(root) {
    const { api, now, from, until, zero } = root.dataset;
    this.root = root;
    this.zero = zero ? Number(zero) : null;
    this.clock = new ServerClock(Number(now));
    this.whole = from ? [Number(from), Number(until)] : null;
    this.view = fromAddress(location.search, this.clock.now(), this.whole);
    this.address = new Address();
    this.store = new Store(api, { changed: (answer) => this.answered(answer), failed: (words) => this.controls.problem(words) });
    this.picture = new Picture(root, this.zero, () => this.draw());
    this.moves = {
      earlier: () => this.show(panned(this.view, -PAN * this.span)),
      later: () => this.show(panned(this.view, PAN * this.span)),
      zoomIn: () => this.zoom(1 / ZOOM),
      zoomOut: () => this.zoom(ZOOM),
      whole: () => this.fit(),
      follow: () => this.follow(),
    }; // by buttons and by keys
    this.controls = new Controls(root, this.view, {
      ...this.moves,
      span: (ms) => this.setSpan(ms),
      filter: (asked) => this.filter(asked),
    });
    this.panel = new Panel(root.querySelector("[data-panel]"), api, {
      open: (id, at) => this.open(id, { at, focus: true }),
      closed: () => this.close(),
    });
    this.picked = { place: this.view.first, item: this.view.event, entry: null, at: null };
    this.scrolling = this.view.first;
    this.listen();
    if (this.view.event) this.open(this.view.event, { focus: false });
    this.draw();
  }

  get span() {
    return this.view.until - this.view.from;
  }

  listen() {
    const { scroller, axis } = this.picture;
    pointer.listen(scroller, axis, {
      pan: (px) => this.show(panned(this.view, (-px / this.picture.width) * this.span)),
      zoom: (factor, x) => this.show(zoomed(this.view, factor, this.picture.ms(this.view, x))),
      scroll: (px) => scroller.scrollBy(0, -px),
      hover: (x, y) => this.hover(x, y),
      pick: (x, y) => this.pickAt(x, y),
    });
    keys.listen(scroller, {
      ...this.moves,
      rowAbove: () => this.pickRow(this.picked.place - 1),
      rowBelow: () => this.pickRow(this.picked.place + 1),
      pageAbove: () => this.pickRow(this.picked.place - this.picture.sight.count + 1),
      pageBelow: () => this.pickRow(this.picked.place + this.picture.sight.count - 1),
      firstRow: () => this.pickRow(0),
      lastRow: () => this.pickRow(this.store.total - 1),
      nextEvent: () => this.step(1),
      previousEvent: () => this.step(-1),
      explain: () => this.explain(),
      help: () => this.controls.help(),
    });
    keys.listen(document, { close: () => this.close() }); // wherever the focus is, in the explanation above all
    scroller.addEventListener("scroll", () => this.draw(), { passive: true });
    window.addEventListener("popstate", () => {
      this.view = fromAddress(location.search, this.clock.now(), this.whole);
      this.draw();
    });
    if (!this.view.run) {
      const changed = ({ version }) => {
        this.store.outdate(version);
        this.refreshing ??= setTimeout(() => {
          this.refreshing = undefined;
          this.draw();
        }, REFRESH_MS);
      };
      listen(`${this.root.dataset.api}/live`, changed, (words) => this.controls.problem(words));
    }
  }

  // --- the view -------------------------------------------------------------------------------

  show(view) {
    this.view = view;
    this.draw();
  }

  zoom(factor) {
    const at = this.picked.at ?? (this.view.from + this.view.until) / 2;
    this.show(zoomed(this.view, factor, at));
  }

  setSpan(ms) {
    const until = this.view.follow ? this.clock.now() : this.view.until;
    this.show({ ...this.view, from: until - ms, until, fits: false });
  }

  follow() {
    if (this.whole) return;
    this.show(this.view.follow ? { ...this.view, follow: false, fits: false } : { ...atNewest(this.view, this.clock.now()), follow: true });
    this.controls.say(this.view.follow ? "Following the newest events." : "Not following.");
  }

  /** All that the window has. */
  fit() {
    const answer = this.store.answer;
    const [from, until] = this.whole ?? [answer?.kept_from ?? this.view.from, this.clock.now()];
    this.show({ ...this.view, from, until, follow: false, fits: false });
  }

  filter(asked) {
    this.view = { ...this.view, ...asked, first: 0 };
    this.picked = { place: 0, item: "", entry: null, at: null };
    this.controls.showActive(this.view);
    this.picture.scroller.scrollTop = 0;
    this.draw();
  }

  // --- drawing --------------------------------------------------------------------------------

  answered(answer) {
    if (!this.view.run) this.clock.heard(answer.now);
    this.controls.problem(behindWords(answer));
    if (this.view.fits) {
      const settled = answer.kept_from !== null && !answer.reading_back;
      this.view = { ...fitted(this.view, answer.kept_from, this.clock.now()), fits: !settled };
    }
    if (answer.reading_back) this.controls.say("Older events are being read.");
    this.picture.placed(this.store, answer);
    if (this.scrolling) {
      this.picture.scrollTo(this.scrolling);
      this.scrolling = 0;
    }
    this.draw();
  }

  draw() {
    this.frame ??= requestAnimationFrame(() => {
      this.frame = undefined;
      this.drawNow();
    });
  }

  drawNow() {
    const now = this.whole ? this.whole[1] : this.clock.now();
    if (this.view.follow) this.view = atNewest(this.view, now);
    const sight = this.picture.draw(this.view, now, this.picked);
    if (this.store.total !== null) this.view = { ...this.view, first: sight.first };
    this.store.want(this.view, this.picture.width, this.scrolling || sight.first, sight.count, now);
    this.controls.shown(this.view, this.zero);
    this.address.keep(this.view);
    this.wordsLater();
    if (this.view.follow) this.advance();
  }

  /** Comes again when the view has moved by a pixel. */
  advance() {
    clearTimeout(this.advancing);
    this.advancing = setTimeout(() => this.draw(), Math.max(FOLLOW_MS, this.span / this.picture.width));
  }

  /** Fills the table after a rest. A view that follows never rests: it is filled from time to time. */
  wordsLater() {
    if (this.view.follow && this.wording !== undefined) return;
    clearTimeout(this.wording);
    this.wording = setTimeout(() => this.words(), this.view.follow ? WORDS_FOLLOWING_MS : WORDS_AFTER_MS);
  }

  words() {
    this.wording = undefined;
    this.root.dataset.drawn = this.store.answer ? String(this.store.answer.version) : "";
    if (this.view.follow && this.root.querySelector("[data-table]").contains(document.activeElement)) return;
    const found = table.inSight(this.picture.layout, this.picture.sight, this.view);
    table.fill(this.root.querySelector("[data-table]"), this.root.querySelector("[data-table-note]"), found, {
      zero: this.zero,
      unread: unreadWords(this.picture.keptFrom, this.view),
      known: this.picture.keptFrom,
      open: (line) => (line.item.merged ? this.several(line, true) : this.open(line.item.event, { ...line, focus: true })),
    });
  }

  // --- what is picked -------------------------------------------------------------------------

  hover(x, y) {
    const found = x === null ? null : this.picture.hit(this.view, x, y, this.clock.now());
    this.picture.tip(found, found && this.tipLines(found), x, y);
  }

  /** What the tip says: the row, the moment, what is there, and the whole id of the member whose lane it is. */
  tipLines({ place, ms, item, lane }) {
    const row = this.picture.layout.placed.get(place)?.row;
    const what = item ? itemWords(lane, item) : lane ? laneWords(row, lane)[0] : "";
    const member = lane?.member && lane.member !== lane.name ? `member ${lane.member}` : "";
    const when = item && (item.merged || item.at !== undefined) ? whenWords(item, this.zero) : moment(ms, this.zero);
    return [row?.name, when, what, member].filter(Boolean);
  }

  pickAt(x, y) {
    const found = this.picture.hit(this.view, x, y, this.clock.now());
    this.picture.scroller.focus({ preventScroll: true });
    if (!found) return;
    this.picked = { place: found.place, item: found.item?.event ?? "", entry: null, at: found.ms };
    if (found.item?.merged) this.several(found, false);
    else if (found.item?.event) {
      const began = found.item.at ?? found.item.from;
      const entry = this.picture.entryOf(found);
      this.open(found.item.event, { at: began < this.view.from ? found.ms : began, place: found.place, entry });
    }
    this.draw();
  }

  pickRow(place) {
    if (!this.store.total) return;
    const wanted = Math.min(this.store.total - 1, Math.max(0, place));
    this.picked = { place: wanted, item: "", entry: null, at: this.picked.at };
    this.picture.reveal(wanted);
    this.controls.say(this.picture.layout.placed.get(wanted)?.row.name ?? `row ${wanted + 1}`);
    this.draw();
  }

  /** To the next (1) or the previous (-1) event of the picked row. */
  step(way) {
    const next = this.picture.beside(this.picked, way, this.view);
    if (!next) {
      this.controls.say(way > 0 ? "No later event is known in this row." : "No earlier event is known in this row.");
      return;
    }
    this.picked = { place: this.picked.place, item: next.item.event ?? "", entry: next, at: next.at };
    this.controls.say(`${itemWords(next.lane, next.item)}, ${whenWords(next.item, this.zero)}`);
    this.picture.reveal(this.picked.place);
    this.show(centred(this.view, next.at));
  }

  explain() {
    if (this.picked.item) this.open(this.picked.item, { ...this.picked, focus: true });
    else if (this.picked.entry) this.several({ ...this.picked.entry, place: this.picked.place }, true);
    else this.step(1);
  }

  /** Lists what an item stands for. If it has not all of it, zooms in to it, as far as that takes it apart. */
  several({ lane, item, place }, focus) {
    const [first, last] = timesOf(item);
    const near = item.parts.length < item.merged ? spread(this.view, first ?? item.from, last) : null;
    this.picked = { place, item: "", entry: null, at: first ?? last };
    if (near) {
      this.controls.say(`Zoomed in to ${item.merged} events.`);
      this.show(near);
      return;
    }
    this.opener = document.activeElement;
    this.panel.list(lane, item, { focus, zero: this.zero });
    this.show({ ...this.view, event: "" });
  }

  async open(event, { at = null, place = this.picked.place, entry = null, focus = false }) {
    this.opener = document.activeElement;
    this.picked = { place, item: event, entry, at };
    this.view = { ...this.view, event };
    if (at !== null) this.view = centred(this.view, at);
    this.draw();
    const said = await this.panel.show(event, { run: this.view.run, focus, zero: this.zero });
    if (said && this.picked.item === event && at === null) this.picked = { ...this.picked, at: said.at };
    this.draw();
  }

  close() {
    if (!this.panel.isOpen) return;
    this.panel.close();
    this.show({ ...this.view, event: "" });
    (this.opener?.isConnected ? this.opener : this.picture.scroller).focus({ preventScroll: true });
  }
}

for (const root of document.querySelectorAll("[data-timeline]")) new Timeline(root);
