// Ranks: a cell for each, grouped by host; what is known of one; a table of all, or of those that say something.

import { byId, bytesText, countText, durationText, fill, make, msText, numberText, put } from "./text.js";

const TABLE_ALL = 64;
const TABLE_EACH = 16;
const LARGE_CELLS = 128;
// A wait marks a rank once it is so old: in every step somebody is the last one.
const MARKED_MS = 1000;

const lateMs = (member) => Number(member.lateness.meanUs) / 1000;
const nameOf = ({ member }) => (member.rank >= 0 ? `${member.rank}` : "?");

// Ranks that others have waited for, each with the sentence of its oldest wait.
export function missing(status, olderThanMs = MARKED_MS) {
  const found = new Map();
  for (const wait of [...status.waits].sort((a, b) => a.ageMs - b.ageMs)) {
    if (Number(wait.ageMs) >= olderThanMs) for (const rank of wait.missingRanks) found.set(rank, wait);
  }
  return found;
}

function kindOf(member, awaited) {
  if (member.left) return "left";
  if (!member.responsive) return "silent";
  if (awaited.has(member.member.rank)) return "missing";
  return `late${[1, 10, 100].filter((bound) => lateMs(member) >= bound).length}`;
}

function conditionOf(member, awaited) {
  if (member.left) return "has left";
  if (!member.responsive) return `does not answer: ${member.cause}`;
  const wait = awaited.get(member.member.rank);
  return wait ? `others have waited for it for ${durationText(Number(wait.ageMs))}` : "ok";
}

// Of what GPUs did for a batch the mean: waited, packed, NCCL, unpacked.
function onGpu({ deviceTime }) {
  if (!deviceTime) return "-";
  const parts = ["waitedUs", "packedUs", "ncclUs", "unpackedUs"];
  return parts.map((part) => (Number(deviceTime[part]) / Number(deviceTime.batches) / 1000).toFixed(2)).join("+");
}

const COLUMNS = [
  ["rank", nameOf],
  ["host", (m) => m.member.host],
  ["pid", (m) => m.member.pid],
  ["late (mean)", (m) => msText(lateMs(m))],
  ["(most)", (m) => msText(Number(m.lateness.maxUs) / 1000)],
  ["last", (m) => numberText(Number(m.lateness.lastCount))],
  ["open requests", (m) => numberText(m.openRequests)],
  ["tensors", (m) => numberText(Number(m.traffic.tensors))],
  ["bytes", (m) => bytesText(Number(m.traffic.bytes))],
  ["last report", (m) => `${durationText(Number(m.reportAgeMs))} ago`],
];
const GPU_COLUMN = ["GPU ms (wait+pack+NCCL+unpack)", onGpu];

function shown(members, awaited) {
  if (members.length <= TABLE_ALL) return members;
  const byLateness = [...members].sort((a, b) => lateMs(b) - lateMs(a));
  const chosen = new Set([
    ...members.filter((m) => !m.responsive && !m.left).slice(0, TABLE_EACH),
    ...members.filter((m) => awaited.has(m.member.rank)).slice(0, TABLE_EACH),
    ...byLateness.slice(0, TABLE_EACH),
  ]);
  return [...chosen];
}

export class Ranks {
  constructor() {
    this.cells = [];
    this.layout = "";
    this.selected = 0;
    this.pointed = null;
    this.touched = false;
    byId("hosts").addEventListener("keydown", (event) => this.move(event));
    for (const [name, found] of [["pointerover", true], ["focusin", true], ["click", true], ["pointerleave", false]]) {
      byId("hosts").addEventListener(name, (event) => this.point(event, found), name === "pointerleave");
    }
  }

  draw(status) {
    this.status = status;
    this.awaited = missing(status);
    const layout = status.members.map((m) => `${m.member.host} ${m.member.rank}`).join("\n");
    if (layout !== this.layout) this.build(layout);
    this.cells.forEach((cell, index) => {
      const kind = kindOf(status.members[index], this.awaited);
      if (cell.kind === kind) return;
      cell.kind = cell.className = kind;
      const condition = { left: "has left", silent: "does not answer", missing: "others wait for it" }[kind] ?? "ok";
      cell.setAttribute("aria-label", `rank ${nameOf(status.members[index])}: ${condition}`);
    });
    this.detail();
    this.table();
  }

  build(layout) {
    this.layout = layout;
    const hosts = new Map();
    this.cells = this.status.members.map((member, index) => {
      const cell = make("button", "", nameOf(member));
      cell.type = "button";
      cell.index = index;
      cell.tabIndex = index === 0 ? 0 : -1;
      const host = member.member.host;
      if (!hosts.has(host)) hosts.set(host, []);
      hosts.get(host).push(cell);
      return cell;
    });
    this.selected = 0;
    byId("hosts").className = this.cells.length > LARGE_CELLS ? "many" : "";
    byId("hosts").replaceChildren(
      ...[...hosts].map(([host, cells]) => {
        const group = make("div", "host");
        group.setAttribute("role", "group");
        group.setAttribute("aria-label", `host ${host}, ${countText(cells.length, "rank")}`);
        const row = make("div");
        row.append(...cells);
        group.append(make("h3", "", host), row);
        return group;
      }),
    );
  }

  // The arrow keys: to the next rank, or the first one of the next host.
  move(event) {
    const at = event.target.index;
    if (at === undefined) return;
    const host = (index) => this.status.members[index]?.member.host;
    const first = (index) => this.status.members.findIndex((m) => m.member.host === host(index));
    const last = this.cells.length - 1;
    const after = this.status.members.findIndex((_, index) => index > at && host(index) !== host(at));
    const next = {
      ArrowLeft: at - 1,
      ArrowRight: at + 1,
      ArrowUp: first(Math.max(first(at) - 1, 0)),
      ArrowDown: after < 0 ? at : after,
      Home: 0,
      End: last,
    }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    const to = Math.min(Math.max(next, 0), last);
    this.cells[at].tabIndex = -1;
    this.cells[to].tabIndex = 0;
    this.cells[to].focus();
  }

  point(event, found) {
    const index = event.target.index;
    if (found && index === undefined) return;
    if (found && event.type !== "pointerover") this.selected = index;
    this.touched ||= found;
    this.pointed = found && event.type === "pointerover" ? index : null;
    this.detail();
    // Read out once; what changes below it twice a second is not.
    if (found) event.target.ariaDescription = byId("detail").textContent;
  }

  detail() {
    const member = this.status?.members[this.pointed ?? this.selected];
    if (!this.touched || !member) return;
    const facts = COLUMNS.slice(2).map(([name, text]) => `${name} ${text(member)}`);
    const head = `rank ${nameOf(member)} on host ${member.member.host}: ${conditionOf(member, this.awaited)}`;
    put(byId("detail"), [head, ...facts].join(" · "));
  }

  table() {
    const members = this.status.members;
    const rows = shown(members, this.awaited);
    const columns = [...COLUMNS, ...(rows.some((m) => m.deviceTime) ? [GPU_COLUMN] : [])];
    const names = [...columns.map(([name]) => name), "condition"];
    const heading = () => Object.assign(make("th"), { scope: "col" });
    fill(byId("columns"), names, heading, put);
    const texts = rows.map((m) => [...columns.map(([, text]) => text(m)), conditionOf(m, this.awaited)]);
    fill(byId("rows"), texts, () => make("tr"), (row, cells) => fill(row, cells, () => make("td"), put));
    rows.forEach((m, index) => (byId("rows").children[index].className = kindOf(m, this.awaited)));
    const left = members.length - rows.length;
    put(byId("more"), left ? `${numberText(left)} more ranks, less late than these` : "");
  }
}
