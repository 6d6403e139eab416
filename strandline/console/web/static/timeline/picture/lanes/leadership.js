// Who leads a partition, and how many of its replicas are in sync: a bar in the leader's colour, as high as the
// ISR is large. What is missing above it is hatched, and the size is written. Without a leader there is no bar
// but a frame; where nothing is known of the leader, the bar is grey.

export const HEIGHT = 30;
const TEXT_LEAST_PX = 20;
const FONT_PX = { usual: 15, small: 9 }; // the heights that texts need

export function draw(pen, slot, top, scene) {
  const leaders = inSight(slot.leader, scene);
  const isr = inSight(slot.isr, scene).filter(({ item }) => isShrunk(item));
  for (const { item, from, to } of leaders) {
    if (item.merged) crowd(pen, scene, from, to, top);
    else if (item.unknown) unknown(pen, scene, item, from, to, top);
    else if (item.broker >= 0) bar(pen, scene, item, from, to, top);
  }
  for (const { item, from, to } of isr) shrunk(pen, scene, lost(item), from, to, top);
  for (const { item, from, to } of leaders) if (item.broker < 0 && isKnown(item)) vacancy(pen, scene, from, to, top);
  const sizes = isr.map(({ item, from, to }) => size(pen, scene, item, from, to, top));
  const missing = (from, to) => Math.max(0, ...isr.filter((each) => each.from < to && each.to > from).map((each) => lost(each.item)));
  for (const { item, from, to } of leaders) {
    if (!isKnown(item) || item.broker < 0) continue;
    leader(pen, scene, item, Math.max(0, from), Math.min(scene.width, to), top, missing, sizes);
  }
}

function inSight(lane, scene) {
  const found = [];
  for (const item of lane?.items ?? []) {
    const [from, to] = scene.across(item);
    if (to >= 0 && from <= scene.width) found.push({ item, from, to });
  }
  return found;
}

/** Whether fewer replicas are in sync than it had then; false if that number is not known. */
function isShrunk(item) {
  return !item.merged && item.of !== null && item.size < item.of;
}

/** Whether it is one leader, or none, and known. */
function isKnown(item) {
  return !item.merged && !item.unknown;
}

function lost(item) {
  return Math.round((HEIGHT * (item.of - item.size)) / item.of);
}

function bar(pen, scene, item, from, to, top) {
  pen.fillStyle = scene.colours.broker(item.broker);
  pen.fillRect(from, top, Math.max(1, to - from), HEIGHT);
  pen.fillStyle = scene.colours.ground;
  pen.fillRect(from, top, 1, HEIGHT);
}

/** The words of a bar, in what the ISR leaves of its height where they stand, and beside the size of the ISR. */
function leader(pen, scene, item, left, right, top, missing, sizes) {
  if (right - left < TEXT_LEAST_PX) return;
  const texts = [`broker ${item.broker} · epoch ${item.epoch}`, `${item.broker} · e${item.epoch}`, `${item.broker}`];
  for (const text of texts) {
    for (const [font, needed] of Object.entries(FONT_PX)) {
      const end = left + 10 + scene.wide(text, font);
      const gone = missing(left, end);
      const room = HEIGHT - gone;
      const y = top + gone + room / 2 + (font === "usual" ? 4.5 : 4);
      const covered = sizes.some((each) => each && each.left < end && each.right > left && each.bottom > y - needed + 4);
      if (end > right || room < needed || covered) continue;
      pen.font = scene.fonts[font];
      pen.fillStyle = scene.colours.onBroker;
      pen.fillText(text, left + 6, y);
      pen.font = scene.fonts.usual;
      return;
    }
  }
}

function vacancy(pen, scene, from, to, top) {
  const width = Math.max(2, to - from);
  pen.fillStyle = scene.colours.badSoft;
  pen.fillRect(from, top, width, HEIGHT);
  pen.strokeStyle = scene.colours.bad;
  pen.lineWidth = 1.5;
  pen.strokeRect(from + 0.75, top + 0.75, Math.max(1, width - 1.5), HEIGHT - 1.5);
  const [left, right] = [Math.max(0, from), Math.min(scene.width, to)];
  const said = scene.fitting(["no leader", "none", "✕"], right - left - 8);
  if (!said) return;
  pen.fillStyle = scene.colours.bad;
  pen.fillText(said, left + 5, top + HEIGHT - 6);
}

function crowd(pen, scene, from, to, top) {
  pen.fillStyle = scene.colours.quiet;
  pen.fillRect(from, top, Math.max(1, to - from), HEIGHT);
  pen.fillStyle = scene.colours.hatch;
  pen.fillRect(from, top, Math.max(1, to - from), HEIGHT);
}

/** Where nothing is known of the leader: grey and hatched, with the reason. */
function unknown(pen, scene, item, from, to, top) {
  crowd(pen, scene, from, to, top);
  const [left, right] = [Math.max(0, from), Math.min(scene.width, to)];
  const said = scene.fitting([`not known: ${item.unknown}`, "not known", "?"], right - left - 14, "small");
  if (!said) return;
  pen.font = scene.fonts.small;
  pen.fillStyle = scene.colours.ground;
  pen.fillRect(left + 3, top + HEIGHT / 2 - 8, scene.wide(said, "small") + 8, 16);
  pen.fillStyle = scene.colours.text;
  pen.fillText(said, left + 7, top + HEIGHT / 2 + 4);
  pen.font = scene.fonts.usual;
}

function shrunk(pen, scene, missing, from, to, top) {
  const width = Math.max(1, to - from);
  pen.fillStyle = scene.colours.ground;
  pen.fillRect(from, top, width, missing);
  pen.fillStyle = scene.colours.hatch;
  pen.fillRect(from, top, width, missing);
  pen.fillStyle = scene.colours.bad;
  pen.fillRect(from, top + missing - 1, width, 1.5);
}

/** Writes the size of an ISR. Returns where, or null if there is no room. */
function size(pen, scene, item, from, to, top) {
  const [left, right] = [Math.max(0, from), Math.min(scene.width, to)];
  const said = scene.fitting([`ISR ${item.size} of ${item.of}`, `${item.size}/${item.of}`], right - left - 8, "small");
  if (!said) return null;
  const wide = scene.wide(said, "small");
  pen.font = scene.fonts.small;
  pen.fillStyle = scene.colours.ground;
  pen.fillRect(right - wide - 7, top, wide + 6, 12);
  pen.fillStyle = scene.colours.bad;
  pen.fillText(said, right - wide - 4, top + 10);
  pen.font = scene.fonts.usual;
  return { left: right - wide - 7, right, bottom: top + 12 };
}

export function* itemsOf(slot) {
  for (const item of slot.leader?.items ?? []) yield [slot.leader, item];
  for (const item of slot.isr?.items ?? []) yield [slot.isr, item];
}

/** The upper part of a shrunk ISR is the ISR's; all else is the leader's. */
export function hit(slot, ms, y, slackMs, nowMs) {
  const within = (item) => item.from - slackMs <= ms && ms <= (item.until ?? nowMs) + slackMs;
  const isr = slot.isr?.items.find((item) => within(item) && isShrunk(item));
  if (isr && (!slot.leader || y < lost(isr))) return { item: isr, lane: slot.isr };
  const exact = slot.leader?.items.find((item) => item.from <= ms && ms < (item.until ?? nowMs));
  const item = exact ?? slot.leader?.items.find(within);
  return item ? { item, lane: slot.leader } : null;
}
