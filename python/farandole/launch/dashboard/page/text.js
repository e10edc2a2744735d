// Numbers as people read them, in the words of `farandole status`; and the little of the DOM that all parts need.

const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

export function countText(count, word) {
  if (count === 1) return `1 ${word}`;
  return `${whole.format(count)} ${word}${word.endsWith("ch") ? "es" : "s"}`;
}

export function numberText(number) {
  return number !== 0 && number < 10 ? `${Math.round(number * 10) / 10}` : whole.format(number);
}

// Decimal units: "0 B", "12.3 MB".
export function bytesText(count) {
  for (const unit of ["B", "kB", "MB", "GB", "TB"]) {
    if (count < 1000 || unit === "TB") return unit === "B" ? `${Math.round(count)} B` : `${count.toFixed(1)} ${unit}`;
    count /= 1000;
  }
}

// "0.5 s", "12 s", "3 min 5 s", "2 h 4 min".
export function durationText(ms) {
  if (ms < 10000) return `${(ms / 1000).toFixed(1)} s`;
  const seconds = Math.floor(ms / 1000);
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
}

export function msText(ms) {
  return `${ms.toFixed(ms < 100 ? 1 : 0)} ms`;
}

export function timeText(seconds) {
  return new Date(seconds * 1000).toLocaleTimeString("en-GB");
}

// "running" of JOB_STATE_RUNNING, "replaying" of ACTIVITY_REPLAYING.
export function stateText(status) {
  const runs = status.state === "JOB_STATE_RUNNING" && status.activity !== "ACTIVITY_NONE";
  return String(runs ? status.activity : status.state).replace(/^(ACTIVITY|JOB_STATE)_/, "").toLowerCase();
}

export const byId = (id) => document.getElementById(id);

// Changes the text only if it is another one: screen readers and selections stay where they are.
export function put(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function make(name, className, text) {
  const node = document.createElement(name);
  if (className) node.className = className;
  if (text !== undefined) node.textContent = text;
  return node;
}

// As many children as items, each made once and filled again and again.
export function fill(parent, items, makeOne, fillOne) {
  while (parent.children.length > items.length) parent.lastChild.remove();
  while (parent.children.length < items.length) parent.append(makeOne());
  items.forEach((item, index) => fillOne(parent.children[index], item));
}
