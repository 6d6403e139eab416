// Records: follows the end of a partition, and goes on with a search. Rows are made by the server.

import { localTimes, subjectIsGone } from "../live.js";
import { whileInSight } from "../stream.js";

const ROWS_MAX = 500;
const AGAIN_MS = 2000; // until a stream that broke is asked for again

/** What an answer of the server shows, with its times in this browser's zone. */
function parsed(html) {
  const made = document.createElement("template");
  made.innerHTML = html; // the server's own: it escapes every value
  localTimes(made.content);
  return made.content;
}

// --- live tail -----------------------------------------------------------------------------------

function tail(button) {
  const body = document.querySelector("#records tbody");
  const news = document.getElementById("news");
  let leave = null; // ends the following
  let count = 0;

  function begin() {
    let stream;
    let again; // the timer that begins it anew
    function ask() {
      stream = new EventSource(button.dataset.tail);
      stream.onmessage = take;
      stream.onerror = () => {
        if (stream.readyState === EventSource.CLOSED) {
          stop("The console does not answer, or has no room for another reader.");
          return;
        }
        stream.close(); // the browser would ask at the old address for records that are here already
        again = setTimeout(ask, AGAIN_MS);
      };
    }
    ask();
    return () => {
      clearTimeout(again);
      stream.close();
    };
  }

  function stop(words) {
    leave();
    leave = null;
    button.textContent = "Follow live";
    news.replaceChildren(words);
  }

  function take(message) {
    const said = JSON.parse(message.data);
    if (said.ended) {
      stop(parsed(said.ended));
      button.hidden = said.gone;
      if (said.gone) subjectIsGone();
      return;
    }
    const rows = [...parsed(`<table><tbody>${said.html}</tbody></table>`).querySelectorAll("tbody > tr")];
    body.append(...rows);
    while (body.rows.length > ROWS_MAX) body.rows[0].remove();
    count += said.count + said.left_out;
    const left = said.left_out ? ` ${said.left_out} came too fast, and are not shown.` : "";
    const words = `${counted()}${left}`;
    if (news.textContent !== words) news.textContent = words;
    if (rows.length) body.rows[body.rows.length - 1].scrollIntoView({ block: "nearest" });
    const address = new URL(button.dataset.tail, location.href);
    address.searchParams.set("first", said.next);
    button.dataset.tail = address.pathname + address.search;
  }

  function counted() {
    return count === 1 ? "1 new record." : `${count} new records.`;
  }

  button.hidden = false;
  button.addEventListener("click", () => {
    if (leave) {
      stop(`${counted()} Stopped.`);
      return;
    }
    leave = whileInSight(begin);
    button.textContent = "Stop";
    news.textContent = "Waiting for records.";
  });
}

// --- search --------------------------------------------------------------------------------------

async function searchOn() {
  for (;;) {
    const link = document.getElementById("search-on");
    if (!link || link.dataset.stuck) return;
    const address = new URL(link.href);
    address.searchParams.set("part", "found");
    const response = await fetch(address);
    if (!response.ok || !document.contains(link)) return;
    const made = parsed(await response.text());
    document.querySelector("#found tbody").append(...made.querySelectorAll("#found tbody > tr"));
    document.getElementById("progress").replaceChildren(...made.querySelector("#progress").childNodes);
  }
}

const button = document.getElementById("follow");
if (button) tail(button);
searchOn();
