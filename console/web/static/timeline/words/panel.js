// The explanation of an event: a sentence, its cause, the record that says so, what was before and after, and
// what belongs to it. All that comes from the cluster is put in as text.

import { asked } from "../store.js";
import { fieldWords, momentElement, valueWords } from "./words.js";

export class Panel {
  /** `open(id, at)` opens another event, `closed()` is called when the panel is closed. */
  constructor(element, api, { open, closed }) {
    this.element = element;
    this.body = element.querySelector("[data-panel-body]");
    this.heading = element.querySelector("h2");
    this.api = api;
    this.open = open;
    this.event = "";
    this.asking = null;
    element.querySelector("[data-panel-close]").addEventListener("click", closed);
  }

  /** Shows an event. With `focus`, the keyboard goes there. Returns its answer, or null. */
  async show(event, { run, focus, zero }) {
    this.element.hidden = false;
    this.event = event;
    this.asking?.abort();
    this.asking = new AbortController();
    const { signal } = this.asking;
    this.element.setAttribute("aria-busy", "true");
    try {
      const path = event.split("/").map(encodeURIComponent).join("/");
      const said = await asked(`${this.api}/event/${path}${run ? `?run=${encodeURIComponent(run)}` : ""}`, signal);
      if (signal.aborted) return null;
      this._fill(said, zero);
      return said;
    } catch (error) {
      if (signal.aborted) return null;
      this.heading.textContent = error.message;
      this.body.replaceChildren();
      return null;
    } finally {
      if (!signal.aborted) {
        this.element.removeAttribute("aria-busy");
        if (focus) this.heading.focus();
      }
    }
  }

  close() {
    this.asking?.abort();
    this.element.hidden = true;
    this.event = "";
  }

  _fill(said, zero) {
    this.heading.textContent = said.sentence;
    const facts = document.createElement("dl");
    fact(facts, "when", momentElement(said.at, zero));
    if (said.cause) fact(facts, "cause", said.cause);
    if (said.record) fact(facts, "record", recordLink(said.record));
    const parts = [facts];
    if (said.before || said.after) parts.push(changed(said.before ?? {}, said.after ?? {}));
    if (said.related?.length) parts.push(...this._related(said.related, zero));
    if (said.fields && Object.keys(said.fields).length) parts.push(fields(said.fields));
    this.body.replaceChildren(...parts);
  }

  _related(related, zero) {
    const list = document.createElement("ul");
    for (const each of related) {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "timeline-link";
      button.append(momentElement(each.at, zero), ` ${each.sentence}`);
      button.addEventListener("click", () => this.open(each.id, each.at));
      const item = document.createElement("li");
      item.append(button);
      list.append(item);
    }
    return [headed("Related"), list];
  }
}

function headed(words) {
  const heading = document.createElement("h3");
  heading.textContent = words;
  return heading;
}

function fact(list, name, value) {
  const term = document.createElement("dt");
  term.textContent = name;
  const said = document.createElement("dd");
  said.append(value);
  list.append(term, said);
}

/** The record that says so: in a topic, or in a line of a run's file. */
function recordLink({ topic, partition, offset, file, line }) {
  if (file) return `${file}, line ${line}`;
  const link = document.createElement("a");
  link.href = `/topics/${encodeURIComponent(topic)}/${partition}/records/${offset}`;
  link.textContent = `${topic}-${partition}@${offset}`;
  return link;
}

function changed(before, after) {
  const table = document.createElement("table");
  const head = table.createTHead().insertRow();
  for (const words of ["", "before", "after"]) {
    const cell = document.createElement(words ? "th" : "td");
    if (words) cell.scope = "col";
    cell.textContent = words;
    head.append(cell);
  }
  const body = table.createTBody();
  [before, after] = [before, after].map(flat);
  for (const name of new Set([...Object.keys(before), ...Object.keys(after)])) {
    const row = body.insertRow();
    const title = document.createElement("th");
    title.scope = "row";
    title.textContent = fieldWords(name);
    row.append(title);
    for (const side of [before, after]) row.insertCell().textContent = name in side ? valueWords(side[name]) : "–";
  }
  return table;
}

/** Values that have names of their own stand for themselves: what each member has, for instance. */
function flat(side) {
  const named = (value) => value !== null && typeof value === "object" && !Array.isArray(value);
  return Object.fromEntries(Object.entries(side).flatMap(([name, value]) => (named(value) ? Object.entries(value) : [[name, value]])));
}

function fields(all) {
  const details = document.createElement("details");
  const summary = document.createElement("summary");
  summary.textContent = "All fields of the record";
  const list = document.createElement("dl");
  for (const [name, value] of Object.entries(all)) fact(list, name, valueWords(value));
  details.append(summary, list);
  return details;
}
