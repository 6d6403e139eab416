// The high watermark as a line, the end of the log as a dashed one above it, each at its place between the least
// and the greatest offset of what was answered. A point without an offset is a gap.

export const HEIGHT = 24;

export function draw(pen, slot, top, scene) {
  const { hw = [], leo = [] } = slot.lane;
  const range = (slot.range ??= rangeOf(hw, leo));
  if (range === null) return;
  pen.strokeStyle = scene.colours.rule;
  pen.lineWidth = 1;
  pen.beginPath();
  pen.moveTo(0, top + HEIGHT - 0.5);
  pen.lineTo(scene.width, top + HEIGHT - 0.5);
  pen.stroke();
  const y = (offset) => top + HEIGHT - 2 - ((offset - range.least) / range.wide) * (HEIGHT - 4);
  line(pen, scene, hw, y, scene.colours.hw, [], 2);
  line(pen, scene, leo, y, scene.colours.leo, [4, 3], 1.25);
}

function rangeOf(...series) {
  let [least, most] = [Infinity, -Infinity];
  for (const points of series) {
    for (const [, offset] of points) {
      if (offset === null) continue;
      if (offset < least) least = offset;
      if (offset > most) most = offset;
    }
  }
  return least > most ? null : { least, wide: Math.max(1, most - least) };
}

function line(pen, scene, points, y, colour, dash, width) {
  if (points.length === 0) return;
  pen.strokeStyle = colour;
  pen.lineWidth = width;
  pen.setLineDash(dash);
  pen.beginPath();
  let begins = true;
  for (const [ms, offset] of points) {
    if (offset !== null && begins) pen.moveTo(scene.x(ms), y(offset));
    else if (offset !== null) pen.lineTo(scene.x(ms), y(offset));
    begins = offset === null;
  }
  pen.stroke();
  pen.setLineDash([]);
}

export function* itemsOf() {
  // Points have no events.
}

/** The last offsets that were seen by then. */
export function hit(slot, ms) {
  const last = (points) => points?.findLast(([at]) => at <= ms)?.[1] ?? null;
  const [hw, leo] = [last(slot.lane.hw), last(slot.lane.leo)];
  if (hw === null && leo === null) return null;
  return { item: { hw, leo, event: null }, lane: slot.lane };
}
