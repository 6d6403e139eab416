// Makes a page live: sections with data-live are loaded again when the cluster has changed; times are shown in
// this browser's zone. A page without this script shows the same, as it was when it was loaded.

import { follow } from "./stream.js";

const PAUSE_MS = 500;
const NOT_FOUND = 404;

// --- times ---------------------------------------------------------------------------------------

const today = new Intl.DateTimeFormat(undefined, {
  hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3, hourCycle: "h23",
});
const otherDay = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium", hourCycle: "h23" });

/** Writes every <time> below `root` in this browser's zone. */
export function localTimes(root) {
  const now = new Date();
  for (const each of root.querySelectorAll("time[datetime]")) {
    const at = new Date(each.dateTime);
    if (Number.isNaN(at.getTime())) continue;
    each.textContent = (at.toDateString() === now.toDateString() ? today : otherDay).format(at);
  }
}

// --- sections ------------------------------------------------------------------------------------

const FOCUSABLE = "a[href], button, input, select, textarea, summary, [tabindex]";
const last = new WeakMap();

/** The address of a section's newest content: the page's own query stays, with the part added. */
function addressOf(section) {
  const address = new URL(section.dataset.live, location.href);
  if (address.pathname === location.pathname) {
    for (const [name, value] of new URLSearchParams(location.search)) {
      if (!address.searchParams.has(name)) address.searchParams.append(name, value);
    }
  }
  return address;
}

/** Whether a person is writing in this section, or has text of it selected: it then stays as it is. */
function isInUse(section) {
  const active = document.activeElement;
  if (active && section.contains(active) && active.matches("input:not([type=hidden]), select, textarea")) return true;
  const selection = getSelection();
  return selection !== null && !selection.isCollapsed && section.contains(selection.anchorNode);
}

function replace(section, html) {
  const focused = section.contains(document.activeElement) ? document.activeElement : null;
  const place = focused ? [...section.querySelectorAll(FOCUSABLE)].indexOf(focused) : -1;
  const id = focused?.id;
  const open = new Set([...section.querySelectorAll("details[open][id]")].map((each) => each.id));
  const scrolled = new Map(
    [...section.querySelectorAll("[role=region][aria-label]")].map((each) => [each.getAttribute("aria-label"), [each.scrollLeft, each.scrollTop]]),
  );
  section.innerHTML = html; // the server's own page: it escapes every value, and the policy runs no inline script
  localTimes(section);
  for (const each of section.querySelectorAll("details[id]")) if (open.has(each.id)) each.open = true;
  for (const each of section.querySelectorAll("[role=region][aria-label]")) {
    const [left, top] = scrolled.get(each.getAttribute("aria-label")) ?? [0, 0];
    each.scrollLeft = left;
    each.scrollTop = top;
  }
  if (focused) {
    const again = (id && document.getElementById(id)) || section.querySelectorAll(FOCUSABLE)[place];
    again?.focus({ preventScroll: true });
  }
  section.dispatchEvent(new CustomEvent("live:replaced", { bubbles: true }));
}

/** Whether the cluster no longer has the topic or the group that this page is about. */
let isGone = false;

/** For a page whose own stream says so. */
export function subjectIsGone() {
  isGone = true;
  tell();
}

/** Shows the server's words for what is gone in place of all that the page had to say of it. */
function showGone(section, html) {
  if (isGone && html === last.get(section)) return;
  last.set(section, html);
  for (const each of document.querySelectorAll("#main > :not(h1, #old)")) each.hidden = !each.contains(section);
  replace(section, html);
  subjectIsGone();
}

/** How often each section was asked for, and which of the answers it shows: a late one is older than what is shown. */
const asked = new WeakMap();
const shown = new WeakMap();

async function refresh(section) {
  const number = (asked.get(section) ?? 0) + 1;
  asked.set(section, number);
  const response = await fetch(addressOf(section), { headers: { Accept: "text/html" } });
  if (response.redirected && new URL(response.url).pathname === "/login") location.reload();
  if (!response.ok && response.status !== NOT_FOUND) return;
  const html = await response.text();
  if (number < (shown.get(section) ?? 0)) return;
  shown.set(section, number);
  if (!response.ok) showGone(section, html);
  else if (isGone && section.id !== "old") location.reload(); // what has the name now may be another one
  else if (html !== last.get(section) && !isInUse(section)) {
    last.set(section, html);
    replace(section, html);
  }
}

async function refreshAll() {
  const sections = [...document.querySelectorAll("[data-live]")];
  await Promise.allSettled(sections.map(refresh));
  tell();
}

// --- the stream of changes -----------------------------------------------------------------------

const HEALTH = "/healthz";
const state = document.getElementById("connection");
const silent = document.getElementById("silent");
/** Until when the page followed the console; null while it does. */
let followedUntil = new Date();

/** Says at the top how far the page can be relied on. */
function tell() {
  const isOld = document.querySelector("#old p.old") !== null;
  const words = followedUntil ? "not connected" : isGone ? "gone" : isOld ? "not up to date" : "live";
  if (state && state.textContent !== words) state.textContent = words;
}

let wanted = false;
let running = false;

async function refreshSoon() {
  wanted = true;
  if (running) return;
  running = true;
  while (wanted) {
    wanted = false;
    await refreshAll();
    await new Promise((done) => setTimeout(done, PAUSE_MS));
  }
  running = false;
}

/** A console that refuses a stream still answers; one that has ended cannot say so, and the page would look live. */
async function sayWhetherSilent() {
  const answers = await fetch(HEALTH).then((response) => response.ok, () => false);
  if (!followedUntil) return; // it is back
  const time = silent.querySelector("time");
  time.dateTime = followedUntil.toISOString();
  localTimes(silent);
  silent.hidden = answers;
}

function followCluster() {
  const heard = () => {
    followedUntil = null;
    silent.hidden = true;
    tell();
    refreshSoon();
  };
  follow("/live", heard, (refused) => {
    followedUntil ??= new Date();
    tell();
    if (refused) refreshSoon(); // if the login has ended, this leads to its page
    sayWhetherSilent();
  });
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) followedUntil ??= new Date(); // a page out of sight hears nothing
  });
}

/** Sections with data-every change also while the cluster's state stays as it is: sizes, rates, progress. */
function repeat() {
  for (const section of document.querySelectorAll("[data-live][data-every]")) {
    setInterval(() => document.hidden || refresh(section).catch(() => undefined), 1000 * Number(section.dataset.every));
  }
}

addEventListener("pageshow", (event) => {
  if (event.persisted) location.reload();
});

// --- theme ---------------------------------------------------------------------------------------

function themeSwitch() {
  const button = document.getElementById("theme");
  if (!button) return;
  const isDark = () => (document.documentElement.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const name = () => (button.textContent = isDark() ? "Light theme" : "Dark theme");
  button.hidden = false;
  name();
  button.addEventListener("click", () => {
    const theme = isDark() ? "light" : "dark";
    document.documentElement.dataset.theme = theme;
    name();
    try {
      localStorage.setItem("strandline-theme", theme);
    } catch {
      // Storage may be switched off; the choice then holds for this page.
    }
  });
}

localTimes(document);
document.querySelector("[data-zone]").textContent = "Times are in this browser's zone; hold the pointer over one for UTC.";
themeSwitch();
if (document.querySelector("[data-live]")) followCluster();
repeat();
