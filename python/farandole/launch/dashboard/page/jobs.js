// The list of several jobs, each with a page of its own below this one.

import { SILENT_MS, listen } from "./stream.js";
import { byId, bytesText, countText, durationText, fill, make, numberText, put } from "./text.js";

// A controller that does not answer is given up after three seconds.
const SLOW_MS = 6000;

const seen = { about: null, jobs: [], toldAt: performance.now() };

function take({ jobs, ...about }) {
  Object.assign(seen, { about, jobs: jobs ?? seen.jobs, toldAt: performance.now() });
  put(byId("where"), `${countText(seen.jobs.length, "job")} ${about.where}`);
  document.title = `${seen.jobs.some((job) => job.bad) ? "✕ " : ""}${countText(seen.jobs.length, "job")}`;
  byId("none").hidden = seen.jobs.length > 0;
  fill(byId("jobs"), seen.jobs, makeRow, fillRow);
  drawBanner();
}

function makeRow() {
  const row = make("tr");
  const name = make("td");
  name.append(make("a"), make("code"));
  row.append(name, make("td"), make("td"), make("td"), make("td", "sentence"));
  return row;
}

function fillRow(row, job) {
  const [name, ...cells] = row.children;
  row.className = job.bad ? "bad" : "";
  name.firstChild.href = `${encodeURIComponent(job.job)}/`;
  put(name.firstChild, job.job);
  put(name.lastChild, job.command);
  name.lastChild.title = job.command;
  const rate = job.bytesPerSecond === null ? "" : `${bytesText(job.bytesPerSecond)}/s`;
  [job.state, numberText(job.size), rate, job.trouble].forEach((text, index) => put(cells[index], text));
}

function drawBanner() {
  const { about, toldAt } = seen;
  const silentMs = performance.now() - toldAt;
  let alert = about?.outage ? about.outage.text : "";
  let ageMs = about ? (about.now - about.heard) * 1000 + silentMs : silentMs;
  if (!alert && about?.asked && (about.now - about.asked) * 1000 + silentMs > SLOW_MS) {
    alert = "a controller takes long to answer";
  }
  if (silentMs > SILENT_MS) {
    alert = "farandole dashboard does not answer: the process that serves this page, or the way to it, is gone";
    ageMs = silentMs;
  }
  byId("banner").hidden = !alert;
  document.body.classList.toggle("old", Boolean(alert));
  put(byId("alert"), alert);
  put(byId("alert-age"), alert && `shown: what there was ${durationText(ageMs)} ago`);
}

setInterval(drawBanner, 500);
listen(take);
