"""One rank of torch.distributed with gloo that measures what players.py tells it to, as data_ranks_main.cc does.

argv: path of the driver's socket, rank, ranks, a file that all share. With rank -1: starts all of them.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time

import ranks
import torch
import torch.distributed as dist

STRIDE = 64
PERIOD = 61
REPEAT = 64


def start_all(path: str, ranks: int, shared: str) -> None:
    """Rank processes; returns when all have ended."""
    command = [sys.executable, __file__, path]
    children = [subprocess.Popen([*command, str(rank), str(ranks), shared]) for rank in range(ranks)]
    sys.exit(max(child.wait() for child in children))


class Pattern:
    """As pattern.h, float32 only."""

    def __init__(self, rank: int, size: int) -> None:
        self._cells = torch.arange(PERIOD * (REPEAT + 1)).remainder_(PERIOD).to(torch.float32)
        self._rank, self._size = rank, size

    def _block(self, rank: int, call: int) -> torch.Tensor:
        phase = (rank * 17 + call * 5) % PERIOD
        return self._cells[phase : phase + PERIOD * REPEAT]

    @staticmethod
    def _pieces(tensor: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        whole = tensor.numel() // (PERIOD * REPEAT) * PERIOD * REPEAT
        return tensor[:whole].view(-1, PERIOD * REPEAT), tensor[whole:]

    def fill(self, tensor: torch.Tensor, call: int) -> None:
        """Writes the operand of a call."""
        block = self._block(self._rank, call)
        rows, rest = self._pieces(tensor)
        rows.copy_(block)
        rest.copy_(block[: rest.numel()])

    def is_sum(self, tensor: torch.Tensor, call: int) -> bool:
        """True if every cell holds the sum over all ranks."""
        total = sum(self._block(rank, call) for rank in range(self._size))
        rows, rest = self._pieces(tensor)
        return bool((rows == total).all()) and bool((rest == total[: rest.numel()]).all())


class Rank:
    """Executes commands."""

    def __init__(self, rank: int, size: int, shared: str) -> None:
        os.environ["BENCH_SCRATCH"] = shared
        ranks.init_gloo(rank, size)
        self._all_reduce = dist.all_reduce
        self._aligner = ranks.Aligner(rank, size)
        self._pattern = Pattern(rank, size)
        self._memory = torch.empty(0)
        self._number = 0

    def measure(self, what: str, dtype: str, bytes_: int, calls: int, blocks: int) -> list[float]:
        """Seconds of the quickest call of all blocks: on a pinned processor most calls wait for a tick of the kernel,
        some do not.

        Raises:
            ValueError: a command that is not for gloo, or a wrong sum.
        """
        if what != "gloo" or dtype != "float32":
            raise ValueError(f"gloo does not measure {what} of {dtype}")
        stride = max(bytes_, STRIDE) // 4
        if self._memory.numel() < stride * calls:
            self._memory = torch.empty(stride * calls)
        operands = [self._memory[i * stride : i * stride + bytes_ // 4] for i in range(calls)]
        seconds = []
        for _ in range(blocks):
            for i, operand in enumerate(operands):
                self._pattern.fill(operand, self._number + i)
            self._aligner.wait(ranks.spin)
            moments = [time.perf_counter()]
            for operand in operands:
                self._all_reduce(operand)
                moments.append(time.perf_counter())
            seconds += [end - begin for begin, end in zip(moments, moments[1:])]
            for i, operand in enumerate(operands):
                if not self._pattern.is_sum(operand, self._number + i):
                    raise ValueError(f"gloo: wrong sum of {bytes_} bytes")
            self._number += calls
        return [min(seconds)]


def main() -> None:
    """argv: path of the driver's socket, rank (-1: starts all), number of ranks, shared folder."""
    path, rank, size, shared = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    if rank < 0:
        start_all(path, size, shared)
    torch.set_num_threads(1)
    ranks.pin(rank)
    executor = Rank(rank, size, shared)
    ranks.serve(path, f"rank {rank}", lambda what, dtype, numbers: executor.measure(what, dtype, *numbers))
    # The process group is left as it is: peers that end at the same time need no goodbye.
    os._exit(0)


if __name__ == "__main__":
    main()
