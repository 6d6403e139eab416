// The picture: a canvas that stays in sight within a scroller as high as all rows, the axis above it, and the
// tip at the pointer.

import * as axis from "./axis.js";
import { drawRows, pen, scene } from "./canvas.js";
import * as colours from "./colours.js";
import { beside, eventsOf } from "./lanes/every.js";
import { Layout } from "./layout.js";
import { unreadWords } from "../words/words.js";

const AXIS_HEIGHT = 30;
const GUTTER_PX = 172;
const GUTTER_WIDE_PX = 212;
const WIDE_PX = 1000; // from this width on, names have more room
const NARROW_PX = 620; // below this, names stand above their rows
const SLACK_PX = 4;

export class Picture {
  constructor(root, zero, changed) {
    this.root = root;
    this.zero = zero;
    this.scroller = root.querySelector("[data-rows]");
    this.sheet = root.querySelector("[data-sheet]");
    this.canvas = this.sheet.querySelector("canvas");
    this.axis = root.querySelector("[data-axis]");
    this.bubble = root.querySelector("[data-tip]");
    this.layout = new Layout();
    this.sight = { top: 0, height: 0, first: 0, count: 0 };
    this.keptFrom = null;
    this.colours = colours.read(root);
    colours.watch(() => {
      this.colours = colours.read(root);
      changed();
    });
    this.measure();
    new ResizeObserver(() => {
      this.measure();
      changed();
    }).observe(this.scroller);
  }

  measure() {
    const all = this.scroller.clientWidth;
    this.stacked = all < NARROW_PX;
    this.gutter = this.stacked ? 0 : all < WIDE_PX ? GUTTER_PX : GUTTER_WIDE_PX;
    this.width = Math.max(50, all - this.gutter);
    this.height = this.scroller.clientHeight;
    if (this.stacked !== this.layout.stacked && this.store) this.place();
  }

  /** Takes the rows that the store has, and keeps the first row in sight where it is. */
  placed(store, answer) {
    this.store = store;
    this.keptFrom = answer.kept_from ?? null;
    this.place();
  }

  place() {
    const { scroller, layout } = this;
    const first = layout.total ? layout.at(scroller.scrollTop) : 0;
    const within = scroller.scrollTop - (layout.tops[first] ?? 0);
    layout.update(this.store, this.stacked);
    scroller.style.blockSize = `${layout.height}px`; // within the bounds of the style sheet
    this.height = scroller.clientHeight;
    this.sheet.style.height = `${Math.max(layout.height, this.height)}px`;
    const wanted = (layout.tops[Math.min(first, layout.total)] ?? 0) + within;
    if (Math.abs(wanted - scroller.scrollTop) > 1) scroller.scrollTop = wanted;
  }

  draw(view, nowMs, picked) {
    const { layout, gutter, width, height } = this;
    const top = this.scroller.scrollTop;
    const [first, count] = layout.inSight(top, height);
    this.sight = { top, height, first, count };
    const drawing = pen(this.canvas, gutter + width, height);
    const made = { ...scene(drawing, view, width, nowMs, this.colours, this.stacked), keptFrom: this.keptFrom, unread: unreadWords(this.keptFrom, view) };
    const found = axis.ticks(view, width, axis.zoneAhead(view.from, this.zero));
    drawRows(drawing, layout, this.sight, made, found.at, picked, gutter);
    const above = pen(this.axis, gutter + width, AXIS_HEIGHT);
    axis.draw(above, made, found, AXIS_HEIGHT, gutter, this.zero);
    return this.sight;
  }

  /** The moment at x pixels from the left edge of the picture. */
  ms(view, x) {
    return view.from + ((x - this.gutter) / this.width) * (view.until - view.from);
  }

  /** What lies at a point of what is in sight: {place, ms, item, lane}; null beside the rows. */
  hit(view, x, y, nowMs) {
    const { layout } = this;
    const down = this.sight.top + y;
    if (x < 0 || x > this.gutter + this.width || down >= layout.height || !layout.total) return null;
    const place = layout.at(down);
    const ms = this.ms(view, Math.max(x, this.gutter));
    const within = down - layout.tops[place];
    const placed = layout.placed.get(place);
    if (!placed) return { place, ms, item: null };
    if (x < this.gutter) {
      const named = placed.slots.find((slot) => slot.lane?.member && within >= slot.top && within <= slot.top + slot.height);
      return { place, ms, item: null, lane: named?.lane };
    }
    // What was drawn last lies on top.
    const slack = (SLACK_PX * (view.until - view.from)) / this.width;
    for (const slot of placed.slots.toReversed()) {
      if (within < slot.top - 1 || within > slot.top + slot.height + 1) continue;
      const found = slot.drawn.hit(slot, ms, within - slot.top, slack, nowMs);
      if (found) return { place, ms, ...found };
    }
    return { place, ms, item: null };
  }

  /** What is listed of an item that lies at a point. */
  entryOf({ place, item }) {
    return eventsOf(this.layout.placed.get(place)).find((each) => each.item === item) ?? null;
  }

  /** The event of a row beside the picked one; without one, the first (or last) in sight. */
  beside(picked, way, view) {
    const placed = this.layout.placed.get(picked.place);
    if (!placed) return null;
    return beside(eventsOf(placed), picked, way, picked.at ?? (way > 0 ? view.from : view.until));
  }

  scrollTo(place) {
    this.scroller.scrollTop = this.layout.tops[Math.min(place, this.layout.total)] ?? 0;
  }

  /** Scrolls as little as shows the row whole. */
  reveal(place) {
    const { tops } = this.layout;
    const { scroller, height } = this;
    if (tops[place] < scroller.scrollTop) scroller.scrollTop = tops[place];
    else if (tops[place + 1] > scroller.scrollTop + height) scroller.scrollTop = tops[place + 1] - height;
  }

  /** Shows the tip beside the pointer, or hides it. */
  tip(found, lines, x, y) {
    this.bubble.hidden = !found;
    this.scroller.classList.toggle("timeline-pointing", Boolean(found?.item?.event || found?.item?.merged));
    if (!found) return;
    this.bubble.replaceChildren(
      ...lines.map((line) => {
        const element = document.createElement("div");
        element.textContent = line;
        return element;
      }),
    );
    const left = Math.min(x + 14, this.gutter + this.width - this.bubble.offsetWidth - 6);
    const above = y + this.bubble.offsetHeight + 24 > this.height;
    this.bubble.style.left = `${Math.max(2, left)}px`;
    this.bubble.style.top = `${AXIS_HEIGHT + (above ? y - this.bubble.offsetHeight - 10 : y + 16)}px`;
  }
}
