// Records: follows the end of a partition, and goes on with a search. Rows are made by the server.

import { localTimes } from "../live.js";

const ROWS_MAX = 500;

function rowsOf(html) {
  const made = document.createElement("template");
  made.innerHTML = `<table><tbody>${html}</tbody></table>`; // the server's own rows: it escapes every value
  localTimes(made.content);
  return [...made.content.querySelectorAll("tbody > tr")];
}

// --- live tail -----------------------------------------------------------------------------------

function tail(button) {
  const body = document.querySelector("#records tbody");
  const news = document.getElementById("news");
  let stream = null;
  let count = 0;

  function stop(words) {
    stream?.close();
    stream = null;
    button.textContent = "Follow live";
    news.textContent = words;
  }

  function take(message) {
    const said = JSON.parse(message.data);
    if (said.error) {
      stop(said.error);
      return;
    }
    const rows = rowsOf(said.html);
    body.append(...rows);
    while (body.rows.length > ROWS_MAX) body.rows[0].remove();
    count += said.count + said.left_out;
    const left = said.left_out ? ` ${said.left_out} came too fast, and are not shown.` : "";
    const words = `${count} new records.${left}`;
    if (news.textContent !== words) news.textContent = words;
    if (rows.length) body.rows[body.rows.length - 1].scrollIntoView({ block: "nearest" });
    const address = new URL(button.dataset.tail, location.href);
    address.searchParams.set("first", said.next);
    button.dataset.tail = address.pathname + address.search;
  }

  button.hidden = false;
  button.addEventListener("click", () => {
    if (stream) {
      stop(`${count} new records. Stopped.`);
      return;
    }
    stream = new EventSource(button.dataset.tail);
    button.textContent = "Stop";
    news.textContent = "Waiting for records.";
    stream.onmessage = take;
    stream.onerror = () => {
      if (stream?.readyState === EventSource.CLOSED) stop("The console does not answer, or has no room for another reader.");
    };
  });
  addEventListener("pagehide", () => stream?.close());
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
    const made = document.createElement("template");
    made.innerHTML = await response.text(); // the server's own page: it escapes every value
    localTimes(made.content);
    document.querySelector("#found tbody").append(...made.content.querySelectorAll("#found tbody > tr"));
    document.getElementById("progress").replaceChildren(...made.content.querySelector("#progress").childNodes);
  }
}

const button = document.getElementById("follow");
if (button) tail(button);
searchOn();
