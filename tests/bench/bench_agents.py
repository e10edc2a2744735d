"""A thousand agents, each of a host of its own, at one controller with TLS and tokens: how soon they have joined, and
what memory they take. And what a job of four ranks feels while another tenant of its controller misbehaves.

FARANDOLE_BENCH_QUICK=1 takes a tenth of the agents, and shorter attacks.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import bench_control
import report
from bench_control import CONTROLLER, QUICK, TLS

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(report.ROOT / "python")]

import processes  # noqa: E402
from tenant_processes import CONNECTIONS_MAX, STREAMS_EACH  # noqa: E402

from farandole.launch.processes import tokens  # noqa: E402

AGENTS = 100 if QUICK else 1000
ROUNDS = 1 if QUICK else 3
ATTACK_S = 3.0 if QUICK else 10.0
# In which neither the attack begins nor ends.
EDGE_S = 0.5
KEY = "b" * 64
# The namespace of the tenant's jobs, and what it may have where there are limits.
TENANT = "tenant"
LIMITS = f"{TENANT} jobs=4 agents=64\n"
AGENT = bench_control.BIN / "agent" / "farandole-agent"
# The first is the peer: what the others take from the machine, whatever the controller does.
KINDS = {
    "spinning": "a process that only computes",
    "knocking": "wrong tokens",
    "streams": "streams that say nothing",
    "announcing": "a job that announces as fast as it can",
}


def what_of(kind: str, limits: str) -> str:
    """Of the tenant, for a row."""
    return KINDS.get(kind, "nobody else") + (f", with limits ({limits.strip()})" if limits else "")


def joining() -> list[report.Row]:
    """Beside as many bare gRPC streams with the same handshakes."""
    ours, bare = bench_control.several(
        ROUNDS,
        lambda: bench_control.load(AGENTS, 1, steps=0, opening=AGENTS, **TLS),
        lambda: bench_control.bare(AGENTS, opening=AGENTS, **TLS),
    )
    pick = bench_control.pick
    what = f"{AGENTS} agents of one rank at once, TLS"
    join, handshakes = pick(ours, "join_s"), pick(bare, "open_s")
    memory = pick(ours, "resident_bytes", 1e-6)
    return [
        report.row(f"{what}: first call to complete view", "s", join, bare_handshakes=handshakes),
        report.row(f"{what}: resident memory of the controller", "MB", memory),
    ]


class Site:
    """A controller, and who uses it."""

    def __init__(self, folder: Path, address: str, pid: int) -> None:
        self.folder, self.address, self.pid = folder, address, pid

    def token(self, job: str) -> Path:
        path = self.folder / f"{job}.token"
        path.write_text(tokens.member_token(KEY, job))
        path.chmod(0o600)
        return path

    def resident_mb(self) -> float:
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6

    @contextmanager
    def job(self, name: str, kind: str, ranks: int, seconds: float = 0.0) -> Iterator[processes.Job]:
        """Until the body has ended, and `seconds` are over."""
        end, folder = self.folder / f"{name}.end", self.folder / name
        folder.mkdir()
        command = [str(AGENT), "--job", name, "--controller", self.address, "--token-file", str(self.token(name))]
        command += ["--tls-ca", str(TLS["tls_cert"]), "--size", str(ranks), "--", sys.executable]
        command += [str(HERE / "tenant_ranks.py"), kind, str(end)]
        with processes.running(command, folder) as job:
            started = time.monotonic()
            yield job
            time.sleep(max(0.0, started + seconds - time.monotonic()))
            end.touch()
            if job.wait():
                raise SystemExit(job.report())


@contextmanager
def site(limits: str = "") -> Iterator[Site]:
    with tempfile.TemporaryDirectory(prefix="farandole-bench-") as scratch, ExitStack() as stack:
        folder = Path(scratch)
        key = folder / "key"
        key.write_text(KEY)
        key.chmod(0o600)
        reader, writer = os.pipe()
        command = [str(CONTROLLER), "--key-file", str(key), "--ready-fd", str(writer)]
        command += ["--tls-cert", str(TLS["tls_cert"]), "--tls-key", str(TLS["tls_key"])]
        if limits:
            (folder / "limits").write_text(limits)
            command += ["--limits-file", str(folder / "limits")]
        process = subprocess.Popen(command, pass_fds=[writer], stdin=subprocess.DEVNULL, env=processes.environment())
        stack.callback(process.wait)
        stack.callback(process.kill)
        os.close(writer)
        with os.fdopen(reader) as file:
            yield Site(folder, file.readline().strip(), process.pid)


def attack(place: Site, kind: str, index: int) -> str:
    """What the tenant says that it has done."""
    job = f"{TENANT}.{kind}-{index}"
    if kind == "announcing":
        with place.job(job, kind, 2, ATTACK_S) as found:
            pass
        (line,) = found.lines("announced ")
        return f"{line} tensors"
    words = [kind, place.address, job, str(place.token(job)), str(TLS["tls_cert"]), str(ATTACK_S)]
    done = subprocess.run(
        [sys.executable, str(HERE / "tenant_processes.py"), *words],
        stdout=subprocess.PIPE,
        text=True,
        timeout=ATTACK_S + 60,
        check=True,
    )
    return done.stdout.strip()


def felt(neighbour: processes.Job, begin: float, end: float) -> list[float]:
    """Microseconds of the steps in between."""
    steps = [tuple(map(float, line.split())) for line in neighbour.lines("step ")]
    times = [took * 1e6 for at, took in steps if begin + EDGE_S <= at <= end - EDGE_S]
    if len(times) < 50:
        raise SystemExit(f"only {len(times)} steps of the neighbour in {end - begin:.1f} s\n{neighbour.report()}")
    return times


def neighbours(kinds: Iterable[str], limits: str = "") -> tuple[list[report.Row], dict[str, str]]:
    """By turns; medians of the rounds, and the 99th percentile of all steps."""
    took: dict[str, list[float]] = {kind: [] for kind in ("quiet", *kinds)}
    medians: dict[str, list[float]] = {kind: [] for kind in took}
    did, memory = {}, {}
    with site(limits) as place, place.job("neighbour", "neighbour", 4) as neighbour:
        neighbour.wait_for(lambda: len(neighbour.lines("step ")) > 100, "the first steps")
        for index in range(ROUNDS):
            for kind in took:
                begin = time.monotonic()
                if kind == "quiet":
                    time.sleep(ATTACK_S)
                else:
                    did[kind] = attack(place, kind, index)
                times = felt(neighbour, begin, min(time.monotonic(), begin + ATTACK_S))
                took[kind] += times
                medians[kind].append(statistics.median(times))
                memory[kind] = place.resident_mb()
    rows = []
    for kind, times in took.items():
        row = report.row(f"one new tensor of 4 ranks, TLS, beside {what_of(kind, limits)}", "us", medians[kind])
        row.p99 = statistics.quantiles(times, n=100)[98]
        rows.append(row)
    for kind in took:
        rows.append(report.Row(f"resident memory after {what_of(kind, limits)}, last round", memory[kind], "MB"))
    return rows, did


def main() -> None:
    """Prints a table, writes build/bench/agents.json."""
    rows = joining()
    more, did = neighbours(KINDS)
    limited, kept = neighbours(["streams"], LIMITS)
    did["streams with limits"] = kept["streams"]
    asked = CONNECTIONS_MAX * STREAMS_EACH
    report.write("agents", rows + more + limited, "make bench-agents", did=did, streams_asked=asked)
    for kind, what in did.items():
        print(f"{kind}: {what} in {ATTACK_S:.0f} s")


if __name__ == "__main__":
    main()
