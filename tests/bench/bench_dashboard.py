"""What `farandole dashboard` costs the controller of a job with 1,000 ranks: processor time with and without, by turns.

The ranks are those of farandole-perf, which hold their agents' leases and do nothing else. So less happens to them than
to ranks that train, of which a dashboard hears as often as it asks for; what that costs is measured with status_load,
which asks ten times a second. One browser, played by this program, takes what it is told.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import report

sys.path.insert(0, str(report.ROOT / "tests"))
import processes
from streams import Stream, url_of

from farandole.base import locate
from farandole.launch.dashboard import commands
from farandole.launch.processes import tokens
from farandole.launch.status import query

RANKS = 1000
PER_AGENT = 8
TENSORS = 10
ROUNDS = 6
ROUND_S = 8.0
# After it has begun to watch, and after it has ended.
SETTLE_S = 2.0
# What farandole-perf starts as its controller: leaves the key, which farandole-perf has made, and its pid in files.
WRAPPER = """#!/bin/bash
umask 077
key=$(</dev/fd/3)
printf %s "$key" >FOLDER/key
exec 3< <(printf %s "$key")
echo $$ >FOLDER/pid
exec CONTROLLER "$@" --listen 127.0.0.1:PORT
"""


def cpu_s(pid: int) -> float:
    """What all threads of a process have used so far."""
    tasks = Path(f"/proc/{pid}/task")
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks.iterdir()) * 1e-9


def wait_for(condition: Callable[[], bool]) -> None:
    """Polls until it is true; half a minute at most."""
    deadline = time.monotonic() + 30
    while not condition():
        if time.monotonic() > deadline:
            raise SystemExit("bench_dashboard: the load did not come up within 30 s")
        time.sleep(0.1)


def ready(target: query.Target) -> bool:
    """Whether all ranks have taken their one step."""
    try:
        status = target.get()
    except query.QueryError:
        return False
    return status["size"] == RANKS and int(status["tensors"]) >= TENSORS and not status["waits"]


@contextmanager
def loaded_controller(folder: Path, seconds: float) -> Iterator[tuple[int, str]]:
    """Pid and address of one with RANKS ranks; the observer's token for job `load` is in folder/token."""
    port = processes.free_port()
    controller = folder / "controller"
    text = WRAPPER.replace("FOLDER", str(folder)).replace("PORT", str(port))
    controller.write_text(text.replace("CONTROLLER", locate.find("farandole-controller")))
    controller.chmod(0o700)
    options = {"ranks": RANKS, "per-agent": PER_AGENT, "steps": 1, "tensors": TENSORS, "hold-ms": int(seconds * 1000)}
    command = [locate.find("farandole-perf"), "control", "--controller", str(controller)]
    command += [word for name, value in options.items() for word in (f"--{name}", str(value))]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as load:
        try:
            wait_for(lambda: (folder / "pid").exists())
            token = tokens.observer_token((folder / "key").read_text(), "load")
            (folder / "token").write_text(token)
            (folder / "token").chmod(0o600)
            wait_for(lambda: ready(query.Target("load", f"127.0.0.1:{port}", token=token)))
            yield int((folder / "pid").read_text()), f"127.0.0.1:{port}"
        finally:
            load.kill()


class Reader(threading.Thread):
    """A browser that counts the statuses and the bytes that it is told."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self._stream = Stream(url)
        self.statuses = self.bytes = 0

    def run(self) -> None:
        while (line := self._stream.file.readline()) != b"":
            self.bytes += len(line)
            self.statuses += b'"status": {' in line
        self._stream.close()


def watched(pid: int, address: str, folder: Path) -> dict[str, float]:
    """Shares of a core, and what a browser is told in a second, while a dashboard watches."""
    options = ["--controller", address, "--job", "load", "--token-file", str(folder / "token")]
    with processes.running([sys.executable, "-m", "farandole", "dashboard", *options], folder) as dashboard:
        reader = Reader(url_of(dashboard))
        reader.start()
        time.sleep(SETTLE_S)
        own = [dashboard.process.pid, *children(dashboard.process.pid)]
        before = cpu_s(pid), sum(map(cpu_s, own)), reader.statuses, reader.bytes
        time.sleep(ROUND_S)
        after = cpu_s(pid), sum(map(cpu_s, own)), reader.statuses, reader.bytes
        dashboard.process.terminate()
        dashboard.wait()
        reader.join()
    names = ("controller", "dashboard", "statuses", "bytes")
    return {name: (b - a) / ROUND_S for name, a, b in zip(names, before, after)}


def asked(pid: int, address: str, folder: Path) -> float:
    """The controller's share of a core while it is asked for ten statuses a second."""
    command = [str(report.ROOT / "bazel-bin" / "tests" / "bench" / "status_load"), address, "load"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as load:

        def turn(word: str) -> int:
            load.stdin.write(f"{word}\n")
            return int(load.stdout.readline())

        turn((folder / "token").read_text())
        turn("on")
        share = alone(pid)
        answers = turn("off")
        load.stdin.close()
    assert answers > 9 * ROUND_S, f"status_load had {answers} answers"
    return share


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def alone(pid: int) -> float:
    """The controller's share of a core without a dashboard."""
    time.sleep(SETTLE_S)
    before = cpu_s(pid)
    time.sleep(ROUND_S)
    return (cpu_s(pid) - before) / ROUND_S


def main() -> None:
    """Writes build/bench/dashboard.json."""
    rounds = int(os.environ.get("BENCH_ROUNDS", ROUNDS))
    without, found, ten = [], [], []
    with tempfile.TemporaryDirectory(prefix="farandole-bench-") as scratch:
        folder = Path(scratch)
        with loaded_controller(folder, rounds * 3 * (ROUND_S + 2 * SETTLE_S) + 60) as (pid, address):
            for _ in range(rounds):
                without.append(100 * alone(pid))
                found.append(watched(pid, address, folder))
                ten.append(100 * asked(pid, address, folder))
    what = f"{RANKS} ranks, a dashboard"
    with_it = [100 * one["controller"] for one in found]
    each = [(b - a) / 10 for a, b in zip(without, ten)]
    more = report.row(f"{what}: controller, more than without", "%", [b - a for a, b in zip(without, with_it)])
    most = report.row(f"{what}: controller, when all train", "%", [commands.PER_SECOND * one for one in each])
    for row in (more, most):
        row.goal, row.met = "under 1 % of a core", row.value < 1
    report.write(
        "dashboard",
        [
            more,
            most,
            report.row(f"{what}: controller, without", "%", without),
            report.row(f"{what}: controller, for each status", "ms", [10 * one for one in each]),
            report.row(f"{what}: its own two processes", "%", [100 * one["dashboard"] for one in found]),
            report.row(f"{what}: statuses that a browser is told", "/s", [one["statuses"] for one in found]),
            report.row(f"{what}: what a browser is told", "MB/s", [one["bytes"] / 1e6 for one in found]),
        ],
    )


if __name__ == "__main__":
    main()
