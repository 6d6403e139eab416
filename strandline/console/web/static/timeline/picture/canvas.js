// Draws the rows in sight on a canvas, sharp at every pixel ratio.

import { eventsOf, pickedOf } from "./lanes/every.js";
import { laneWords } from "../words/words.js";

const FONTS = { usual: "600 12px system-ui, sans-serif", small: "11px system-ui, sans-serif", name: "13px system-ui, sans-serif" };
const NAME_PX = 22; // the height of a row's name
const WIDTHS_KEPT = 4000;
const widths = new Map();

/** Gives a canvas its size in CSS pixels, and returns its pen, scaled to them. */
export function pen(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  const [wide, high] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== wide || canvas.height !== high) {
    [canvas.width, canvas.height] = [wide, high];
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  const drawing = canvas.getContext("2d");
  drawing.setTransform(ratio, 0, 0, ratio, 0, 0);
  drawing.font = FONTS.usual;
  drawing.textBaseline = "alphabetic";
  return drawing;
}

/** What the lanes need to draw: the scale, the colours, and texts that fit. `width`: of the plot. */
export function scene(drawing, view, width, nowMs, colours, stacked) {
  const perMs = width / (view.until - view.from);
  const x = (ms) => (ms - view.from) * perMs;
  const wide = (text, font) => {
    const key = `${font}\n${text}`;
    let found = widths.get(key);
    if (found === undefined) {
      if (widths.size > WIDTHS_KEPT) widths.clear();
      const before = drawing.font;
      drawing.font = FONTS[font];
      found = drawing.measureText(text).width;
      drawing.font = before;
      widths.set(key, found);
    }
    return found;
  };
  return {
    x,
    perMs,
    width,
    nowMs,
    colours,
    stacked,
    fonts: FONTS,
    wide,
    /** Where an item begins and ends, at -8 if its beginning is not known; what has not ended yet ends now, and
     * far ends are cut off. */
    across: (item) => [item.from === null ? -8 : Math.max(-8, x(item.from)), Math.min(width + 8, x(item.until ?? Math.max(nowMs, item.from)))],
    /** The first text that fits. With `cut`, the last one is shortened. */
    fitting: (texts, room, font = "usual", cut = false) => {
      const found = texts.find((text) => wide(text, font) <= room);
      if (found || !cut || room < 24) return found ?? null;
      return shortened(texts.at(-1), room, (text) => wide(text, font));
    },
  };
}

/** Draws rows, names and lines of time. `sight`: {top, height, first, count}; `ticks`: moments in ms. */
export function drawRows(drawing, layout, sight, made, ticks, picked, gutter) {
  const { colours, width } = made;
  drawing.fillStyle = colours.ground;
  drawing.fillRect(0, 0, gutter + width, sight.height);
  drawing.save();
  drawing.translate(gutter, 0);
  drawing.beginPath();
  drawing.rect(0, 0, width, sight.height);
  drawing.clip();
  drawing.fillStyle = colours.rule;
  for (const ms of ticks) drawing.fillRect(Math.round(made.x(ms)), 0, 1, sight.height);
  each(layout, sight, (placed, top) => {
    for (const slot of placed?.slots ?? []) slot.drawn.draw(drawing, slot, top + slot.top, made);
  });
  unkept(drawing, made, sight);
  moment(drawing, made, made.nowMs, sight.height, colours.accent, [2, 3]);
  if (picked.at !== null) moment(drawing, made, picked.at, sight.height, colours.text, []);
  if (picked.item || picked.entry) outline(drawing, layout, sight, made, picked);
  drawing.restore();
  names(drawing, layout, sight, made, picked, gutter);
}

function each(layout, sight, act) {
  for (let place = sight.first; place < Math.min(layout.total, sight.first + sight.count); place += 1) {
    act(layout.placed.get(place), layout.tops[place] - sight.top, place);
  }
}

function names(drawing, layout, sight, made, picked, gutter) {
  const { colours } = made;
  drawing.font = FONTS.name;
  each(layout, sight, (placed, top, place) => {
    const height = layout.tops[place + 1] - layout.tops[place];
    drawing.fillStyle = colours.rule;
    drawing.fillRect(0, Math.round(top + height) - 1, gutter + made.width, 1);
    if (place === picked.place) {
      drawing.fillStyle = colours.accent;
      drawing.fillRect(0, top, 4, height - 1);
    }
    const room = (gutter || made.width) - 20;
    const name = placed ? made.fitting([placed.row.name], room, "name", true) : "…";
    drawing.fillStyle = placed ? colours.text : colours.soft;
    drawing.fillText(name ?? "", 10, top + 18);
    if (placed) whose(drawing, made, placed, top, gutter);
  });
  if (gutter) {
    drawing.fillStyle = colours.edge;
    drawing.fillRect(gutter - 1, 0, 1, sight.height);
  }
  drawing.font = FONTS.usual;
}

/** Names the members whose lanes these are beside them. Without a gutter, items name them. */
function whose(drawing, made, placed, top, gutter) {
  if (!gutter) return;
  drawing.font = FONTS.small;
  drawing.fillStyle = made.colours.soft;
  for (const slot of placed.slots) {
    if (!slot.lane?.member || slot.top < NAME_PX) continue;
    const words = made.fitting(laneWords(placed.row, slot.lane), gutter - 26, "small", true);
    if (words) drawing.fillText(words, 18, top + slot.top + 12);
  }
  drawing.font = FONTS.name;
}

function moment(drawing, made, ms, height, colour, dash) {
  const x = Math.round(made.x(ms)) + 0.5;
  if (x < 0 || x > made.width) return;
  drawing.strokeStyle = colour;
  drawing.lineWidth = 1;
  drawing.setLineDash(dash);
  drawing.beginPath();
  drawing.moveTo(x, 0);
  drawing.lineTo(x, height);
  drawing.stroke();
  drawing.setLineDash([]);
}

/** Hatches the time before the first record that is kept, and says in words what it is. */
function unkept(drawing, made, sight) {
  if (made.keptFrom === null) return;
  const x = Math.min(made.width, made.x(made.keptFrom));
  if (x <= 0) return;
  drawing.globalAlpha = 0.35;
  drawing.fillStyle = made.colours.hatch;
  drawing.fillRect(0, 0, x, sight.height);
  drawing.globalAlpha = 1;
  const said = made.fitting([made.unread, "not read"], x - 24, "small");
  if (!said) return;
  const left = (x - made.wide(said, "small")) / 2;
  drawing.fillStyle = made.colours.ground;
  drawing.fillRect(left - 6, sight.height / 2 - 11, made.wide(said, "small") + 12, 20);
  drawing.font = made.fonts.small;
  drawing.fillStyle = made.colours.text;
  drawing.fillText(said, left, sight.height / 2 + 3);
  drawing.font = made.fonts.usual;
}

function outline(drawing, layout, sight, made, picked) {
  const placed = layout.placed.get(picked.place);
  const found = placed && pickedOf(eventsOf(placed), picked);
  if (!found) return;
  const { shown: item, slot } = found;
  const [from, to] = item.at === undefined ? made.across(item) : [made.x(item.at) - 8, made.x(item.at) + 8];
  const top = layout.tops[picked.place] - sight.top + slot.top;
  drawing.lineWidth = 2;
  drawing.strokeStyle = made.colours.text;
  drawing.strokeRect(from - 1, top - 1, Math.max(3, to - from) + 2, slot.height + 2);
}

function shortened(text, room, wide) {
  let [low, high] = [0, text.length];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (wide(`${text.slice(0, middle)}…`) <= room) low = middle;
    else high = middle - 1;
  }
  return low > 1 ? `${text.slice(0, low)}…` : null;
}
