// Follows the newest time: what the server says has changed, and the clock that the view moves by.

import { follow } from "../stream.js";

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
  let isLost = false;
  const heard = (data) => {
    if (isLost) state("");
    isLost = false;
    changed(JSON.parse(data));
  };
  follow(address, heard, () => {
    isLost = true;
    state("What is new is not heard of now; it is tried again.");
  });
}
