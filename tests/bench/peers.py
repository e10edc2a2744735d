"""How the peers of bench_data are started: our communicators with the bounds beside them, gloo, and Open MPI, which is
tuned for this machine first."""

from __future__ import annotations

import math
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import report
from players import NotMeasuredError, Player, Samples, by_turns, task

BIN = report.ROOT / "bazel-bin" / "tests" / "bench"
HERE = Path(__file__).resolve().parent

# What a forced algorithm is called in coll_tuned_allreduce_algorithm; 0 lets Open MPI decide by its own table.
ALGORITHMS = {
    0: "its own choice",
    2: "nonoverlapping",
    3: "recursive doubling",
    4: "ring",
    5: "segmented ring",
    6: "rabenseifner",
}


def ours(ranks: int, hosts: Sequence[str] = ()) -> Player:
    """data_ranks_main.cc: shm_*, tcp, loop_*, ping_pong, exchange, sockets; with `hosts`, each a network and an address
    there, hier_*."""
    return Player(f"farandole, {ranks} ranks", ranks, lambda path: [str(BIN / "data_ranks"), path, str(ranks), *hosts])


def gloo(ranks: int) -> Player:
    """torch.distributed, one thread a rank beside gloo's own."""

    def command(path: str) -> list[str]:
        return [sys.executable, str(HERE / "gloo_ranks.py"), path, "-1", str(ranks), str(Path(path).parent)]

    return Player(f"gloo, {ranks} ranks", ranks, command)


class OpenMpi:
    """Open MPI of two ranks, bound to a core each.

    Raises:
        NotMeasuredError: it is not installed, or the program for it is not built.
    """

    def __init__(self) -> None:
        if shutil.which("mpirun") is None or shutil.which("ompi_info") is None:
            raise NotMeasuredError("Open MPI is not installed: scripts/install_deps.sh --bench says why")
        if not (BIN / "mpi_ranks").exists():
            raise NotMeasuredError("bazel build //tests/bench:mpi_ranks has not been done")
        self.settings: dict[str, str] = {}
        self.said: list[str] = []

    def start(self, **settings: str) -> Player:
        """Ranks with these MCA parameters beside those that were found best."""
        # Shared memory alone, both ranks spinning: the quickest way where each has a core.
        words = ["mpirun", "-np", "2", "--bind-to", "core", "--map-by", "core"]
        parameters = {"pml": "ob1", "btl": "vader,self", "mpi_yield_when_idle": "0", **self.settings, **settings}
        for name, value in parameters.items():
            words += ["--mca", name, value]
        if os.geteuid() == 0:
            words.append("--allow-run-as-root")
        return Player("Open MPI", 2, lambda path: [*words, str(BIN / "mpi_ranks"), path, f"{path}.page"])

    def tune(self, sizes: list[int], scratch: Path, rounds: int) -> None:
        """Finds the best single-copy mechanism and, with it, the best algorithm for each size; they become the
        settings of start(). `said` gets what was found."""
        mechanisms = self._mechanisms()
        large = [size for size in sizes if size >= 256 << 10] or sizes
        total = {}
        for mechanism in mechanisms:
            found = self._measure(large, rounds, btl_vader_single_copy_mechanism=mechanism)
            total[mechanism] = math.exp(sum(math.log(s.median) for s in found.values()) / len(found))
        best = min(total, key=total.__getitem__)
        self.settings["btl_vader_single_copy_mechanism"] = best
        self.said.append(
            f"{self._version()}; single-copy mechanism {best} (geometric mean of "
            f"{len(large)} large sizes: {', '.join(f'{m} {t * 1e6:.0f} us' for m, t in total.items())})"
        )
        dynamic = {"coll_tuned_use_dynamic_rules": "1"}
        by_algorithm = {
            algorithm: self._measure(
                sizes,
                rounds,
                **({} if algorithm == 0 else {**dynamic, "coll_tuned_allreduce_algorithm": str(algorithm)}),
            )
            for algorithm in ALGORITHMS
        }
        chosen = {size: min(ALGORITHMS, key=lambda a: by_algorithm[a][size].median) for size in sizes}
        self.said.append("algorithms: " + ", ".join(f"{size} B {ALGORITHMS[chosen[size]]}" for size in sizes))
        # Message sizes are lower bounds in this file; 2 is the number of allreduce, then communicators of 2 ranks on.
        lines = [f"{0 if size == sizes[0] else size} {chosen[size]} 0 0" for size in sizes]
        rules = scratch / "open_mpi_rules"
        rules.write_text("\n".join(["1", "2", "1", "2", str(len(lines)), *lines, ""]))
        self.settings |= {**dynamic, "coll_tuned_dynamic_rules_filename": str(rules)}

    def _measure(self, sizes: list[int], rounds: int, **settings: str) -> dict[int, Samples]:
        player = self.start(**settings)
        try:
            return {size: by_turns({"": (player, task("openmpi", size))}, rounds)[""] for size in sizes}
        finally:
            player.close()

    @staticmethod
    def _mechanisms() -> list[str]:
        words = ["ompi_info", "--param", "btl", "vader", "--level", "9"]
        told = subprocess.run(words, capture_output=True, text=True).stdout
        part = told.partition('"btl_vader_single_copy_mechanism"')[2].partition("MCA btl vader")[0]
        return re.findall(r'\d+:"(\w+)"', part) or ["none"]

    @staticmethod
    def _version() -> str:
        words = ["ompi_info", "--version"]
        return subprocess.run(words, capture_output=True, text=True).stdout.splitlines()[0]
