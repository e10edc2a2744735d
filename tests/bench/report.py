"""What every benchmark writes: a table for people and build/bench/<name>.json for later comparison."""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OUT = ROOT / "build" / "bench"


@dataclass
class Row:
    """One figure. `spread` is [lower quartile, upper quartile]; `peers` maps a peer's name to its value, measured
    in the same run and unit; `goal` is a sentence or None; `met` is None without a goal; `p99` of all samples;
    `part_of`: what a table of goals calls all rows of this kind."""

    name: str
    value: float
    unit: str
    spread: list[float] = field(default_factory=list)
    peers: dict[str, float] = field(default_factory=dict)
    goal: str | None = None
    met: bool | None = None
    p99: float | None = None
    part_of: str | None = None


def quartiles(values: Sequence[float]) -> list[float]:
    """[lower quartile, upper quartile]."""
    if len(values) < 2:
        return [values[0], values[0]]
    lower, _, upper = statistics.quantiles(values, n=4, method="inclusive")
    return [lower, upper]


def row(name: str, unit: str, values: Sequence[float], **others: Sequence[float]) -> Row:
    """A row of medians over rounds; `others` are the peers' values of the same rounds."""
    peers = {peer: statistics.median(v) for peer, v in others.items()}
    return Row(name, statistics.median(values), unit, quartiles(values), peers)


def machine() -> dict[str, object]:
    """What a reader needs to know to compare."""
    model = next((x.split(":")[1].strip() for x in open("/proc/cpuinfo") if x.startswith("model name")), "unknown")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**30
    import torch

    return {
        "cpu": model,
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": memory,
        "kernel": platform.release(),
        "python": platform.python_version(),
        "torch": torch.__version__,
    }


def commit() -> str:
    """Commit of the tree, with + when it has changes."""
    command = ["git", "describe", "--always", "--dirty=+", "--abbrev=12", "--match="]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    except FileNotFoundError:
        return "unknown: git is not here"
    return done.stdout.strip() or "unknown"


def _number(value: float) -> str:
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"


def print_table(name: str, rows: list[Row]) -> None:
    """One line per row on stdout."""
    print(f"\n== {name}")
    width = max(len(r.name) for r in rows)
    for r in rows:
        spread = f" [{_number(r.spread[0])}..{_number(r.spread[1])}]" if r.spread else ""
        spread += "" if r.p99 is None else f" p99 {_number(r.p99)}"
        peers = "".join(f"   {peer} {_number(value)}" for peer, value in r.peers.items())
        goal = "" if r.goal is None else f"   {'met' if r.met else 'NOT MET'}: {r.goal}"
        print(f"{r.name:<{width}}  {_number(r.value):>8} {r.unit:<6}{spread}{peers}{goal}")
    sys.stdout.flush()


def print_goals(rows: list[Row]) -> None:
    """One line for each kind of rows with a goal, below it what was missed."""
    kinds: dict[str, list[Row]] = {}
    for r in rows:
        if r.goal is not None:
            kinds.setdefault(f"{r.part_of or r.name}: {r.goal}", []).append(r)
    print("\n== goals")
    for kind, found in kinds.items():
        missed = [r for r in found if not r.met]
        values = sorted(r.value for r in found)
        said = _number(values[0]) + (f" to {_number(values[-1])}" if len(values) > 1 else "")
        met = "met" if not missed else f"MISSED in {len(missed)} of {len(found)}"
        print(f"{kind}: {said} {found[0].unit}: {met}")
        for r in missed:
            spread = f" [{_number(r.spread[0])}..{_number(r.spread[1])}]" if r.spread else ""
            print(f"    {r.name}: {_number(r.value)} {r.unit}{spread}")
    sys.stdout.flush()


def write_file(name: str, rows: list[Row], command: str | None = None, **others: object) -> None:
    """Writes build/bench/<name>.json, with whatever else is given."""
    OUT.mkdir(parents=True, exist_ok=True)
    report = {
        "command": command or f"make bench BENCH={name}",
        "machine": machine(),
        "commit": commit(),
        "rows": [asdict(r) for r in rows],
        **others,
    }
    (OUT / f"{name}.json").write_text(json.dumps(report, indent=1, default=asdict) + "\n")


def write(name: str, rows: list[Row], command: str | None = None, **others: object) -> None:
    """Writes the file, and prints the table."""
    write_file(name, rows, command, **others)
    print_table(name, rows)
