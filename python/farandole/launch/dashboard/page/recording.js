// What the page sees while it records, as Chrome trace events: ui.perfetto.dev and chrome://tracing open them.
//
// Waits are slices: of each rank that is waited for on a track of "waited for", of each that waits on one of "waits". A
// wait began as long before it was seen as the controller says, and ended when it was not there any more. Two waits at
// a time for the same rank are on two tracks, because slices of one track must not overlap.

const EVENTS_MAX = 200000;
// For each wait of many ranks so many have a slice; for lateness so many have a curve.
const RANKS_MAX = 64;
const WAITED_FOR = 1;
const WAITS = 2;
const JOB = 3;
const PROCESSES = { [WAITED_FOR]: "waited for", [WAITS]: "waits", [JOB]: "job" };
const LANES = 64; // tracks of one rank

export class Recording {
  // `nowMs` is since 1970, here and below.
  constructor(job, nowMs) {
    Object.assign(this, { job, startMs: nowMs, open: new Map(), lanes: new Map(), full: false });
    this.events = [{ ph: "M", pid: JOB, name: "clock_start", args: { job, start: new Date(nowMs).toISOString() } }];
    for (const [pid, name] of Object.entries(PROCESSES)) {
      this.events.push({ ph: "M", pid: Number(pid), name: "process_name", args: { name } });
    }
  }

  add(status, nowMs) {
    if (!this.roomFor(2 * RANKS_MAX * status.waits.length + RANKS_MAX + 3)) return;
    this.hosts = new Map(status.members.map((m) => [m.member.rank, m.member.host]));
    const present = new Set();
    for (const wait of status.waits) {
      const what = wait.names.length ? `${wait.names[0]}${wait.nameCount > 1 ? ` and ${wait.nameCount - 1} more` : ""}` : "";
      const id = `${wait.kind} ${wait.processSet} ${wait.missingRanks.join()} ${wait.names[0] ?? ""}`;
      const missing = wait.missingRanks.map((rank) => `rank ${rank}`);
      const whom = missing.length > 4 ? `${missing.slice(0, 4).join(", ")} and ${missing.length - 4} more` : missing.join(", ");
      const args = { sentence: wait.text, kind: wait.kind };
      for (const [pid, ranks, name] of [
        [WAITED_FOR, wait.missingRanks, (rank) => `rank ${rank} is waited for: ${what}`],
        [WAITS, wait.readyRanks, () => (missing.length ? `waits for ${whom}: ${what}` : `is in ${what}`)],
      ]) {
        for (const rank of ranks.slice(0, RANKS_MAX)) {
          const key = `${pid} ${rank} ${id}`;
          present.add(key);
          if (this.open.has(key)) this.open.get(key).args = args;
          else this.begin(key, pid, rank, { name: name(rank), args }, nowMs - Number(wait.ageMs));
        }
      }
    }
    for (const key of [...this.open.keys()]) if (!present.has(key)) this.end(key, nowMs);
    this.count("bytes/s", { "bytes/s": Number(status.bytesPerSecond) }, nowMs);
    this.count("batches/s", { "batches/s": Number(status.batchesPerSecond) }, nowMs);
    const late = (m) => Number(m.lateness.meanUs) / 1000;
    const latest = [...status.members].sort((a, b) => late(b) - late(a)).slice(0, RANKS_MAX);
    for (const m of latest) this.count(`ms late: rank ${m.member.rank}`, { ms: late(m) }, nowMs);
  }

  // What has happened, as a mark over all tracks.
  mark(text, nowMs) {
    if (this.roomFor(1)) this.events.push({ ph: "i", s: "g", pid: JOB, tid: 0, name: text, ts: this.ts(nowMs) });
  }

  // A trace of what was recorded so far; waits that go on end now.
  trace(nowMs) {
    const ending = [...this.open.values()].map((slice) => this.slice(slice, nowMs));
    return { displayTimeUnit: "ms", traceEvents: [...this.events, ...ending] };
  }

  roomFor(count) {
    this.full ||= this.events.length + count > EVENTS_MAX;
    return !this.full;
  }

  ts(ms) {
    return Math.max(0, Math.round((ms - this.startMs) * 1000));
  }

  count(name, args, nowMs) {
    this.events.push({ ph: "C", pid: JOB, name, ts: this.ts(nowMs), args });
  }

  begin(key, pid, rank, about, sinceMs) {
    const track = `${pid} ${rank}`;
    if (!this.lanes.has(track)) this.lanes.set(track, []);
    const lanes = this.lanes.get(track);
    let lane = lanes.findIndex((one) => !one.busy);
    if (lane < 0) {
      if (lanes.length === LANES) return;
      lane = lanes.push({ end: 0 }) - 1;
      const name = `rank ${rank} on ${this.hosts.get(rank)}${lane ? ` (${lane + 1})` : ""}`;
      const tid = rank * LANES + lane;
      this.events.push({ ph: "M", pid, tid, name: "thread_name", args: { name } });
      this.events.push({ ph: "M", pid, tid, name: "thread_sort_index", args: { sort_index: tid } });
    }
    lanes[lane].busy = true;
    const ts = Math.max(this.ts(sinceMs), lanes[lane].end);
    this.open.set(key, { pid, tid: rank * LANES + lane, ts, ...about, lane: lanes[lane] });
  }

  end(key, nowMs) {
    const slice = this.open.get(key);
    this.open.delete(key);
    this.events.push(this.slice(slice, nowMs));
    Object.assign(slice.lane, { busy: false, end: this.ts(nowMs) });
  }

  slice({ pid, tid, ts, name, args }, nowMs) {
    return { ph: "X", pid, tid, ts, dur: Math.max(0, this.ts(nowMs) - ts), name, args };
  }
}
