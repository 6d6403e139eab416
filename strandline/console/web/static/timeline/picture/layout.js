// Where rows stand: heights by what they hold, and which are in sight. Rows that no answer has shown yet have
// the height of the others, so the scroll bar is right from the first answer on.

import { measured } from "./lanes/every.js";

const PADDING = 5;
const NAME_ABOVE = 17; // where names stand above their rows: on narrow screens, and if the first lane has its own
const LEAST = 30;

export class Layout {
  constructor() {
    this.stacked = false;
    this.total = 0;
    this.height = 0;
    this.tops = new Float64Array(1);
    this.placed = new Map(); // by place: {kept, row, slots, height}
    this.usual = LEAST;
  }

  /** Takes what the store has. */
  update(store, stacked) {
    if (stacked !== this.stacked) {
      this.stacked = stacked;
      this.placed.clear();
    }
    this.total = store.total ?? 0;
    for (const place of this.placed.keys()) if (!store.rows.has(place)) this.placed.delete(place);
    for (const [place, kept] of store.rows) {
      if (this.placed.get(place)?.kept !== kept) this.placed.set(place, this._place(kept));
    }
    for (const placed of this.placed.values()) this.usual = placed.height;
    this.tops = new Float64Array(this.total + 1);
    for (let place = 0; place < this.total; place += 1) {
      this.tops[place + 1] = this.tops[place] + (this.placed.get(place)?.height ?? this.usual);
    }
    this.height = this.tops[this.total];
  }

  _place(kept) {
    const made = measured(kept.row.lanes);
    let top = PADDING + (this.stacked || made[0]?.lane?.member ? NAME_ABOVE : 0);
    const slots = [];
    for (const slot of made) {
      const below = slots.find((each) => each.kind === slot.over);
      if (below) {
        slots.push({ ...slot, top: below.top + below.height - slot.height });
        continue;
      }
      slots.push({ ...slot, top });
      top += slot.height + 3;
    }
    return { kept, row: kept.row, slots, height: Math.max(LEAST, top + PADDING - 3) };
  }

  /** The place of the row at a height below the first row's top. */
  at(y) {
    let [low, high] = [0, this.total - 1];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.tops[middle] <= y) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  /** The first row in sight and how many are, from `top` on. */
  inSight(top, height) {
    if (this.total === 0) return [0, Math.ceil(height / this.usual) + 1];
    const first = this.at(top);
    return [first, Math.min(this.total, this.at(top + height) + 1) - first];
  }
}
