// The buttons and the filters above the picture, and what the page says aloud.

import { FILTERS, toAddress } from "./view.js";
import { length, moment } from "./words/words.js";

const SAID_AFTER_MS = 150;
const FOLDED = FILTERS.filter((name) => name !== "text"); // the filters that the form has folded away

export class Controls {
  constructor(root, view, act) {
    this.form = root.querySelector("[data-filters]");
    this.shownTime = root.querySelector("[data-time]");
    this.status = root.querySelector("[data-status]");
    this.trouble = root.querySelector("[data-trouble]");
    this.keysHelp = root.querySelector("[data-help]");
    this.followButton = root.querySelector("[data-do=follow]");
    for (const button of root.querySelectorAll("[data-do]")) {
      const name = button.dataset.do;
      button.addEventListener("click", () => (name === "copy" ? this.copy() : act[name]()));
    }
    for (const button of root.querySelectorAll("[data-span]")) {
      button.addEventListener("click", () => act.span(Number(button.dataset.span)));
    }
    this.fill(view);
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      act.filter(this.read());
    });
    this.form.addEventListener("change", () => act.filter(this.read()));
    this.active = root.querySelector("[data-active]");
    this.filter = act.filter;
    this.showActive(view);
  }

  /** The filters that hold and are folded away, in words: each is a link to the page without it. */
  showActive(view) {
    const entries = FOLDED.filter((name) => view.filters[name]).map((name) => {
      return { words: `${name} ${view.filters[name]}`, without: { filters: { ...view.filters, [name]: "" } } };
    });
    for (const box of this.form.querySelectorAll("[name=kind]:checked")) {
      const without = { kinds: view.kinds.filter((kind) => kind !== box.value) };
      entries.push({ words: box.parentElement.textContent.trim(), without });
    }
    this.active.replaceChildren(...entries.map(({ words, without }) => this._removable(view, words, without)));
  }

  _removable(view, words, without) {
    const link = document.createElement("a");
    link.href = toAddress({ ...view, ...without });
    const [sign, said] = [document.createElement("span"), document.createElement("span")];
    sign.ariaHidden = "true";
    sign.textContent = " ✕";
    said.className = "visually-hidden";
    said.textContent = ": remove";
    link.append(words, sign, said);
    link.addEventListener("click", (event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey) return; // in another tab
      event.preventDefault();
      this.fill({ ...view, ...without });
      this.filter(this.read());
      this.form.querySelector("summary").focus();
    });
    const entry = document.createElement("li");
    entry.append(link);
    return entry;
  }

  fill(view) {
    this.form.elements.rows.value = view.rows;
    for (const name of FILTERS) this.form.elements[name].value = view.filters[name];
    this.form.elements.changed.checked = view.changed;
    for (const box of this.form.querySelectorAll("[name=kind]")) box.checked = view.kinds.includes(box.value);
  }

  /** The filters as they stand in the form. */
  read() {
    const filters = {};
    for (const name of FILTERS) filters[name] = this.form.elements[name].value.trim();
    const kinds = [...this.form.querySelectorAll("[name=kind]:checked")].map((box) => box.value);
    return { rows: this.form.elements.rows.value, filters, kinds, changed: this.form.elements.changed.checked };
  }

  /** Says which time is in sight. */
  shown(view, zero) {
    const words = `${moment(view.from, zero)} to ${moment(view.until, zero)}, ${length(view.until - view.from)}`;
    if (this.shownTime.textContent !== words) this.shownTime.textContent = words;
    const day = zero !== null ? "" : `${new Date(view.from).toISOString()} to ${new Date(view.until).toISOString()}`;
    this.shownTime.title = day;
    this.followButton?.setAttribute("aria-pressed", String(view.follow));
  }

  /** Says something once, politely. */
  say(words) {
    clearTimeout(this.saying);
    this.saying = setTimeout(() => {
      this.status.textContent = words;
    }, SAID_AFTER_MS);
  }

  problem(words) {
    if (this.trouble.textContent !== words) this.trouble.textContent = words; // it is read out when it is set
    this.trouble.hidden = !words;
  }

  help() {
    this.keysHelp.open = !this.keysHelp.open;
    if (this.keysHelp.open) this.keysHelp.querySelector("summary").focus();
  }

  async copy() {
    try {
      await navigator.clipboard.writeText(location.href);
      this.say("The link is copied.");
    } catch {
      this.say("The browser does not let the page copy: copy the address instead.");
    }
  }
}
