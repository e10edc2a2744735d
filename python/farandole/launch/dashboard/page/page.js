// The page of one job: takes what the server tells, and draws it when the browser is about to paint.

import { Curve } from "./chart.js";
import { Ranks, missing } from "./ranks.js";
import { Recording } from "./recording.js";
import { SILENT_MS, listen } from "./stream.js";
import { byId, bytesText, countText, durationText, fill, make, msText, numberText, put, stateText, timeText } from "./text.js";

const SAMPLES_MAX = 1800; // history.py keeps as many
const EVENTS_MAX = 200;
const LONG_WAIT_MS = 10000;

const seen = { status: null, samples: [], events: [], about: null, toldAt: performance.now() };
const ranks = new Ranks();
const curves = [
  new Curve(byId("curves"), { title: "Bytes, all ranks", value: (s) => s[1], text: (n) => `${bytesText(n)}/s` }),
  new Curve(byId("curves"), {
    title: "Batches, all ranks",
    value: (s) => s[2],
    text: (n) => `${numberText(n)}/s`,
    note: (s) => (s[3] === null ? "" : `, ${numberText(s[3])} steps/s`),
  }),
  new Curve(byId("curves"), {
    title: "Latest rank",
    value: (s) => s[4],
    text: msText,
    note: (s) => (s[5] < 0 ? "" : ` (rank ${s[5]})`),
  }),
  new Curve(byId("curves"), { title: "Oldest wait", value: (s) => s[6], text: (n) => (n ? durationText(n) : "none") }),
];
let recording = null;
let recorded = null;
let drawing = false;

// Of the server, by the clock of the host that it runs on; that of this browser may differ.
const serverMs = () => seen.about.now * 1000 + performance.now() - seen.toldAt;
const sinceHeardMs = () => serverMs() - seen.about.heard * 1000;

function take({ status, samples, events, ...about }) {
  // A stream that was opened again tells all that is kept; what was told before is marked already.
  const until = about.fresh ? (seen.events.at(-1)?.at ?? -Infinity) : -Infinity;
  if (about.fresh) Object.assign(seen, { samples: [], events: [] });
  seen.samples = [...seen.samples, ...samples].slice(-SAMPLES_MAX);
  seen.events = [...seen.events, ...events].slice(-EVENTS_MAX);
  Object.assign(seen, { about, toldAt: performance.now(), status: status ?? seen.status });
  if (recording) {
    for (const event of events.filter((e) => e.at > until)) recording.mark(event.text, event.at * 1000);
    if (status) recording.add(status, about.heard * 1000);
    if (recording.full) stop();
  }
  later();
}

function later() {
  if (drawing) return;
  drawing = true;
  requestAnimationFrame(draw);
}

function draw() {
  drawing = false;
  const start = performance.now();
  const { about, status } = seen;
  if (!about) return;
  put(byId("job"), `job ${about.job}`);
  byId("all").hidden = !about.amongOthers;
  put(byId("command"), about.command);
  byId("command").title = about.command;
  drawRecording();
  drawBanner();
  fill(byId("events"), [...seen.events].reverse(), makeEvent, fillEvent);
  put(byId("newest"), seen.events.at(-1)?.text ?? "");
  for (const curve of curves) curve.draw(seen.samples, serverMs() / 1000);
  if (!status) return;
  put(byId("carried"), status.communicatesBy && `between ranks: ${status.communicatesBy}`);
  drawFigures(status);
  drawWaits(status);
  ranks.draw(status);
  if (!performance.getEntriesByName("first picture").length) performance.mark("first picture");
  // What the newest picture cost; for tests, and for who looks at a slow page.
  performance.clearMeasures("picture");
  performance.measure("picture", { start });
}

function makeEvent() {
  const item = make("li");
  item.append(make("time"), make("span"));
  return item;
}

function fillEvent(item, event) {
  item.className = event.kind;
  put(item.firstChild, timeText(event.at));
  put(item.lastChild, event.text);
}

function drawFigures(status) {
  const hosts = new Set(status.members.map((m) => m.member.host)).size;
  const silent = status.members.filter((m) => !m.responsive && !m.left).length;
  const last = seen.samples.at(-1);
  const steps = last?.[3] ?? null;
  const figures = [
    ["state", stateText(status), `generation ${status.generation.number}`],
    ["ranks", numberText(status.size), `on ${countText(hosts, "host")}`],
    ["do not answer", numberText(silent), `of ${numberText(status.size)}`, silent ? "bad" : ""],
    ["waited for", numberText(missing(status).size), "for over 1 s", missing(status).size ? "warn" : ""],
    ["bytes", `${bytesText(Number(status.bytesPerSecond))}/s`, `${bytesText(Number(status.traffic.bytes))} so far`],
    ["batches", `${numberText(Number(status.batchesPerSecond))}/s`, `${numberText(Number(status.tensorsPerSecond))} tensors/s`],
    ["steps", steps === null ? "–" : `${numberText(steps)}/s`, steps === null ? "known in a replay" : "repeated"],
    ["latest rank", last?.[5] >= 0 ? msText(last[4]) : "–", last?.[5] >= 0 ? `rank ${last[5]} (mean)` : ""],
  ];
  const makeOne = () => {
    const box = make("div");
    box.append(make("dt"), make("dd"), make("dd", "more"));
    return box;
  };
  fill(byId("figures"), figures, makeOne, (box, [name, value, more, kind]) => {
    box.className = kind ?? "";
    [name, value, more].forEach((text, index) => put(box.children[index], text));
  });
}

function drawWaits(status) {
  const waits = [...status.waits].sort((a, b) => b.ageMs - a.ageMs);
  const lines = waits.map((wait) => [wait.text, wait.ageMs >= LONG_WAIT_MS ? "bad" : "warn"]);
  if (status.divergence) lines.unshift([status.divergence, "bad"]);
  if (!lines.length) lines.push(["nobody waits for anybody", "none"]);
  fill(byId("waits"), lines, () => make("li"), (item, [text, kind]) => {
    item.className = kind;
    put(item, text);
  });
}

// What is wrong with what is shown, and whether it is only old.
function trouble() {
  const { about, status } = seen;
  if (!about || performance.now() - seen.toldAt > SILENT_MS) {
    if (!about && performance.now() < SILENT_MS) return null;
    return ["bad", "farandole dashboard does not answer: the process that serves this page, or the way to it, is gone", true];
  }
  if (about.end) return [status?.state === "JOB_STATE_FAILED" ? "bad" : "note", `${about.end}; shown is what was seen last`, true];
  const silent = about.outage ?? sinceHeardMs() > SILENT_MS;
  if (about.outage?.answered) return ["note", about.outage.text, true];
  if (silent) return ["bad", `no status from the controller at ${about.controller}`, true];
  if (status?.state === "JOB_STATE_FAILED") return ["bad", `the job has failed: ${status.reason}`, false];
  return null;
}

function drawBanner() {
  const found = trouble();
  byId("banner").hidden = !found;
  document.body.classList.toggle("old", Boolean(found?.[2]));
  put(byId("alert"), found ? found[1] : "");
  const age = seen.about && found?.[2] ? durationText(sinceHeardMs()) : "";
  const outage = seen.about?.outage;
  const reason = outage && !outage.answered ? ` (${outage.text})` : "";
  put(byId("alert-age"), age && `for ${age}; shown: state of ${age} ago${reason}`);
  if (found) byId("banner").className = found[0];
  const waited = seen.status ? missing(seen.status).size : 0;
  const sign = found?.[0] === "bad" ? "✕ " : waited ? "! " : "";
  const title = seen.about ? `${sign}${seen.about.job}` : "Farandole";
  if (document.title !== title) document.title = title;
}

function drawRecording() {
  put(byId("record"), recording ? "Stop recording" : "Record");
  byId("record").className = recording ? "on" : "";
  byId("download").disabled = !recorded && !recording;
  const used = recording ?? recorded;
  const since = used && durationText((used.untilMs ?? serverMs()) - used.startMs);
  const full = used?.full ? ", and is full" : "";
  put(byId("recorded"), used ? `${recording ? "records for" : "recorded"} ${since}, ${countText(used.events.length, "event")}${full}` : "");
}

function stop() {
  recorded = Object.assign(recording, { untilMs: serverMs() });
  recording = null;
}

byId("record").addEventListener("click", () => {
  if (recording) {
    stop();
  } else if (seen.about) {
    recording = new Recording(seen.about.job, serverMs());
    if (seen.status) recording.add(seen.status, serverMs());
  }
  later();
});

byId("download").addEventListener("click", () => {
  const used = recording ?? recorded;
  const text = JSON.stringify(used.trace(used.untilMs ?? serverMs()));
  const link = make("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  link.download = `farandole-${used.job.replaceAll("/", "-")}-${new Date(used.startMs).toISOString().replace(/[:.]/g, "")}.json`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
});

// The curves' colours are the theme's.
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", later);
setInterval(() => {
  if (!document.hidden && seen.about) drawRecording();
  drawBanner();
}, 500);
listen(take);
