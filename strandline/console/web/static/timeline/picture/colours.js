// The colours of the page's scheme, read from its custom properties through an element, so that the style sheet alone decides them.

const BROKERS = 8; // colours; broker 9 has that of broker 1, and its number is written

const NAMES = ["ground", "raised", "text", "soft", "rule", "edge", "quiet", "bad", "warn", "hw", "leo", "request", "accent"];
const SPANS = ["generation", "owned", "learner", "reassignment", "drain", "alive", "other"];

/** The colours that hold now. `element`: where the properties are read. */
export function read(element) {
  const probe = element.appendChild(document.createElement("span"));
  const named = (name) => {
    probe.style.color = `var(--timeline-${name}, var(--timeline-span))`;
    return getComputedStyle(probe).color;
  };
  const colours = Object.fromEntries(NAMES.map((name) => [name, named(name)]));
  const brokers = Array.from({ length: BROKERS }, (_, number) => named(`broker-${number}`));
  const spans = Object.fromEntries(SPANS.map((kind) => [kind, named(`span-${kind}`)]));
  const made = {
    ...colours,
    badSoft: named("bad-soft"),
    onBroker: named("on-broker"),
    hatch: hatched(colours.soft),
    broker: (number) => brokers[((number % BROKERS) + BROKERS) % BROKERS],
    span: (kind) => spans[kind] ?? spans.other,
  };
  probe.remove();
  return made;
}

/** Calls back when the scheme changes: the system's, or the page's own switch. */
export function watch(changed) {
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", changed);
  matchMedia("(forced-colors: active)").addEventListener("change", changed);
  new MutationObserver(changed).observe(document.documentElement, { attributes: true });
}

function hatched(colour) {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 6;
  const pen = tile.getContext("2d");
  pen.strokeStyle = colour;
  pen.lineWidth = 1.2;
  pen.beginPath();
  for (const shift of [-6, 0, 6]) {
    pen.moveTo(shift - 1, 7);
    pen.lineTo(shift + 7, -1);
  }
  pen.stroke();
  return pen.createPattern(tile, "repeat");
}
