"""One rank of bench_negotiation. Rank 0 also drives the bare gRPC exchange, by turns, while the others sleep."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

import ranks
import torch

import farandole.torch as hvd


class BareExchange:
    """The peer: tests/bench/grpc_exchange with as many clients as there are ranks."""

    def __init__(self, clients: int) -> None:
        program = ranks.HERE.parents[1] / "bazel-bin" / "tests" / "bench" / "grpc_exchange"
        self._process = subprocess.Popen(
            [program, str(clients)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(self, rounds: int) -> float:
        """Median seconds of one exchange."""
        self._process.stdin.write(f"{rounds}\n")
        self._process.stdin.flush()
        return float(self._process.stdout.readline().split()[0]) / 1e6

    def close(self) -> None:
        self._process.stdin.close()
        self._process.wait()


def median_of(calls: int, call: object) -> float:
    """Median seconds of a call that keeps the ranks in step by itself."""
    times = []
    for _ in range(calls):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def main() -> None:
    """argv: rounds, calls per round. Reports {what: [seconds of each round]}."""
    rounds, calls = int(sys.argv[1]), int(sys.argv[2])
    hvd.init()
    aligner = ranks.Aligner(hvd.rank(), hvd.size())
    peer = BareExchange(hvd.size()) if hvd.rank() == 0 else None
    tiny = torch.ones(1)
    kinds = {
        "barrier": hvd.barrier,
        "allreduce of 4 B": lambda: hvd.allreduce_(tiny, name="tiny", op=hvd.Average),
    }
    times: dict[str, list[float]] = {name: [] for name in (*kinds, "bare gRPC")}
    for _ in range(rounds):
        for name, call in kinds.items():
            times[name].append(median_of(calls, call))
            if tiny.item() != 1:
                raise SystemExit(f"average of ones is {tiny.item()}")
        aligner.wait(ranks.rest)
        if peer is not None:
            times["bare gRPC"].append(peer.run(calls))
        aligner.wait(ranks.rest)
    if peer is not None:
        peer.close()
        ranks.report(times)
    hvd.shutdown()


if __name__ == "__main__":
    main()
