// Follows the newest time: what the server says has changed, and the clock that the view moves by.

/** The server's clock, from the moments that its answers say are now. */
export class ServerClock {
  constructor(nowMs) {
    this.ahead = nowMs - Date.now();
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
  stream.addEventListener("message", (event) => {
    const said = JSON.parse(event.data);
    changed(said);
  });
  stream.addEventListener("open", () => state(""));
  stream.addEventListener("error", () => state("The connection is lost; it is tried again."));
  return stream;
}
