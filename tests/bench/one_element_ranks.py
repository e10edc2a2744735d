"""One rank of bench_data's row of one element: our allreduce_ under replay and torch.distributed with gloo, by turns.

argv: rounds, calls of each round. Reports {peer: [[seconds of each call] of each round]}.
"""

from __future__ import annotations

import sys

import ranks
import torch
import torch.distributed as dist

import farandole.torch as hvd

WARM_UP = 300


class Case:
    """A tensor of one element, another value in every call."""

    def __init__(self, aligner: ranks.Aligner) -> None:
        self._aligner = aligner
        self._data = torch.empty(1)
        self._call = 0

    def run(self, peer: str) -> float:
        """Seconds of one call."""
        self._call += 1
        value = self._call % 4096
        self._data.fill_(value + hvd.rank())
        if peer == "farandole":
            seconds = ranks.timed(self._aligner, lambda: hvd.allreduce_(self._data, name="one", op=hvd.Sum))
        else:
            seconds = ranks.timed(self._aligner, lambda: dist.all_reduce(self._data))
        if self._data.item() != 2 * value + 1:
            raise SystemExit(f"{peer}: wrong sum of one element: {self._data.item()}")
        return seconds


def slowest(seconds: list[float]) -> list[float]:
    """Of each call the slowest rank's time."""
    every: list[list[float]] = [[] for _ in range(hvd.size())]
    dist.all_gather_object(every, seconds)
    return [max(call) for call in zip(*every)]


def main() -> None:
    """Both peers, by turns."""
    rounds, calls = int(sys.argv[1]), int(sys.argv[2])
    torch.set_num_threads(1)
    hvd.init()
    ranks.pin(hvd.local_rank())
    ranks.init_gloo(hvd.rank(), hvd.size())
    case = Case(ranks.Aligner(hvd.rank(), hvd.size()))
    peers = ["farandole", "gloo"]
    for peer in peers:
        for _ in range(WARM_UP):
            case.run(peer)
    times: dict[str, list[list[float]]] = {peer: [] for peer in peers}
    for number in range(rounds):
        for peer in peers if number % 2 == 0 else reversed(peers):
            times[peer].append([case.run(peer) for _ in range(calls)])
    for peer in peers:
        times[peer] = [slowest(seconds) for seconds in times[peer]]
    if hvd.rank() == 0:
        ranks.report(times)
    dist.destroy_process_group()
    hvd.shutdown()


if __name__ == "__main__":
    main()
