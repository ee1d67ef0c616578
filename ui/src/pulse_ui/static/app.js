// The dashboard reads without this file. With it, pages stay fresh and hands stay on the keyboard.
"use strict";

const REFRESH_MS = 2000;
const find = (selector) => document.querySelector(selector);
const live = find("#live[hx-get]");

// Live: the page asks for its own live part again, unless that could disturb the person in front of it.

const liveSwitch = find("#live-switch");
let wanted = sessionStorage.getItem("pulse-live") !== "off";
let asking = false;

function isTyping() {
  const active = document.activeElement;
  return active instanceof HTMLElement && active.matches("input:not([type=checkbox], [type=radio]), textarea, select:not(.tool)");
}

function isDirty(field) {
  if (field.type === "hidden" || field.closest("header, dialog")) return false;
  if (field instanceof HTMLSelectElement) {
    return [...field.options].some((option) => option.selected !== option.defaultSelected);
  }
  if (field.type === "checkbox" || field.type === "radio") return field.checked !== field.defaultChecked;
  return field.value !== field.defaultValue;
}

function reasonToWait() {
  if (isTyping()) return "while you type";
  if ([...document.querySelectorAll("main input, main textarea, main select")].some(isDirty)) return "while something is filled in or selected";
  if (!getSelection().isCollapsed) return "while text is selected";
  if (find("dialog[open], :popover-open, details.menu[open]")) return "while a dialog is open";
  return "";
}

function showLive() {
  if (!live || !liveSwitch) return;
  const reason = wanted ? reasonToWait() : "";
  const state = !wanted ? "off" : reason ? "held" : "on";
  if (liveSwitch.dataset.live === state && liveSwitch.dataset.reason === reason) return;
  liveSwitch.dataset.live = state;
  liveSwitch.dataset.reason = reason;
  liveSwitch.setAttribute("aria-pressed", String(wanted));
  liveSwitch.querySelector(".words").textContent = { on: "Live", held: "Waiting", off: "Paused" }[state];
  liveSwitch.title = { on: "Refreshes every two seconds; click to pause", held: `Paused ${reason}`, off: "Paused; click for live" }[state];
}

function refresh() {
  if (!asking && wanted && document.visibilityState === "visible" && !reasonToWait()) htmx.trigger(live, "refresh");
}

function toggleLive() {
  wanted = !wanted;
  sessionStorage.setItem("pulse-live", wanted ? "on" : "off");
  showLive();
  refresh();
}

function showAnswer(answered) {
  find("#offline").hidden = answered;
  const state = find("#state");
  if (answered && state) find("#icon").href = state.dataset.icon;
  else if (!document.title.startsWith("Unreachable: ")) document.title = `Unreachable: ${document.title}`;
}

if (live) {
  liveSwitch.hidden = false;
  liveSwitch.addEventListener("click", toggleLive);
  showLive();
  setInterval(() => { showLive(); refresh(); }, REFRESH_MS);
  for (const event of ["focusin", "focusout", "selectionchange", "input", "toggle"]) document.addEventListener(event, () => setTimeout(showLive), true);
  document.addEventListener("visibilitychange", refresh);
  // The answer may come when the person has begun to type: then it is thrown away.
  live.addEventListener("htmx:before:request", () => { asking = true; });
  live.addEventListener("htmx:before:swap", (event) => { if (reasonToWait()) event.preventDefault(); });
  // A page that came as a problem has no head of its own: once the problem is over it is loaded whole.
  const cameAsProblem = find("#live .problem") !== null;
  live.addEventListener("htmx:after:swap", () => {
    if (cameAsProblem && !find("#live .problem")) location.reload();
    showAnswer(true);
    enhance();
  });
  live.addEventListener("htmx:error", () => showAnswer(false));
  live.addEventListener("htmx:finally:request", () => { asking = false; });
}

// Copy buttons: the exact text of the element that they name.

async function copy(button) {
  const source = document.getElementById(button.dataset.copy);
  const range = document.createRange();
  range.selectNodeContents(source);
  try {
    await navigator.clipboard.writeText(source.textContent);
  } catch {
    // Plain http on another host has no clipboard: select the text, so that Ctrl-C does it.
    getSelection().removeAllRanges();
    getSelection().addRange(range);
    return;
  }
  const words = button.lastChild;
  const before = words.textContent;
  words.textContent = "Copied";
  setTimeout(() => { words.textContent = before; }, 1500);
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-copy]");
  if (button) copy(button);
});

// Selection of rows.

const boxes = () => [...document.querySelectorAll("tbody input[name=id]")];

function showSelection() {
  const count = boxes().filter((box) => box.checked).length;
  const words = find("#selected");
  if (words) words.textContent = `${count} selected`;
  for (const button of document.querySelectorAll(".selection button")) button.disabled = count === 0;
  const all = find("#select-all");
  if (all) {
    all.checked = count > 0 && count === boxes().length;
    all.indeterminate = count > 0 && !all.checked;
  }
  showLive();
}

document.addEventListener("change", (event) => {
  if (event.target.id === "select-all") for (const box of boxes()) box.checked = event.target.checked;
  if (event.target.closest("tbody, #select-all")) showSelection();
});

// What is on the page now, after a load or a swap.

function enhance() {
  for (const element of document.querySelectorAll("[data-copy], #select-all")) element.hidden = false;
  showSelection();
}

// Countdowns go on between two refreshes.

function tick() {
  for (const element of document.querySelectorAll("[data-until]")) {
    const left = Math.floor((new Date(element.dataset.until) - Date.now()) / 1000);
    const minutes = Math.floor(left / 60);
    element.textContent = left < 0 ? "over: waiting for the watchdog" : minutes ? `${minutes}m ${left % 60}s left` : `${left}s left`;
  }
}
setInterval(tick, 1000);

// Theme: a cookie, so that the next page comes in it.

const theme = find("#theme");
theme.hidden = false;
theme.addEventListener("change", () => {
  document.documentElement.dataset.theme = theme.value;
  document.cookie = `pulse_ui_theme=${theme.value}; path=/; max-age=31536000; samesite=lax`;
});

// The form of a schedule shows the fields of the chosen kind.

function showKind() {
  const chosen = find("input[name=kind]:checked");
  for (const part of document.querySelectorAll(".kind")) part.hidden = chosen && part.dataset.kind !== chosen.value;
}
for (const radio of document.querySelectorAll("input[name=kind]")) radio.addEventListener("change", showKind);

// Forms are sent once.

document.addEventListener("submit", (event) => {
  if (event.target.method !== "post") return;
  if (event.target.dataset.sent) event.preventDefault();
  event.target.dataset.sent = "yes";
});
window.addEventListener("pageshow", () => {
  for (const form of document.querySelectorAll("form[data-sent]")) delete form.dataset.sent;
  showSelection();
});

// Keyboard.

const help = find("#help");
const helpButton = find("#help-button");
helpButton.hidden = false;
helpButton.addEventListener("click", () => help.showModal());

function moveRow(step) {
  const links = [...document.querySelectorAll("tbody .row-link")];
  const here = links.findIndex((link) => link.closest("tr").contains(document.activeElement));
  const next = links[here < 0 ? (step > 0 ? 0 : links.length - 1) : Math.min(Math.max(here + step, 0), links.length - 1)];
  if (next) next.focus();
}

function toggleRow() {
  const box = document.activeElement?.closest("tr")?.querySelector("input[name=id]");
  if (box) {
    box.checked = !box.checked;
    showSelection();
  }
}

const KEYS = {
  "/": () => find("#search").focus(),
  "?": () => help.showModal(),
  j: () => moveRow(1),
  k: () => moveRow(-1),
  x: toggleRow,
  l: () => live && toggleLive(),
};

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && isTyping()) document.activeElement.blur();
  const action = KEYS[event.key];
  if (!action || event.ctrlKey || event.metaKey || event.altKey || isTyping() || help.open) return;
  event.preventDefault();
  action();
});

enhance();
showKind();
