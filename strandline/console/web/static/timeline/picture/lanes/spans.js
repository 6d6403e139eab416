// Things with a beginning and an end: requests, reassignments, drains, generations, owners, learners, lives of
// brokers, faults. Those that overlap stand on levels of their own. A request has two parts: thin while it waits
// in its broker's queue, thick from when the broker took it up.

const LEVEL = { request: 9, alive: 14, usual: 16 };
const LEVELS_MOST = { fault: 10, usual: 4 };
const FAILED = new Set(["failed", "lost", "died"]);
const OVER = new Set(["superseded", "cancelled", "skipped"]);
const BETWEEN = new Set(["rebalancing", "joined"]); // states of a group in which it has no assignment

/** The slot of a lane. */
export function slot(lane) {
  const levels = levelled(lane.items, LEVELS_MOST[lane.kind] ?? LEVELS_MOST.usual);
  const each = LEVEL[lane.kind] ?? LEVEL.usual;
  return { drawn: { draw, itemsOf, hit }, lane, kind: lane.kind, levels, each, height: each * (Math.max(0, ...levels) + 1) };
}

/** The level of each item: the first that is free when it begins, the last one if none is. */
function levelled(items, most) {
  const free = [];
  return items.map((item) => {
    let level = free.findIndex((ends) => ends <= item.from);
    if (level < 0) level = Math.min(free.length, most - 1);
    free[level] = Math.max(free[level] ?? -Infinity, item.until ?? Infinity);
    return level;
  });
}

export function draw(pen, drawn, top, scene) {
  const { lane, levels, each } = drawn;
  lane.items.forEach((item, place) => {
    const [from, to] = scene.across(item);
    if (to < 0 || from > scene.width) return;
    const y = top + levels[place] * each;
    if (lane.kind === "request") request(pen, scene, item, from, to, y, each);
    else span(pen, scene, lane, item, from, to, y, each);
  });
}

function request(pen, scene, item, from, to, top, each) {
  const taken = item.received === null || item.received === undefined ? to : scene.x(item.received);
  const colour = FAILED.has(item.state) ? scene.colours.bad : OVER.has(item.state) ? scene.colours.soft : scene.colours.request;
  pen.fillStyle = colour;
  pen.fillRect(from, top + each / 2 - 1, Math.max(1, taken - from), 2);
  pen.fillRect(from, top + 1, 1.5, each - 2);
  if (taken < to) pen.fillRect(taken, top + 1, Math.max(1.5, to - taken), each - 3);
  if (item.merged) {
    pen.fillStyle = scene.colours.hatch;
    pen.fillRect(from, top, Math.max(4, to - from), each);
  }
  if (item.until === null) arrow(pen, Math.min(to, scene.width) - 4, top + each / 2, colour);
  if (FAILED.has(item.state)) cross(pen, to, top + each / 2, colour);
}

function span(pen, scene, lane, item, from, to, top, each) {
  const bad = lane.kind === "fault" || FAILED.has(item.state) || item.alive === false;
  const width = Math.max(1.5, to - from);
  pen.fillStyle = bad ? scene.colours.badSoft : scene.colours.span(lane.kind);
  pen.fillRect(from, top + 1, width, each - 2);
  if (item.merged || BETWEEN.has(item.state)) {
    pen.fillStyle = scene.colours.hatch;
    pen.fillRect(from, top + 1, width, each - 2);
  }
  const edge = bad ? scene.colours.bad : scene.colours.edge;
  pen.fillStyle = edge;
  pen.fillRect(from, top + 1, 1.5, each - 2);
  if (item.until !== null && width > 4) pen.fillRect(to - 1, top + 1, 1, each - 2);
  const [left, right] = [Math.max(0, from), Math.min(scene.width, to)];
  const said = item.label && scene.fitting(labels(scene, lane, item), right - left - 8, "small", true);
  if (said && BETWEEN.has(item.state)) plate(pen, scene, left + 3, top + 2, scene.wide(said, "small") + 4, each - 4);
  if (!said) return;
  pen.font = scene.fonts.small;
  pen.fillStyle = scene.colours.text;
  pen.fillText(said, left + 5, top + each - 5);
  pen.font = scene.fonts.usual;
}

/** What an item is called, the longest words first. */
function labels(scene, lane, item) {
  const whose = scene.stacked && lane.member ? [`${[lane.task, lane.name].filter(Boolean).join(" · ")}: ${item.label}`] : [];
  const short = item.generation === undefined ? [] : [`${item.generation}`];
  const number = lane.kind === "owned" ? [item.label.split(" ")[0]] : [];
  return [...whose, item.label, ...short, ...number];
}

/** A ground on which words over a hatch can be read. */
function plate(pen, scene, x, y, width, height) {
  pen.fillStyle = scene.colours.ground;
  pen.fillRect(x, y, width, height);
}

function arrow(pen, x, y, colour) {
  pen.fillStyle = colour;
  pen.beginPath();
  pen.moveTo(x, y - 4);
  pen.lineTo(x + 4, y);
  pen.lineTo(x, y + 4);
  pen.fill();
}

function cross(pen, x, y, colour) {
  pen.strokeStyle = colour;
  pen.lineWidth = 2;
  pen.beginPath();
  pen.moveTo(x - 3, y - 3);
  pen.lineTo(x + 3, y + 3);
  pen.moveTo(x - 3, y + 3);
  pen.lineTo(x + 3, y - 3);
  pen.stroke();
}

export function* itemsOf(drawn) {
  for (const item of drawn.lane.items) yield [drawn.lane, item];
}

export function hit(drawn, ms, y, slackMs, nowMs) {
  const level = Math.floor(y / drawn.each);
  let near = null;
  drawn.lane.items.forEach((item, place) => {
    if (drawn.levels[place] !== level) return;
    const off = Math.max(item.from - ms, ms - (item.until ?? nowMs), 0);
    if (off <= slackMs && (near === null || off < near.off)) near = { off, item };
  });
  return near && { item: near.item, lane: drawn.lane };
}
