"""Channels between two emulated machines with Soft-RoCE, beside the bare verbs of perftest on the same link, in one run
and in turn: `make bench-rdma`.

The processors are emulated, so a figure says nothing about a network; only those of one run compare, best as ratios.
They are also shared: perftest's programs never sleep, and keep the processors from the emulators' own threads, which
carry the packets; our channels look for 50 us, as ranks do, and then sleep.
FARANDOLE_BENCH_QUICK=1 takes few rounds; its figures are for trying.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator

import flows
import image
import report
from curves import size_label
from guests import Guest, Guests

QUICK = bool(os.environ.get("FARANDOLE_BENCH_QUICK"))
ROUNDS = 2 if QUICK else 7
SIZES = [64, 4 << 10, 64 << 10, 1 << 20, 4 << 20]
PORT = 18515
BIN = image.ROOT / "bazel-bin/tests/rdma"
# Media of channel_speed that are ours.
CHANNELS = ("tcp", "verbs")
# From this size on bandwidth has goals.
LARGE = 64 << 10
KILLS = 1 if QUICK else 5
# Of bandwidth and latency: perftest's programs, and where in the line of a size its figure is, and in what unit.
BARE = {"bandwidth": ("ib_write_bw", 3, 1.048576), "latency": ("ib_write_lat", 5, 1.0)}
UNITS = {"bandwidth": "MB/s", "latency": "us"}

# Kind, size, value.
Figure = tuple[str, int, float]
# Of each kind and size, of each medium, the values of all rounds.
Samples = dict[tuple[str, int], dict[str, list[float]]]


def count(size: int) -> int:
    """Messages of a size in a round: a second of them at most."""
    return max(5, min(200, (8 << 20) // size))


def perftest(server: Guest, client: Guest, kind: str, size: int) -> float:
    """One figure of bare verbs, which write into the memory of the other end."""
    program, column, factor = BARE[kind]
    command = f"{program} -d rxe0 -x 1 -F -p {PORT} -n {count(size)} -s {size}"
    serving = server.start(command)
    server.wait_for_listener(PORT)
    said = client.check(f"{command} {server.address()}")
    serving.wait()
    line = next(words for words in map(str.split, said.splitlines()) if words[:1] == [str(size)])
    return float(line[column]) * factor


def bare(server: Guest, client: Guest) -> Iterator[Figure]:
    """All figures of bare verbs."""
    for kind in BARE:
        for size in SIZES:
            yield kind, size, perftest(server, client, kind, size)


def channel(medium: str, server: Guest, client: Guest) -> Iterator[Figure]:
    """All figures of a channel of ours."""
    sizes = ",".join(f"{size}:{count(size)}" for size in SIZES)
    command = f"ulimit -l unlimited; channel_speed {medium}"
    serving = server.start(f"{command} {server.address()} {sizes}")
    address = serving.wait_for("\n").splitlines()[0]
    said = client.check(f"{command} {client.address()} {sizes} {address}")
    serving.wait()
    for line in said.splitlines():
        size, latency_us, megabytes = line.split()
        yield "latency", int(size), float(latency_us)
        yield "bandwidth", int(size), float(megabytes)


def measure(guests: Guests) -> Samples:
    """Rounds of all media, one after the other, each round beginning with another one."""
    samples: Samples = {}
    media = ["bare", *CHANNELS]
    for number in range(ROUNDS):
        for medium in media[number % 3 :] + media[: number % 3]:
            found = bare(*guests) if medium == "bare" else channel(medium, *guests)
            for kind, size, value in found:
                samples.setdefault((kind, size), {}).setdefault(medium, []).append(value)
        print(f"round {number + 1} of {ROUNDS}", file=sys.stderr, flush=True)
    return samples


def killed_processes(guests: Guests) -> dict[str, list[float]]:
    """Seconds until the other end names a process that was killed, by medium."""
    found: dict[str, list[float]] = {}
    for _ in range(KILLS):
        for medium in CHANNELS:
            flow = flows.start_flow(medium, *guests, "both")
            flow.client.kill()
            found.setdefault(medium, []).append(flows.silence_s(flow.server.wait(), "client"))
            flow.client.wait()
    return found


def killed_machine(guests: Guests) -> dict[str, list[float]]:
    """Seconds until a receiver names a machine that was killed, by medium, and a sender over verbs; ends a guest. A
    sender over TCP would wait for as long as the kernel sends again, up to 15 minutes."""
    survivor, victim = guests
    ends = {medium: (flows.start_flow(medium, survivor, victim, "one").server, "client") for medium in CHANNELS}
    ends["verbs sends"] = (flows.start_flow("verbs", victim, survivor, "one").client, "server")
    victim.kill()
    return {kind: [flows.silence_s(end.wait(), peer)] for kind, (end, peer) in ends.items()}


def judged(row: report.Row, goal: str, met: bool, part_of: str) -> report.Row:
    """The row with its goal."""
    row.goal, row.met, row.part_of = goal, met, part_of
    return row


def ratio(what: str, size: int, values: list[float], others: list[float], unit: str = "x") -> report.Row:
    """Of each round one value over the other's."""
    scale = 100 if unit == "%" else 1
    return report.row(f"{what}, {size_label(size)}", unit, [scale * a / b for a, b in zip(values, others)])


def judge_speed(samples: Samples) -> list[report.Row]:
    """The rows with goals, of rounds whose media ran one after the other."""
    rows = []
    for (kind, size), found in samples.items():
        ours, bare_, tcp = found["verbs"], found["bare"], found["tcp"]
        if kind == "latency":
            row = ratio(part := "latency, verbs / ib_write_lat", size, ours, bare_)
            rows.append(judged(row, "at most 1.5", row.value <= 1.5, part))
        elif size >= LARGE:
            row = ratio(part := "bandwidth, verbs' share of ib_write_bw", size, ours, bare_, "%")
            rows.append(judged(row, "at least 85 %", row.value >= 85, part))
            row = ratio(part := "bandwidth, verbs / tcp", size, ours, tcp)
            rows.append(judged(row, "at least 1.5", row.value >= 1.5, part))
    return sorted(rows, key=lambda row: str(row.part_of))


def judge_losses(process: dict[str, list[float]], machine: dict[str, list[float]]) -> list[report.Row]:
    """How soon a peer that is gone is named."""
    row = report.row("killed process named, verbs", "s", process["verbs"], tcp=process["tcp"])
    bound_s = max(process["tcp"]) + 1
    rows = [judged(row, "at most a second later than the latest of TCP", max(process["verbs"]) <= bound_s, row.name)]
    for kind in ("verbs", "verbs sends"):
        row = report.row(f"killed machine named, {kind}", "s", machine[kind], tcp=machine["tcp"])
        goal = f"within TCP's bound, {flows.TCP_BOUND_S:.0f} s"
        rows.append(judged(row, goal, row.value <= flows.TCP_BOUND_S + 1, row.name))
    return rows


def main() -> None:
    """Writes build/bench/rdma.json."""
    missing = image.why_not()
    if missing:
        sys.exit(f"bench-rdma: {missing}")
    begin = time.monotonic()
    rows = []
    with Guests(2) as guests:
        for program in ("channel_speed", "channel_traffic"):
            guests.install(BIN / program)
        samples = measure(guests)
        losses = killed_processes(guests), killed_machine(guests)
    for (kind, size), found in samples.items():
        name = f"{kind}, {size_label(size)}, verbs"
        rows.append(report.row(name, UNITS[kind], found["verbs"], bare=found["bare"], tcp=found["tcp"]))
    rows += judge_speed(samples) + judge_losses(*losses)
    packages = (image.PACKAGES / "packages").read_text().split()
    emulation = [p for p in packages if p.startswith(("qemu-system-x86=", "linux-image-", "perftest=", "libibverbs1="))]
    name = "rdma-quick" if QUICK else "rdma"
    report.write(name, rows, "make bench-rdma" + " QUICK=1" * QUICK, emulation=emulation)
    report.print_goals(rows)
    print(f"\n{', '.join(emulation)}; {(time.monotonic() - begin) / 60:.1f} minutes")


if __name__ == "__main__":
    main()
