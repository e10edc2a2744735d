// The list of several jobs, each with a page of its own below this one.

import { SILENT_MS, listen } from "./stream.js";
import { byId, bytesText, countText, durationText, fill, make, numberText, put } from "./text.js";

// The server makes the list again every five seconds, and waits for three for a controller.
const OLD_MS = 15000;

const seen = { about: null, jobs: [], toldAt: performance.now() };

function take({ jobs, ...about }) {
  Object.assign(seen, { about, jobs: jobs ?? seen.jobs, toldAt: performance.now() });
  put(byId("where"), `${countText(seen.jobs.length, "job")} ${about.where}`);
  document.title = `${seen.jobs.some((job) => job.bad) ? "✕ " : ""}${seen.jobs.length} jobs`;
  byId("none").hidden = seen.jobs.length > 0;
  fill(byId("jobs"), seen.jobs, makeRow, fillRow);
  drawBanner();
}

function makeRow() {
  const row = make("tr");
  const name = make("td");
  name.append(make("a"));
  row.append(name, make("td"), make("td"), make("td"), make("td", "sentence"));
  return row;
}

function fillRow(row, job) {
  const [name, ...cells] = row.children;
  row.className = job.bad ? "bad" : "";
  name.firstChild.href = `${encodeURIComponent(job.job)}/`;
  name.firstChild.title = job.command;
  put(name.firstChild, job.job);
  const rate = job.bytesPerSecond ? `${bytesText(job.bytesPerSecond)}/s` : "";
  [job.state, numberText(job.size), rate, job.trouble].forEach((text, index) => put(cells[index], text));
}

function drawBanner() {
  const { about, toldAt } = seen;
  const silentMs = performance.now() - toldAt;
  let ageMs = about ? (about.now - about.heard) * 1000 + silentMs : silentMs;
  let alert = about?.outage ? about.outage.text : "";
  if (!alert && ageMs > OLD_MS) alert = "the list is old: a controller takes long to answer";
  if (silentMs > SILENT_MS) {
    alert = "farandole dashboard does not answer: the process that serves this page, or the way to it, is gone";
    ageMs = silentMs;
  }
  byId("banner").hidden = !alert;
  document.body.classList.toggle("old", Boolean(alert));
  put(byId("alert"), alert);
  put(byId("alert-age"), alert && `for ${durationText(ageMs)}`);
}

setInterval(drawBanner, 500);
listen(take);
