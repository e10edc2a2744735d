"""The data plane on CPU beside gloo, Open MPI and bounds that are measured with them: `make bench-data`.

FARANDOLE_BENCH_QUICK=1 takes few sizes and rounds; its figures are for trying.
"""

from __future__ import annotations

import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import peers
import pictures
import ranks
import report
from curves import size_label
from players import NotMeasuredError, Player, Samples, Task, by_turns, task

sys.path.insert(0, str(peers.HERE.parent))
import namespaces  # noqa: E402

QUICK = bool(os.environ.get("FARANDOLE_BENCH_QUICK"))
ROUNDS = 3 if QUICK else 15
SIZES = [4, 4 << 10, 64 << 10, 1 << 20, 16 << 20] if QUICK else [4**k for k in range(1, 15)]
BOUND_BYTES = SIZES[-1] if QUICK else 64 << 20
TCP_SIZES = [1 << 20, 16 << 20] if QUICK else [1 << 20, 4 << 20, 16 << 20, 64 << 20]
EIGHT_SIZES = [4, 64 << 10, 4 << 20] if QUICK else [4, 4 << 10, 64 << 10, 1 << 20, 16 << 20]
LOOPS = ("loop_plain", "loop_streaming", "loop_plain_chunked", "loop_streaming_chunked")
SOCKETS = ("sockets_128", "sockets_512", "sockets_2048")
IN_PARTS, WHOLE = "2048", "0"
PYTHON_CALLS = 50
STEPS = 2 if QUICK else 3
NEIGHBOURS = 4
# Of gloo at small sizes, to our and Open MPI's.

Rows = list[report.Row]


def times(unit: str, per_second: float, name: str, samples: Samples, **others: Samples) -> report.Row:
    """A row of times."""
    row = report.row(name, unit, [m * per_second for m in samples.medians])
    row.p99 = samples.p99 * per_second
    row.peers = {peer: other.median * per_second for peer, other in others.items()}
    row.peers |= {f"{peer}_p99": other.p99 * per_second for peer, other in others.items()}
    return row


def microseconds(name: str, samples: Samples, **others: Samples) -> report.Row:
    """A row of times."""
    return times("us", 1e6, name, samples, **others)


def ratios(name: str, values: Sequence[float], unit: str = "x") -> report.Row:
    """A row of ratios, one of each round."""
    return report.row(name, unit, list(values))


def judged(row: report.Row, goal: str, met: bool, part_of: str | None = None) -> report.Row:
    """The row with its goal."""
    row.goal, row.met, row.part_of = goal, met, part_of
    return row


def gloo_task(bytes_: int) -> Task:
    """Of what is small fewer calls than the others make, but enough for a quick one."""
    return Task("gloo", bytes_, 16, 2) if bytes_ <= 64 << 10 else task("gloo", bytes_)


def best(samples: dict[str, Samples], names: Sequence[str]) -> Samples:
    """The one with the least median."""
    return min((samples[name] for name in names), key=lambda s: s.median)


class SharedMemory:
    """Two ranks on one host: our allreduce in batch buffers and with copies, gloo, Open MPI, and loops."""

    def __init__(self, ours: Player, gloo: Player, open_mpi: Player | None) -> None:
        self._ours, self._gloo, self._open_mpi = ours, gloo, open_mpi
        self.samples: dict[int, dict[str, Samples]] = {}

    def measure(self, bytes_: int) -> Rows:
        """One size; returns rows of times."""
        turns = {
            name: (self._ours, task(f"shm_{where}", bytes_))
            for name, where in (("buffer", "buffer"), ("copied", "private"), ("packed", "packed"))
        }
        turns["gloo"] = (self._gloo, gloo_task(bytes_))
        if self._open_mpi is not None:
            turns["open_mpi"] = (self._open_mpi, task("openmpi", bytes_))
        if bytes_ >= 1 << 20:
            turns |= {loop: (self._ours, task(loop, bytes_)) for loop in LOOPS}
        if bytes_ == BOUND_BYTES:
            turns |= {dtype: (self._ours, task("shm_buffer", bytes_, dtype)) for dtype in ("float16", "bfloat16")}
        found = by_turns(turns, ROUNDS)
        self.samples[bytes_] = found
        others = {peer: found[peer] for peer in ("gloo", "open_mpi") if peer in found}
        name = f"shm, 2 ranks, {size_label(bytes_)}"
        rows = [microseconds(f"{name}, in buffers", found["buffer"], **others)]
        rows.append(microseconds(f"{name}, copied in and out", found["copied"], by_the_caller=found["packed"]))
        if LOOPS[0] in found:
            loops = {loop: found[loop] for loop in LOOPS}
            rows.append(microseconds(f"{name}, best of four loops", best(found, LOOPS), **loops))
        rows += [microseconds(f"{name}, {d}", found[d]) for d in ("float16", "bfloat16") if d in found]
        return rows

    def _against(self, ours: str, peer: str, sizes: Sequence[int]) -> dict[int, list[float]]:
        return {size: self.samples[size][peer].over(self.samples[size][ours]) for size in sizes}

    def _at_least(self, name: str, ours: str, peer: str) -> Rows:
        """At each size the lower quartile of the ratio at least 0.95."""
        if not all(peer in found for found in self.samples.values()):
            return [judged(report.Row(f"{name}: {peer} was not measured", 0, "x"), "to be measured", False)]
        rows = [
            ratios(f"{name}, {peer} / ours, {size_label(size)}", values)
            for size, values in self._against(ours, peer, list(self.samples)).items()
        ]
        goal = "lower quartile at least 0.95"
        return [judged(row, goal, row.spread[0] >= 0.95, f"{name}, {peer} / ours") for row in rows]

    def judge(self) -> Rows:
        """The rows of the table."""
        name = "shm, 2 ranks, in buffers"
        sizes = [size for size in self.samples if size == 64 << 10 or 1 << 20 <= size <= 64 << 20]
        rows = [
            ratios(f"{name}, gloo / ours, {size_label(s)}", v)
            for s, v in self._against("buffer", "gloo", sizes).items()
        ]
        rows = [judged(row, "at least 8", row.value >= 8, f"{name}, gloo / ours") for row in rows]
        against_mpi = self._at_least(name, "buffer", "open_mpi")
        rows += against_mpi
        if len(against_mpi) == len(self.samples):
            mean = math.exp(statistics.mean(math.log(row.value) for row in against_mpi))
            row = report.Row(f"{name}, open_mpi / ours, geometric mean of all sizes", mean, "x")
            rows.append(judged(row, "at least 2", mean >= 2))
        for peer in ("gloo", "open_mpi"):
            rows += self._at_least("shm, 2 ranks, copied in and out", "copied", peer)
        found = self.samples[BOUND_BYTES]
        bound = best(found, LOOPS)
        for what, goal in (("buffer", 85), ("float16", 90), ("bfloat16", 90)):
            share = ratios(
                f"shm, 2 ranks, {size_label(BOUND_BYTES)}, {what}: share of the best loop's rate",
                [100 * r for r in bound.over(found[what])],
                "%",
            )
            rows.append(judged(share, f"at least {goal} %", share.value >= goal))
        return rows


def tiny(ours: Player) -> Rows:
    """8 B beside bare cache lines."""
    calls = {"ping_pong": 2000, "exchange": 2000}
    turns = {what: (ours, Task(what, 8, n, 10)) for what, n in calls.items()}
    found = by_turns({"ours": (ours, task("shm_buffer", 8)), **turns}, max(ROUNDS, 15))
    time = microseconds("shm, 2 ranks, 8 B", found["ours"], ping_pong=found["ping_pong"], exchange=found["exchange"])
    row = ratios("8 B allreduce / cache line there and back", found["ours"].over(found["ping_pong"]))
    strict = ratios("8 B allreduce / both write a line and wait for the other's", found["ours"].over(found["exchange"]))
    return [time, judged(row, "at most 2", row.value <= 2), strict]


def one_element() -> Rows:
    """Through Python, our calls under replay."""
    os.environ["OMP_NUM_THREADS"] = "1"
    found = ranks.start(2, "one_element_ranks.py", str(ROUNDS), str(PYTHON_CALLS))
    ours, gloo = Samples(found["farandole"]), Samples(found["gloo"])
    row = ratios("one element through Python, ours / gloo", ours.over(gloo))
    return [
        microseconds("one element through Python, 2 ranks", ours, gloo=gloo),
        judged(row, "at most 0.2", row.value <= 0.2),
    ]


def eight_ranks() -> Rows:
    """More ranks than cores."""
    rows, goals = [], []
    ours, gloo = peers.ours(8), peers.gloo(8)
    for size in EIGHT_SIZES:
        turns = {"ours": (ours, task("shm_buffer", size, slowness=8)), "gloo": (gloo, task("gloo", size, slowness=64))}
        if size == EIGHT_SIZES[0]:
            turns["single"] = (ours, Task("shm_buffer", size, 1, 50))
        found = by_turns(turns, ROUNDS)
        name = f"shm, 8 ranks on 2 cores, {size_label(size)}"
        rows.append(microseconds(f"{name}, in buffers", found["ours"], gloo=found["gloo"]))
        row = ratios(f"{name}, gloo / ours", found["gloo"].over(found["ours"]))
        goals.append(judged(row, "at least 3", row.value >= 3, "shm, 8 ranks on 2 cores, gloo / ours"))
        if size == EIGHT_SIZES[0]:
            # Ranks that spin for others which want the same core wait for the scheduler's ticks, milliseconds each.
            tail = report.Row(f"{name}: p99 of single calls", found["single"].p99 * 1e6, "us")
            goals.append(judged(tail, "at most 1000: no spin collapse", tail.value <= 1000))
    ours.close()
    gloo.close()
    return rows + goals


def tcp(world: int, samples: dict[int, dict[str, Samples]]) -> Rows:
    """Loopback beside gloo and plain sockets; fills `samples`."""
    rows, goals = [], []
    ours, gloo = peers.ours(world), peers.gloo(world)
    for size in TCP_SIZES:
        turns = {what: (ours, task(what, size)) for what in ("tcp", *SOCKETS)}
        found = by_turns({**turns, "gloo": (gloo, gloo_task(size))}, ROUNDS)
        found = {"ours": found["tcp"], "gloo": found["gloo"], "sockets": best(found, SOCKETS)}
        samples[size] = found
        name = f"tcp, {world} ranks, {size_label(size)}"
        rows.append(microseconds(name, found["ours"], gloo=found["gloo"], sockets=found["sockets"]))
        rows.append(ratios(f"{name}, gloo / ours", found["gloo"].over(found["ours"])))
        share = [100 * r for r in found["sockets"].over(found["ours"])]
        row = ratios(f"{name}: share of the plain sockets' rate", share, "%")
        goals.append(
            judged(row, "at least 95 %", row.value >= 95, f"tcp, {world} ranks: share of the plain sockets' rate")
        )
    ours.close()
    gloo.close()
    return rows + goals


def two_hosts(rate: str = "") -> Rows:
    """Hosts of two ranks each that are network namespaces: layers that work at once beside one after the other. Without
    a `rate` the network between them is memory, so that its work is the processor's, too; with one it is a link that
    takes its time."""
    if reason := namespaces.why_not():
        raise NotMeasuredError(reason)
    rows, goals = [], []
    network = namespaces.Network(2)
    try:
        if rate:
            network.limit(rate)
        places = [(f"/proc/{host.pid}/ns/net", network.address(number)) for number, host in enumerate(network.hosts)]
        ours = peers.ours(4, [word for place in places for word in place])
        for place, prefix in (("copied in and out", "hier"), ("in buffers", "hier_buffer")):
            for size in TCP_SIZES:
                turns = {part: (ours, task(f"{prefix}_{part}", size)) for part in (IN_PARTS, WHOLE)}
                found = by_turns(turns, ROUNDS)
                link = f" with {rate} between them" if rate else ""
                name = f"hier, 2 hosts of 2 ranks{link}, {size_label(size)}, {place}"
                rows.append(microseconds(name, found[IN_PARTS], one_layer_after_the_other=found[WHOLE]))
                row = ratios(f"{name}: one layer after the other / in parts", found[WHOLE].over(found[IN_PARTS]))
                goals.append(judged(row, "at least 1.3", row.value >= 1.3) if size == TCP_SIZES[-1] else row)
        ours.close()
    finally:
        network.end()
    return rows + goals


def trained(network: str) -> tuple[dict[str, Samples], list[int]]:
    """Steps of ours, of DDP and of DDP without communication, by turns; bytes of gradients that differ, and all."""
    os.environ["OMP_NUM_THREADS"] = "1"
    result = ranks.start(2, "train_ranks.py", network, str(ROUNDS), str(STEPS))
    return {name: Samples(times) for name, times in result["times"].items()}, result["gradients"]


def training(network: str) -> Rows:
    """A step beside DDP."""
    found, (differing, total) = trained(network)
    ours, ddp, alone = (found[name] for name in ("farandole", "ddp", "ddp_alone"))
    row = ratios(f"step of {network}, ours / DDP with gloo", ours.over(ddp))
    exposed = ratios(f"step of {network}: DDP's exposed communication", [100 * (1 - r) for r in alone.over(ddp)], "%")
    shares = [(a - c) / (b - c) for a, b, c in zip(ours.medians, ddp.medians, alone.medians) if b > c]
    share = ratios(f"step of {network}: exposed communication, ours / DDP's", shares)
    same = report.Row(f"step of {network}: bytes of gradients other than DDP's, of {total}", differing, "")
    return [
        times("ms", 1e3, f"step of {network}, 2 processes", ours, ddp_gloo=ddp, ddp_without_communication=alone),
        exposed,
        judged(share, "at most 0.25", share.value <= 0.25),
        judged(row, "at most 0.8", row.value <= 0.8),
        judged(same, "none", differing == 0),
    ]


@contextmanager
def busy_neighbours(count: int) -> Iterator[None]:
    """So many other processes that never rest."""
    with ExitStack() as stack:
        for _ in range(count):
            process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
            stack.callback(process.wait)
            stack.callback(process.kill)
        yield


def training_beside_others(network: str) -> Rows:
    """A step beside DDP on a machine that is busy with something else."""
    with busy_neighbours(NEIGHBOURS):
        found, _ = trained(network)
    ours, ddp = found["farandole"], found["ddp"]
    what = f"step of {network} beside {NEIGHBOURS} busy processes"
    row = ratios(f"{what}, ours / DDP with gloo", ours.over(ddp))
    return [
        times("ms", 1e3, f"{what}, 2 processes", ours, ddp_gloo=ddp, ddp_without_communication=found["ddp_alone"]),
        judged(row, "at most 1.0", row.value <= 1.0),
    ]


def open_mpi(scratch: Path) -> tuple[Player | None, list[str]]:
    """Tuned, and what there is to say about it."""
    try:
        found = peers.OpenMpi()
        found.tune(SIZES, scratch, 1 if QUICK else 3)
        return found.start(), found.said
    except NotMeasuredError as error:
        return None, [f"Open MPI was not measured: {error}"]


def shared_memory(scratch: Path, notes: list[str]) -> tuple[Rows, SharedMemory]:
    """All rows of two ranks on one host."""
    mpi, said = open_mpi(scratch)
    notes += said
    print("\n".join(said), flush=True)
    ours, gloo = peers.ours(2), peers.gloo(2)
    shm = SharedMemory(ours, gloo, mpi)
    rows = [row for size in SIZES for row in shm.measure(size)]
    rows += shm.judge() + tiny(ours)
    for player in (ours, gloo, mpi):
        if player is not None:
            player.close()
    return rows, shm


def main() -> None:
    """Prints each part when measured, writes build/bench/data.json and the pictures. Exit code 1 if a part could not be
    measured."""
    begin = time.monotonic()
    rows: Rows = []
    notes: list[str] = []
    failed = False
    over_tcp: dict[int, dict[int, dict[str, Samples]]] = {2: {}, 4: {}}
    in_memory: list[SharedMemory] = []

    def memory() -> Rows:
        found, shm = shared_memory(Path(scratch), notes)
        in_memory.append(shm)
        return found

    parts: dict[str, Callable[[], Rows]] = {
        "shared memory": memory,
        "one element": one_element,
        "8 ranks": eight_ranks,
        "tcp, 2 ranks": lambda: tcp(2, over_tcp[2]),
        "tcp, 4 ranks": lambda: tcp(4, over_tcp[4]),
        "two hosts": two_hosts,
        "two hosts with a link": lambda: two_hosts("5gbit"),
        "resnet18": lambda: training("resnet18"),
        "gpt": lambda: training("gpt"),
        "resnet18, busy": lambda: training_beside_others("resnet18"),
        "gpt, busy": lambda: training_beside_others("gpt"),
    }
    with tempfile.TemporaryDirectory(prefix="farandole-bench-") as scratch:
        for name, measure in parts.items():
            try:
                measured = measure()
            except (NotMeasuredError, SystemExit) as error:
                failed = True
                print(f"{name}: not measured: {error}", file=sys.stderr, flush=True)
                continue
            print(f"{name}: {len(measured)} rows measured", file=sys.stderr, flush=True)
            rows += measured
    command = "make bench-data" + " QUICK=1" * QUICK
    name = "data-quick" if QUICK else "data"
    curves = pictures.draw_all(in_memory[0].samples if in_memory else {}, over_tcp, command, QUICK)
    report.write(name, rows, command, notes=notes, curves=curves)
    report.print_goals(rows)
    print("\n".join(["", *notes, f"{len(rows)} rows, {(time.monotonic() - begin) / 60:.1f} minutes"]))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
