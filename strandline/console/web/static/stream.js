// Streams of server-sent events, few enough for a browser, which opens six connections to a host and no more.
//
// Only pages in sight have streams. Of those that follow one address, the page that holds the lock of this name has the
// stream, and tells the others. Locks need a secure page (https, or a host on this machine): elsewhere each page in
// sight has a stream of its own.

const AGAIN_MS = 2000; // until a refused stream is asked for again
const ASK = "ask"; // a page has come into sight: it needs what was said last

/** Calls `begin()` when the page is in sight, and what it returned when it is not. Returns what ends this for good. */
export function whileInSight(begin) {
  let end = null;
  const stop = () => {
    end?.();
    end = null;
  };
  const look = () => {
    if (document.hidden) stop();
    else end ??= begin();
  };
  const leave = () => {
    document.removeEventListener("visibilitychange", look);
    removeEventListener("pagehide", leave);
    stop();
  };
  document.addEventListener("visibilitychange", look);
  addEventListener("pagehide", leave); // a page that the browser brings back is loaded again
  look();
  return leave;
}

/**
 * Calls `heard(data)` for each event of a stream whose server sends one at once: so also when the page comes into sight.
 * Calls `lost(refused)` when the stream has ended; it is tried again.
 */
export function follow(address, heard, lost) {
  const take = (said) => ("data" in said ? heard(said.data) : lost(said.refused));
  whileInSight(() => (navigator.locks ? shared(address, take) : own(address, take)));
}

function own(address, tell) {
  let stream;
  let again;
  function begin() {
    stream = new EventSource(address);
    stream.onmessage = ({ data }) => tell({ data });
    stream.onerror = () => {
      const refused = stream.readyState === EventSource.CLOSED; // else the browser tries again
      tell({ refused });
      if (refused) again = setTimeout(begin, AGAIN_MS);
    };
  }
  begin();
  return () => {
    clearTimeout(again);
    stream.close();
  };
}

function shared(address, take) {
  const channel = new BroadcastChannel(address);
  const leaving = new AbortController();
  let last = null; // what was said last, if this page has the stream
  channel.onmessage = ({ data: said }) => {
    if (said !== ASK) take(said);
    else if (last) channel.postMessage(last);
  };
  const hold = () =>
    new Promise((release) => {
      const close = own(address, (said) => {
        last = said;
        take(said);
        channel.postMessage(said);
      });
      leaving.signal.addEventListener("abort", () => {
        close();
        release();
      });
    });
  const held = navigator.locks.request(address, { signal: leaving.signal }, () => leaving.signal.aborted || hold());
  held.catch(() => undefined); // it left before its turn
  channel.postMessage(ASK);
  return () => {
    leaving.abort();
    channel.close();
  };
}
