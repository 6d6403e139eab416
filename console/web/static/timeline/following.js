// Follows the newest time: what the server says has changed, and the clock that the view moves by.

const AGAIN_MS = 5000; // until a refused stream is asked for again

/** The server's clock, from the moments that its answers say are now. */
export class ServerClock {
  constructor(nowMs) {
    this.heard(nowMs);
  }

  heard(nowMs) {
    this.ahead = nowMs - Date.now();
  }

  now() {
    return Date.now() + this.ahead;
  }
}

/** Calls `changed({version, newest})` when the window has changed, and `state(words)` when the connection has. */
export function listen(address, changed, state) {
  const stream = new EventSource(address);
  stream.addEventListener("message", (event) => changed(JSON.parse(event.data)));
  stream.addEventListener("open", () => state(""));
  stream.addEventListener("error", () => {
    state("What is new is not heard of now; it is tried again.");
    if (stream.readyState === EventSource.CLOSED) setTimeout(listen, AGAIN_MS, address, changed, state);
  });
  addEventListener("pagehide", () => stream.close(), { once: true });
}
