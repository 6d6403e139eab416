// Moments: a sign for each kind, with the number of those that lie upon each other. Signs differ in shape, not in
// colour alone.

export const HEIGHT = 14;
const NUMBER_PX = 9; // from a sign to its number
const SIZE = 5;

const SIGNS = {
  elected: ["disc", "accent"],
  resigned: ["ring", "accent"],
  "joined-isr": ["plus", "hw"],
  created: ["plus", "hw"],
  deleted: ["minus", "bad"],
  "left-isr": ["minus", "bad"],
  "unclean-election": ["triangle", "bad"],
  "reassignment-overdue": ["triangle", "warn"],
  began: ["bar", "text"],
  healed: ["bar", "hw"],
  settled: ["disc", "hw"],
  writable: ["plus", "hw"],
  ended: ["bar", "text"],
  committed: ["disc", "hw"],
  aborted: ["minus", "bad"],
  died: ["triangle", "bad"],
  not_settled: ["triangle", "bad"],
  not_writable: ["triangle", "bad"],
  usual: ["diamond", "warn"],
};

const SHAPES = {
  disc: (pen, x, y) => pen.arc(x, y, SIZE - 0.5, 0, 7),
  ring: (pen, x, y) => pen.arc(x, y, SIZE - 1, 0, 7),
  plus: (pen, x, y) => {
    pen.rect(x - SIZE, y - 1.25, 2 * SIZE, 2.5);
    pen.rect(x - 1.25, y - SIZE, 2.5, 2 * SIZE);
  },
  minus: (pen, x, y) => pen.rect(x - SIZE, y - 1.25, 2 * SIZE, 2.5),
  bar: (pen, x, y) => pen.rect(x - 1.25, y - SIZE - 1, 2.5, 2 * SIZE + 2),
  triangle: (pen, x, y) => path(pen, [x, y - SIZE], [x + SIZE + 1, y + SIZE], [x - SIZE - 1, y + SIZE]),
  diamond: (pen, x, y) => path(pen, [x, y - SIZE], [x + SIZE, y], [x, y + SIZE], [x - SIZE, y]),
};

export function draw(pen, slot, top, scene) {
  const middle = top + HEIGHT / 2;
  const { items } = slot.lane;
  items.forEach((item, place) => {
    const x = scene.x(item.at);
    if (x < -10 || x > scene.width + 10) return;
    const [shape, colour] = SIGNS[item.kind] ?? SIGNS.usual;
    pen.beginPath();
    SHAPES[shape](pen, x, middle);
    pen.fillStyle = pen.strokeStyle = scene.colours[colour];
    pen.lineWidth = 2;
    if (shape === "ring") pen.stroke();
    else pen.fill();
    const next = place + 1 < items.length ? scene.x(items[place + 1].at) : Infinity;
    if (item.count > 1) number(pen, scene, item.count, x, next - x, middle);
  });
}

function number(pen, scene, count, x, room, middle) {
  const wide = scene.wide(`${count}`, "small");
  if (wide + NUMBER_PX + SIZE + 2 > room) return;
  pen.font = scene.fonts.small;
  pen.fillStyle = scene.colours.text;
  pen.fillText(`${count}`, x + NUMBER_PX, middle + 4);
  pen.font = scene.fonts.usual;
}

function path(pen, first, ...others) {
  pen.moveTo(...first);
  for (const each of others) pen.lineTo(...each);
  pen.closePath();
}

export function* itemsOf(slot) {
  for (const item of slot.lane.items) yield [slot.lane, item];
}

export function hit(slot, ms, _y, slackMs) {
  let near = null;
  for (const item of slot.lane.items) {
    const off = Math.abs(item.at - ms);
    if (off <= slackMs * 2 && (near === null || off < near.off)) near = { off, item };
  }
  return near && { item: near.item, lane: slot.lane };
}
