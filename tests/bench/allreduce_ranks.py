"""One rank of bench_allreduce: times our allreduce and gloo's by turns, on the same buffers, checking every result."""

from __future__ import annotations

import statistics
import sys

import ranks
import torch
import torch.distributed as dist

import farandole.torch as hvd


def iterations(bytes_: int) -> int:
    """Calls of each peer per round."""
    return 30 if bytes_ <= 64 << 10 else 12 if bytes_ <= 1 << 20 else 4 if bytes_ <= 16 << 20 else 2


class Case:
    """One size: a buffer whose every cell differs from its neighbours, from other ranks' and from the last call's."""

    def __init__(self, bytes_: int, aligner: ranks.Aligner) -> None:
        self.bytes = bytes_
        self.aligner = aligner
        self.base = (torch.arange(bytes_ // 4) % 8191).to(torch.float32)
        self.data = torch.empty_like(self.base)
        self.calls = 0

    def run(self, peer: str) -> float:
        """Seconds of one call; fails if the sum is wrong anywhere."""
        self.calls += 1
        torch.add(self.base, hvd.rank() + self.calls, out=self.data)
        if peer == "farandole":
            seconds = ranks.timed(self.aligner, lambda: hvd.allreduce_(self.data, name=f"x{self.bytes}", op=hvd.Sum))
        else:
            seconds = ranks.timed(self.aligner, lambda: dist.all_reduce(self.data))
        size = hvd.size()
        expected = self.base.mul_(size).add_(size * (size - 1) // 2 + size * self.calls)
        if not torch.equal(self.data, expected):
            raise SystemExit(f"{peer}: wrong sum of {self.bytes} bytes")
        self.base.sub_(size * (size - 1) // 2 + size * self.calls).div_(size)
        return seconds


def median_of_slowest(seconds: list[float]) -> float:
    """Of each call the slowest rank's time, of these the median."""
    every: list[list[float]] = [[] for _ in range(hvd.size())]
    dist.all_gather_object(every, seconds)
    return statistics.median(max(call) for call in zip(*every))


def main() -> None:
    """argv: rounds, sizes in bytes. Reports {size: {peer: [seconds of each round]}}."""
    rounds = int(sys.argv[1])
    hvd.init()
    ranks.init_gloo(hvd.rank(), hvd.size())
    aligner = ranks.Aligner(hvd.rank(), hvd.size())
    cases = [Case(int(size), aligner) for size in sys.argv[2:]]
    peers = ["farandole", "gloo"]
    times: dict[str, dict[str, list[float]]] = {str(c.bytes): {p: [] for p in peers} for c in cases}
    for case in cases:
        for peer in peers * 3:
            case.run(peer)
    for number in range(rounds):
        for case in cases:
            seconds: dict[str, list[float]] = {p: [] for p in peers}
            # Neither always goes first, neither finds caches warmed by itself alone.
            for i in range(iterations(case.bytes)):
                for peer in peers if (i + number) % 2 == 0 else reversed(peers):
                    seconds[peer].append(case.run(peer))
            for peer in peers:
                times[str(case.bytes)][peer].append(median_of_slowest(seconds[peer]))
    if hvd.rank() == 0:
        ranks.report(times)
    dist.destroy_process_group()
    hvd.shutdown()


if __name__ == "__main__":
    main()
