"""Farandole beside Horovod 0.28.1 with gloo, built for the same torch (scripts/install_horovod.sh): allreduce from 4 B
to 64 MiB, 161 small tensors, optimizer steps, start-up and the recovery of an elastic job. Both run the same scripts by
turns; Horovod's ranks are stopped while they have no turn, as they look around a thousand times a second.
"""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import curves
import horovod_peer
import ranks
import report
from players import Samples, Task, by_turns

WORLD = 2
QUICK = os.environ.get("FARANDOLE_BENCH_QUICK") == "1"
SIZES = [4, 64, 1 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20]
ROUNDS = 3 if QUICK else 11
STARTS = 3 if QUICK else 9
RECOVERIES = 2 if QUICK else 7
HOROVOD = report.ROOT / ".deps" / "horovod"
PEER = horovod_peer.NAME
QUICKER, STEP, RECOVERED = 10.0, 0.75, 5.0


def ratio(
    name: str, unit: str, scale: float, samples: dict[str, Samples], goal: float, part_of: str
) -> list[report.Row]:
    """A row of times, and one of how many times as long Horovod takes."""
    ours, theirs = samples["farandole"], samples[PEER]
    times = report.row(name, unit, [s * scale for s in ours.medians], **{PEER: [s * scale for s in theirs.medians]})
    line = report.row(f"{name}: {PEER} / ours", "x", theirs.over(ours))
    line.goal, line.part_of = f"at least {goal:.3g}", part_of
    line.met = line.value >= goal
    return [times, line]


def collectives_and_steps() -> tuple[list[report.Row], dict[str, list[tuple[int, float]]]]:
    """Rows, and for the picture the medians of each package by size."""
    ours, theirs = horovod_peer.players(WORLD, "horovod_ranks.py", Path(sys.executable), HOROVOD)
    rows: list[report.Row] = []
    points: dict[str, list[tuple[int, float]]] = {"farandole": [], PEER: []}
    try:
        for size in SIZES:
            calls = max(2, min(100, (8 << 20) // size))
            what = Task("allreduce", size, calls, 3)
            found = by_turns({"farandole": (ours, what), PEER: (theirs, what)}, ROUNDS)
            rows += ratio(f"allreduce {curves.size_label(size)}", "us", 1e6, found, QUICKER, "allreduce")
            for name, samples in found.items():
                points[name].append((size, samples.median * 1e6))
        small = Task("small", 0, 5, 3)
        found = by_turns({"farandole": (ours, small), PEER: (theirs, small)}, ROUNDS)
        rows += ratio("161 small tensors", "ms", 1e3, found, QUICKER, "161 small tensors")
        for name, title in (("resnet18", "ResNet-18"), ("gpt", "GPT")):
            step = Task(name, 0, 5, 2)
            found = by_turns({"farandole": (ours, step), PEER: (theirs, step)}, ROUNDS)
            rows += ratio(f"{title} step", "ms", 1e3, found, 1 / STEP, "step")
    finally:
        ours.close()
        theirs.close()
    return rows, points


def start_command(whose: str, script: str, *options: str) -> list[str]:
    """How ranks of the package are started, with options of its launcher."""
    if whose == "farandole":
        return horovod_peer.ours(Path(sys.executable), WORLD, script, *options)
    return horovod_peer.theirs(HOROVOD, WORLD, script, *options)


def start_s(whose: str) -> float:
    """Seconds from the launcher's start to its end, of ranks that only call init()."""
    environment = {**os.environ, "PYTHONPATH": str(ranks.PYTHON_PATH) if whose == "farandole" else ""}
    command = start_command(whose, "horovod_start.py")
    begin = time.monotonic()
    subprocess.run(command, env=environment, check=True, timeout=120, stdout=subprocess.DEVNULL)
    return time.monotonic() - begin


def recovery_s(whose: str) -> float:
    """Seconds from kill -9 of one of two workers to the next step of the other."""
    with tempfile.TemporaryDirectory(prefix="farandole-bench-") as scratch:
        environment = {**os.environ, "PYTHONPATH": str(ranks.PYTHON_PATH) if whose == "farandole" else ""}
        discovery = Path(scratch) / "hosts.sh"
        # Horovod gives up the host of a worker that has died: two names of this one.
        discovery.write_text("#!/bin/sh\necho localhost:1\necho 127.0.0.1:1\n")
        discovery.chmod(0o700)
        options = ("--min-np", "1", "--max-np", "2", "--host-discovery-script", str(discovery))
        output = Path(scratch) / "steps"
        output.touch()
        command = [*start_command(whose, "horovod_elastic.py", *options), str(output)]
        process = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True
        )
        try:
            return _recover(process, output)
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def _recover(process: subprocess.Popen, output: Path) -> float:
    deadline = time.monotonic() + 180

    def steps() -> list[list[str]]:
        if time.monotonic() > deadline or process.poll() is not None:
            raise SystemExit(f"bench: an elastic job did not go on; its last steps:\n{output.read_text()[-2000:]}")
        time.sleep(0.002)
        return [line.split() for line in output.read_text().splitlines() if line.count(" ") == 3]

    while len({words[0] for words in steps()[-20:] if words[2] == "2"}) < 2:
        pass
    victim = next(words for words in reversed(steps()) if words[1] == "1")
    killed_s = time.monotonic()
    os.kill(int(victim[0]), signal.SIGKILL)
    while True:
        later = [float(words[3]) for words in steps() if words[2] == "1"]
        if later:
            return later[0] - killed_s


def by_turns_of(measure: object, rounds: int) -> dict[str, Samples]:
    """Seconds of both packages, another one first every time."""
    found: dict[str, list[list[float]]] = {"farandole": [], PEER: []}
    for number in range(rounds):
        for whose in ("farandole", "horovod") if number % 2 == 0 else ("horovod", "farandole"):
            found["farandole" if whose == "farandole" else PEER].append([measure(whose)])
    return {name: Samples(values) for name, values in found.items()}


def main() -> None:
    """Writes build/bench/horovod.json and docs/pictures/horovod.svg."""
    if not (HOROVOD / "bin" / "horovodrun").exists():
        raise SystemExit(f"bench: no Horovod in {HOROVOD}; scripts/install_horovod.sh builds it")
    rows, points = collectives_and_steps()
    rows += ratio("launch, init() and end", "s", 1.0, by_turns_of(start_s, STARTS), 1.0, "start-up")
    rows += ratio("kill -9 to the next step", "s", 1.0, by_turns_of(recovery_s, RECOVERIES), RECOVERED, "recovery")
    command = "make bench-horovod" + (" QUICK=1" if QUICK else "")
    report.write("horovod", rows, command=command)
    report.print_goals(rows)
    if not QUICK:
        curves.draw(
            report.ROOT / "docs" / "pictures" / "horovod.svg",
            "Allreduce of float32, 2 ranks on one host",
            "us",
            [curves.Series(name, found) for name, found in points.items()],
            f"{command}, {report.commit()}",
        )
    overall = statistics.geometric_mean([r.value for r in rows if r.part_of == "allreduce"])
    print(f"allreduce, geometric mean over sizes: {overall:.1f} x")


if __name__ == "__main__":
    main()
