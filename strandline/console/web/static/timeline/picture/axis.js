// The axis of time: round moments in the browser's zone, and their words.

import { moment } from "../words/words.js";

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const STEPS = [
  1, 2, 5, 10, 20, 50, 100, 200, 500, SECOND, 2 * SECOND, 5 * SECOND, 10 * SECOND, 30 * SECOND, MINUTE, 2 * MINUTE,
  5 * MINUTE, 10 * MINUTE, 30 * MINUTE, HOUR, 2 * HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 2 * DAY, 7 * DAY,
];
const BETWEEN_PX = 92;

/** The moments that are marked: {step, at: [ms]}. `zoneMs`: what local time is ahead of UTC. */
export function ticks(view, width, zoneMs) {
  const least = ((view.until - view.from) * BETWEEN_PX) / Math.max(1, width);
  const step = STEPS.find((each) => each >= least) ?? STEPS.at(-1);
  const at = [];
  for (let ms = Math.ceil((view.from + zoneMs) / step) * step - zoneMs; ms <= view.until; ms += step) at.push(ms);
  return { step, at };
}

/** What the clock of the axis is ahead of UTC: the browser's zone, or the beginning of a run (`zero`). */
export function zoneAhead(ms, zero) {
  return zero !== null ? -zero : -new Date(ms).getTimezoneOffset() * MINUTE;
}

/** A moment in words, as exact as the step needs. */
export function said(ms, step, zero) {
  if (zero !== null) return `${((ms - zero) / SECOND).toFixed(step < 10 ? 3 : step < SECOND ? 2 : 0)} s`;
  const date = new Date(ms);
  if (step >= DAY || (date.getHours() === 0 && date.getMinutes() === 0 && step >= MINUTE)) {
    return date.toLocaleDateString(undefined, { day: "numeric", month: "short" });
  }
  const clock = moment(ms, null); // 14:05:09.123
  if (step >= MINUTE) return clock.slice(0, 5);
  if (step >= SECOND) return clock.slice(0, 8);
  return clock.slice(3);
}

export function draw(drawing, made, found, height, gutter, zero) {
  const { colours } = made;
  drawing.fillStyle = colours.raised;
  drawing.fillRect(0, 0, gutter + made.width, height);
  drawing.fillStyle = colours.edge;
  drawing.fillRect(0, height - 1, gutter + made.width, 1);
  drawing.font = made.fonts.small;
  for (const ms of found.at) {
    const x = Math.round(gutter + made.x(ms));
    drawing.fillStyle = colours.edge;
    drawing.fillRect(x, height - 8, 1, 8);
    const words = said(ms, found.step, zero);
    const wide = made.wide(words, "small");
    if (x + 4 + wide > gutter + made.width) continue;
    drawing.fillStyle = colours.text;
    drawing.fillText(words, x + 4, height - 9);
  }
}
