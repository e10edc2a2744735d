"""From the launcher's start to the script's first line, and init() after the last rank has called it, beside torchrun
and init_process_group with gloo."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import ranks
import report

ROUNDS = 9
WORLD = 2


def launch(launcher: list[str], whose: str) -> dict[str, float]:
    """Seconds to the last rank's first line, and of init after the last rank's call."""
    with tempfile.TemporaryDirectory(prefix="farandole-bench-") as scratch:
        environment = {
            **os.environ,
            "BENCH_SCRATCH": scratch,
            "PYTHONPATH": str(ranks.PYTHON_PATH),
            "OMP_NUM_THREADS": "1",
        }
        environment["GLOO_SOCKET_IFNAME"] = "lo"
        begin = time.monotonic()
        command = [*launcher, str(ranks.HERE / "startup_ranks.py"), whose]
        subprocess.run(command, env=environment, check=True, timeout=120)
        found = [json.loads((Path(scratch) / f"rank{r}.json").read_text()) for r in range(WORLD)]
    return {
        "first line": max(f["first_line"] for f in found) - begin,
        "init": max(f["init_end"] for f in found) - max(f["init_begin"] for f in found),
    }


def main() -> None:
    """Writes build/bench/startup.json."""
    ours = [sys.executable, "-m", "farandole", "run", "-np", str(WORLD), sys.executable]
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(WORLD), "--master-port", "0"]
    times: dict[str, dict[str, list[float]]] = {"farandole": {}, "torchrun": {}}
    for _ in range(ROUNDS):
        for peer, launcher, whose in (("farandole", ours, "farandole"), ("torchrun", torchrun, "gloo")):
            for what, seconds in launch(launcher, whose).items():
                times[peer].setdefault(what, []).append(seconds * 1e3)
    a, b = times["farandole"], times["torchrun"]
    report.write(
        "startup",
        [
            report.row("launch to first line, 2 ranks", "ms", a["first line"], torchrun=b["first line"]),
            report.row("init after the last rank, 2 ranks", "ms", a["init"], gloo=b["init"]),
        ],
    )


if __name__ == "__main__":
    main()
