// Mouse, pen and fingers on the timeline: drag to pan, two fingers or Ctrl and the wheel to zoom, a click or a
// tap to explain. The wheel alone scrolls the rows; over the axis it zooms.

const CLICK_PX = 5;
const WHEEL = 1.0018; // zoom for each pixel of the wheel

/**
 * `act`: {pan(px), zoom(factor, px), hover(x, y) or hover(null), pick(x, y), scroll(px)}; x is from the plot's
 * left edge, y from the top of what is in sight.
 */
export function listen(element, axis, act) {
  const pointers = new Map();
  let moved = 0;
  let apart = 0;

  const place = (event) => {
    const box = element.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };

  element.addEventListener("pointerdown", (event) => {
    if (event.pointerType === "mouse" && event.button !== 0) return;
    const [x, y] = place(event);
    if (x > element.clientWidth) return; // the scroll bar
    pointers.set(event.pointerId, [x, y]);
    moved = 0;
    apart = distance(pointers);
  });
  element.addEventListener("pointermove", (event) => {
    const [x, y] = place(event);
    const before = pointers.get(event.pointerId);
    if (!before) {
      act.hover(x, y);
      return;
    }
    pointers.set(event.pointerId, [x, y]);
    if (pointers.size === 2) {
      const now = distance(pointers);
      if (apart > 0 && now > 0) act.zoom(apart / now, middle(pointers));
      apart = now;
      moved = CLICK_PX + 1;
      return;
    }
    moved += Math.abs(x - before[0]) + Math.abs(y - before[1]);
    if (moved <= CLICK_PX) return;
    if (!element.hasPointerCapture(event.pointerId)) element.setPointerCapture(event.pointerId);
    act.hover(null);
    act.pan(x - before[0]);
    if (event.pointerType === "mouse") act.scroll(y - before[1]);
  });
  const ended = (event) => {
    const last = pointers.get(event.pointerId);
    pointers.delete(event.pointerId);
    if (last && event.type === "pointerup" && moved <= CLICK_PX) act.pick(...last);
  };
  element.addEventListener("pointerup", ended);
  element.addEventListener("pointercancel", ended);
  element.addEventListener("pointerleave", () => act.hover(null));

  element.addEventListener("wheel", (event) => wheel(event, event.ctrlKey || event.metaKey), { passive: false });
  axis.addEventListener("wheel", (event) => wheel(event, !event.shiftKey), { passive: false });

  function wheel(event, zooms) {
    const unit = event.deltaMode === 1 ? 16 : 1;
    const across = event.deltaX || (event.shiftKey ? event.deltaY : 0);
    if (zooms) {
      event.preventDefault();
      act.zoom(WHEEL ** (event.deltaY * unit), place(event)[0]);
    } else if (Math.abs(across) > Math.abs(event.shiftKey ? 0 : event.deltaY)) {
      event.preventDefault();
      act.pan(-across * unit);
    }
  }
}

function distance(pointers) {
  if (pointers.size !== 2) return 0;
  const [one, other] = pointers.values();
  return Math.abs(one[0] - other[0]);
}

function middle(pointers) {
  const [one, other] = pointers.values();
  return (one[0] + other[0]) / 2;
}
