"""The control plane at scale, beside bare gRPC of the same shape: joining, memory, CPU time for each message.

FARANDOLE_BENCH_QUICK=1 takes a tenth of the ranks.
"""

from __future__ import annotations

import math
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import report

QUICK = bool(os.environ.get("FARANDOLE_BENCH_QUICK"))
RANKS = 1000 if QUICK else 10000
PER_AGENT = 8
BIN = report.ROOT / "bazel-bin"
PERF = BIN / "perf" / "farandole-perf"
CONTROLLER = BIN / "controller" / "farandole-controller"
LATENCY = BIN / "perf" / "data" / "latency"
BARE = BIN / "tests" / "bench" / "grpc_streams"
BARE_EXCHANGE = BIN / "tests" / "bench" / "grpc_exchange"
SIMULATOR = BIN / "tests" / "sim" / "sim"
PROGRAMS = (PERF, CONTROLLER, LATENCY, BARE, BARE_EXCHANGE, SIMULATOR)
CERTIFICATE = report.ROOT / "controller" / "testdata" / "loopback_cert.pem"
TLS = {"tls_cert": CERTIFICATE, "tls_key": CERTIFICATE.with_name("loopback_key.pem")}
TIMEOUT_S = 240

Figures = dict[str, float]


def run(*command: object, **options: object) -> Figures:
    """The figures that a program prints, one "name value" a line.

    Raises:
        subprocess.CalledProcessError: it failed; its words stand on stderr.
    """
    words = [str(word) for word in command]
    for name, value in options.items():
        words += [f"--{name.replace('_', '-')}", str(value)]
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, timeout=TIMEOUT_S, check=True)
    return {name: float(value) for name, value in (line.split() for line in done.stdout.splitlines())}


def load(ranks: int, per_agent: int = PER_AGENT, **options: object) -> Figures:
    """A job of so many ranks against a controller."""
    return run(PERF, "control", controller=CONTROLLER, ranks=ranks, per_agent=per_agent, **options)


def bare(streams: int, **options: object) -> Figures:
    """So many bare gRPC streams."""
    return run(BARE, streams=streams, **options)


def several(rounds: int, *measures: object) -> list[list[Figures]]:
    """Each measure `rounds` times, interleaved."""
    results = [[measure() for measure in measures] for _ in range(rounds)]  # type: ignore[operator]
    return [list(column) for column in zip(*results)]


def pick(figures: list[Figures], name: str, scale: float = 1.0) -> list[float]:
    """One figure of each run."""
    return [f[name] * scale for f in figures]


def judged(row: report.Row, goal: str, met: bool) -> report.Row:
    """The row with its goal."""
    row.goal, row.met = goal, met
    return row


def limited(row: report.Row, limit: float) -> report.Row:
    """The row with a greatest value as its goal."""
    return judged(row, f"at most {limit:g}", row.value <= limit)


def ratio(row: report.Row, peer: str, limit: float) -> report.Row:
    """The row with its goal as a multiple of a peer."""
    found = row.value / row.peers[peer]
    return judged(row, f"{found:.2f}x {peer}, at most {limit:g}x", found <= limit)


def exponent(small: list[float], large: list[float], growth: float) -> float:
    """Of a power law through the medians of two sizes."""
    return math.log(statistics.median(large) / statistics.median(small)) / math.log(growth)


def behind_agents() -> list[report.Row]:
    """Joining and memory with eight ranks behind each agent."""
    agents = RANKS // PER_AGENT
    tenth = RANKS // 10
    small, large, tls, bare_tls = several(
        1 if QUICK else 3,
        lambda: load(tenth, steps=0),
        lambda: load(RANKS, steps=0),
        lambda: load(RANKS, steps=0, **TLS),
        lambda: bare(agents, **TLS),
    )
    what = f"{RANKS} ranks behind agents of {PER_AGENT}"
    kilobytes = 1e-3 / RANKS
    join = report.row(f"{what}: join", "s", pick(large, "join_s"))
    join_tls = report.row(f"{what}: join, TLS", "s", pick(tls, "join_s"), bare_handshakes=pick(bare_tls, "open_s"))
    memory = report.row(f"{what}: resident per rank", "KB", pick(large, "resident_bytes", kilobytes))
    memory_tls = report.row(f"{what}: resident per rank, TLS", "KB", pick(tls, "resident_bytes", kilobytes))
    return [
        limited(join, 5),
        ratio(join_tls, "bare_handshakes", 1.5),
        limited(memory, 10),
        limited(memory_tls, 20),
        *(
            limited(
                report.Row(
                    f"{name}, {tenth} to {RANKS} ranks", exponent(pick(small, key), pick(large, key), 10), "exp"
                ),
                1.1,
            )
            for name, key in (("join", "join_s"), ("resident bytes", "resident_bytes"))
        ),
    ]


def agents_of_one() -> list[report.Row]:
    """Memory for each stream, as the slope between two numbers of streams; and all of them at once."""
    rows = []
    tenth = RANKS // 10
    for title, options in (("plain", {}), ("TLS", TLS)):
        few, many = load(tenth, 1, steps=0, **options), load(RANKS, 1, steps=0, **options)
        bare_few, bare_many = (
            # A message of the size of the view on each: TLS keeps the memory of its first large message.
            bare(streams, steps=1, messages=1, up_bytes=300, down_bytes=round(ours["view_bytes"]), step_ms=1, **options)
            for streams, ours in ((tenth, few), (RANKS, many))
        )
        slope, bare_slope = (
            (b - a) / (RANKS - tenth) / 1e3
            for a, b in (
                (few["resident_bytes"], many["resident_bytes"]),
                (bare_few["resident_bytes_after_steps"], bare_many["resident_bytes_after_steps"]),
            )
        )
        name = f"agents of one rank, {tenth} to {RANKS}: resident per stream, {title}"
        row = report.Row(name, slope, "KB", peers={"bare_grpc": bare_slope})
        rows.append(limited(row, 50) if title == "plain" else ratio(row, "bare_grpc", 1.2))
    at_once, bare_at_once = load(RANKS, 1, steps=0, opening=RANKS, **TLS), bare(RANKS, opening=RANKS, **TLS)
    name = f"{RANKS} agents of one rank at once: join, TLS"
    rows.append(report.Row(name, at_once["join_s"], "s", peers={"bare_handshakes": bare_at_once["open_s"]}))
    return rows


def messages() -> list[report.Row]:
    """CPU time of the controller for each message and announcement while nothing repeats itself."""
    agents = RANKS // 10
    ours, peers = [], []
    for _ in range(1 if QUICK else 3):
        figures = load(agents, 1, steps=2)
        up, down = figures["up_messages"], figures["down_messages"]
        peers.append(
            bare(
                agents,
                steps=1,
                messages=round(up / agents),
                up_bytes=round(figures["up_bytes"] / up),
                per_answer=round(up / down),
                down_bytes=round(figures["down_bytes"] / down),
                step_ms=round(figures["step_s"] * 2e3),
            )
        )
        ours.append(figures)
    grouped = [load(RANKS // 2, steps=1) for _ in range(1 if QUICK else 2)]
    each = report.row(
        f"controller CPU per message, {agents} agents of one rank",
        "us",
        pick(ours, "cpu_us_per_message"),
        bare_grpc=pick(peers, "cpu_us_per_message"),
    )
    rank = report.row(
        f"controller CPU per rank and announcement, {RANKS // 2} ranks behind agents of {PER_AGENT}",
        "us",
        pick(grouped, "cpu_us_per_announcement"),
    )
    return [ratio(each, "bare_grpc", 1.3), limited(rank, 10)]


def latency_run(world: int, rounds: int, steps: int) -> Figures:
    """Workers of one host under the launcher, with everything but the collectives themselves."""
    with tempfile.TemporaryDirectory(prefix="farandole-bench-") as scratch:
        result = Path(scratch) / "result"
        command = [sys.executable, "-m", "farandole", "run", "-np", str(world), str(LATENCY)]
        command += [str(Path(scratch) / "page"), str(result), str(rounds), str(steps), "161"]
        environment = {**os.environ, "PYTHONPATH": str(report.ROOT / "python"), "OMP_NUM_THREADS": "1"}
        subprocess.run(command, env=environment, timeout=TIMEOUT_S, check=True)
        return {name: float(value) for name, value in (line.split() for line in result.read_text().splitlines())}


def bare_exchange(world: int, rounds: int) -> Figures:
    """As many bare gRPC clients; the last one writes, the server writes to all."""
    command = [str(BARE_EXCHANGE), str(world)]
    done = subprocess.run(
        command, input=f"{rounds}\n", stdout=subprocess.PIPE, text=True, timeout=TIMEOUT_S, check=True
    )
    _, median, p99 = map(float, done.stdout.split())
    return {"median": median, "p99": p99}


def latency(world: int) -> list[report.Row]:
    """One cached tensor negotiated and replayed, whole steps replayed, and nothing at all."""
    rounds = 200 if QUICK else 1000
    steps = 10000 if world == 2 and not QUICK else 500
    ours, peer = several(2, lambda: latency_run(world, rounds, steps), lambda: bare_exchange(world, rounds))
    what = f"{world} ranks"
    negotiated = [
        ratio(
            report.row(
                f"one known tensor, last rank ready to all started, {what}: {name}",
                "us",
                pick(ours, f"negotiated_{name}_us"),
                bare_grpc=pick(peer, name),
            ),
            "bare_grpc",
            limit,
        )
        for name, limit in (("median", 2), ("p99", 5))
    ]
    spinning = report.row(f"replayed, busy: submit to start, {what}", "us", pick(ours, "replayed_spinning_median_us"))
    parked = report.row(
        f"replayed, parked: submit to start, {what}",
        "us",
        pick(ours, "replayed_parked_median_us"),
        futex_wake=pick(ours, "futex_median_us"),
    )
    messages = report.row(
        f"messages per step of a worker, replayed, {steps} steps, {what}", "", pick(ours, "messages_per_step")
    )
    rows = [*negotiated, limited(spinning, 10), ratio(parked, "futex_wake", 2), limited(messages, 0)]
    for row, name in ((spinning, "replayed"), (parked, "replayed"), (messages, "steps")):
        if min(pick(ours, f"{name}_silent")) == 0:
            row.goal, row.met = "to be replayed, which it was not", False
    for name in ("worker", "agent", "controller"):
        key = f"idle_{name}_share" + ("" if name == "worker" else "_per_rank")
        title = f"idle CPU of the {name}" + (", of one core" if name == "worker" else " per rank, of one core")
        rows.append(limited(report.row(f"{title}, {what}", "%", pick(ours, key, 100)), 0.1))
    return rows


def simulator() -> list[report.Row]:
    """A long simulated job: nearly every step repeats the one before, and every 20 steps something fails."""
    ranks, steps = (100, 200) if QUICK else (1000, 2000)
    command = [str(SIMULATOR), "--scale", f"--ranks={ranks}", f"--steps={steps}"]
    name = f"simulator, {ranks} ranks x {steps} steps x 161 tensors"
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=TIMEOUT_S, check=True)
    except subprocess.TimeoutExpired:
        return [judged(report.Row(f"{name}: not done yet after", TIMEOUT_S, "s"), "at most 60", False)]
    found = re.search(r"tensors: ([\d.]+) s .*, ([\d.]+) M events/s", done.stdout)
    assert found, done.stdout
    row = report.Row(name, float(found[1]), "s", peers={"events_per_s": float(found[2]) * 1e6})
    return [row if QUICK else limited(row, 60)]


def main() -> None:
    """Prints each part when measured, writes build/bench/control.json. Exit code 1 if one could not be measured."""
    parts: dict[str, Callable[[], list[report.Row]]] = {
        "2 ranks": lambda: latency(2),
        "4 ranks": lambda: latency(4),
        "behind agents": behind_agents,
        "agents of one rank": agents_of_one,
        "messages": messages,
        "simulator": simulator,
    }
    rows: list[report.Row] = []
    failed = False
    for name, measure in parts.items():
        try:
            measured = measure()
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            failed = True
            print(f"{name}: not measured: {error}", file=sys.stderr, flush=True)
            continue
        report.print_table(f"control, {name}", measured)
        rows += measured
    report.write("control", rows, "make bench-control")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
