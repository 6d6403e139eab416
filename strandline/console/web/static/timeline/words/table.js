// The events in sight as a table in words, for those who do not see the picture, and to be copied.

import { eventsOf } from "../picture/lanes/every.js";
import { itemWords, length, momentElement, timesOf } from "./words.js";

const LINES_MOST = 200;

/** Everything in sight that has an event, or began before all that is known: {lines: [{at, place, name, lane, item,
 * entry}], all: how many there are}. `at` is null if nothing but that is known of the beginning. */
export function inSight(layout, sight, view) {
  const lines = [];
  for (let place = sight.first; place < sight.first + sight.count; place += 1) {
    const placed = layout.placed.get(place);
    if (!placed) continue;
    for (const entry of eventsOf(placed, true)) {
      const { at, item, lane } = entry;
      const ends = item.at === undefined ? (item.until ?? Infinity) : (item.last ?? item.at);
      if (at <= view.until && ends >= view.from) lines.push({ at, place, name: placed.row.name, lane, item, entry });
    }
  }
  lines.sort((one, other) => one.at - other.at);
  return { lines: lines.slice(0, LINES_MOST), all: lines.length };
}

/** Fills the table. `open(line)` explains a line's event, or shows those that its item stands for; `unread` says which
 * time was not read; no event is known of the time before `known`, and none at all if that is null. */
export function fill(table, note, found, { zero, unread, known, open }) {
  const rows = found.lines.map((line) => {
    const row = document.createElement("tr");
    const when = document.createElement("td");
    const [first, last] = timesOf(line.item);
    const at = first ?? known;
    if (first === null || line.item.earlier) when.append(at === null ? "not known" : "before ");
    if (at !== null) when.append(momentElement(at, zero));
    if (last !== first) when.append(" to ", momentElement(last, zero));
    const where = document.createElement("td");
    where.textContent = line.name;
    const what = document.createElement("td");
    what.className = "wrap";
    what.append(line.item.event || line.item.merged ? opener(line, open) : itemWords(line.lane, line.item));
    const lasts = document.createElement("td");
    lasts.textContent = lasting(line.item, zero);
    row.append(when, where, what, lasts);
    return row;
  });
  table.tBodies[0].replaceChildren(...rows);
  const cut = found.all > found.lines.length ? ` The first ${found.lines.length} are listed.` : "";
  note.textContent = `${found.all} ${found.all === 1 ? "entry" : "entries"} in the rows and the time in sight.${cut}${unread && ` ${unread}.`}`;
}

function opener(line, open) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "timeline-link";
  button.textContent = itemWords(line.lane, line.item);
  if (line.lane.member && line.lane.member !== line.lane.name) button.title = `member ${line.lane.member}`;
  button.addEventListener("click", () => open(line));
  return button;
}

function lasting(item, zero) {
  if (item.at !== undefined) return "";
  if (item.until === null) return zero === null ? "still" : "to the end";
  return item.from === null || item.earlier ? "not known" : length(item.until - item.from);
}
