// The buttons and the filters above the picture, and what the page says aloud.

import { FILTERS } from "./view.js";
import { length, moment } from "./words/words.js";

const SAID_AFTER_MS = 600;

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
  }

  fill(view) {
    this.form.elements.rows.value = view.rows;
    for (const name of FILTERS) if (this.form.elements[name]) this.form.elements[name].value = view.filters[name];
    this.form.elements.changed.checked = view.changed;
    for (const box of this.form.querySelectorAll("[name=kind]")) box.checked = view.kinds.includes(box.value);
  }

  /** The filters as they stand in the form. */
  read() {
    const filters = {};
    for (const name of FILTERS) filters[name] = this.form.elements[name]?.value.trim() ?? "";
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
    }, SAID_AFTER_MS / 4);
  }

  problem(words) {
    this.trouble.textContent = words;
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
