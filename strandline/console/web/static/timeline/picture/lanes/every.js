// The kinds of lanes: how high each stands in its row, how it is drawn, and what lies at a point of it.
//
// A slot: {kind, lane, height, drawn}. `drawn` has draw(pen, slot, top, scene), itemsOf(slot), and
// hit(slot, ms, y, slackMs, nowMs): {item, lane} at a moment and a height, or null; `slackMs` says how far off is
// near enough. The leader and the ISR of a partition share a slot, and marks lie over the offsets, which they are
// about.

import * as leadership from "./leadership.js";
import * as marks from "./marks.js";
import * as offsets from "./offsets.js";
import * as spans from "./spans.js";

/** The slots of a row's lanes, from the top. */
export function measured(lanes) {
  const slots = [];
  const leader = lanes.find((lane) => lane.kind === "leader");
  const isr = lanes.find((lane) => lane.kind === "isr");
  if (leader || isr) slots.push({ drawn: leadership, leader, isr, height: leadership.HEIGHT, kind: "leader" });
  for (const lane of lanes) {
    if (lane.kind === "offsets") slots.push({ drawn: offsets, lane, height: offsets.HEIGHT, kind: lane.kind });
    else if (lane.kind !== "leader" && lane.kind !== "isr" && lane.kind !== "marks" && lane.items?.length) {
      slots.push(spans.slot(lane));
    }
  }
  const marked = lanes.find((lane) => lane.kind === "marks" && lane.items.length);
  if (marked) slots.push({ drawn: marks, lane: marked, height: marks.HEIGHT, kind: "marks", over: "offsets" });
  return slots;
}

/** Everything of a row that has an event, in order: {at, rank, id, item, shown, slot, lane}. What an item stands for
 * is listed one by one if the item has all of it, else the item is listed: `shown` is the item that is drawn. With
 * `older`, also what began before all that is known: its `at` is null, or the time at which it was seen first. */
export function eventsOf(placed, older = false) {
  const found = [];
  for (const slot of placed.slots) {
    for (const [lane, shown] of slot.drawn.itemsOf(slot)) {
      const rank = placed.row.lanes.indexOf(lane);
      for (const item of apart(shown)) {
        if (!item.event && !item.merged && !(older && (item.from === null || item.earlier))) continue;
        found.push({ at: item.at ?? item.from, rank, id: item.event ?? "", item, shown, slot, lane });
      }
    }
  }
  return found.sort(compared);
}

function apart(item) {
  return item.merged && item.parts.length === item.merged ? item.parts : [item];
}

/** The order of a row's events: by time, lane and id, so that no two of them are equal. An election is an event of
 * the leader and of the ISR: the id alone does not tell them apart. */
function compared(one, other) {
  return one.at - other.at || one.rank - other.rank || (one.id < other.id ? -1 : Number(one.id > other.id));
}

/** The entry of `events` that is picked: `entry` if there is one, else the first of the event `item`. */
export function pickedOf(events, { entry, item }) {
  if (entry) return events.find((each) => compared(each, entry) === 0) ?? null;
  return (item && events.find((each) => each.item.event === item)) || null;
}

/** The next (1) or the previous (-1) of `events`: after what is picked; else from the moment `at` on. */
export function beside(events, picked, way, at) {
  const here = picked.entry ?? pickedOf(events, picked);
  if (way > 0) return events.find((each) => (here ? compared(each, here) > 0 : each.at >= at)) ?? null;
  return events.findLast((each) => (here ? compared(each, here) < 0 : each.at <= at)) ?? null;
}
