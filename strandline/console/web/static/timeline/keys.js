// The keyboard on the timeline. The help on the page lists these.

/** `act` has a function for each name. A key that is not listed keeps its own effect. */
export function listen(element, act) {
  element.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const name = NAMES[event.key];
    if (!act[name]) return;
    event.preventDefault();
    act[name]();
  });
}

const NAMES = {
  ArrowLeft: "earlier",
  ArrowRight: "later",
  ArrowUp: "rowAbove",
  ArrowDown: "rowBelow",
  PageUp: "pageAbove",
  PageDown: "pageBelow",
  Home: "firstRow",
  End: "lastRow",
  "+": "zoomIn",
  "=": "zoomIn",
  "-": "zoomOut",
  n: "nextEvent",
  p: "previousEvent",
  Enter: "explain",
  f: "follow",
  0: "whole",
  "?": "help",
  Escape: "close",
};
