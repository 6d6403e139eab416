// The explanation of an event: a sentence, its cause, the record that says so, what was before and after, and
// what belongs to it. All that comes from the cluster is put in as text.

import { asked } from "../store.js";
import { fieldWords, itemWords, momentElement, timesOf, valueWords, whenWords } from "./words.js";

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

  /** Lists what an item stands for, as far as the item has it. With `focus`, the keyboard goes there. */
  list(lane, item, { focus, zero }) {
    this.asking?.abort();
    this.element.removeAttribute("aria-busy");
    this.element.hidden = false;
    this.event = "";
    this.heading.textContent = `${item.merged} events, ${whenWords(item, zero)}`;
    const entries = item.parts.map((part) => ({ id: part.event, at: timesOf(part)[0], sentence: itemWords(lane, part) }));
    const left = item.merged - item.parts.length;
    const more = document.createElement("p");
    more.textContent = `${left} more are not listed.${lane.kind === "request" ? " Rows of requests have each of them." : ""}`;
    this.body.replaceChildren(this._entries(entries, zero), ...(left ? [more] : []));
    if (focus) this.heading.focus();
  }

  get isOpen() {
    return !this.element.hidden;
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
    if (said.related?.length) parts.push(headed("Related"), this._entries(said.related, zero));
    if (said.fields && Object.keys(said.fields).length) parts.push(fields(said.fields));
    this.body.replaceChildren(...parts);
  }

  /** A list of {id, at, sentence}: those with an id can be opened. */
  _entries(entries, zero) {
    const list = document.createElement("ul");
    for (const each of entries) {
      const said = document.createElement(each.id ? "button" : "span");
      said.append(...(each.at === null ? [] : [momentElement(each.at, zero), " "]), each.sentence);
      if (each.id) {
        said.type = "button";
        said.className = "timeline-link";
        said.addEventListener("click", () => this.open(each.id, each.at));
      }
      const item = document.createElement("li");
      item.append(said);
      list.append(item);
    }
    return list;
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
