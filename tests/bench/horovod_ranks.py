"""One rank of bench_horovod: the same script for both packages, which measures what players.py tells it to.

argv: `farandole` or `horovod`, path of the driver's socket.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable

import ranks
import torch
from models import Work

PACKAGES = {"farandole": "farandole.torch", "horovod": "horovod.torch"}
hvd = importlib.import_module(PACKAGES[sys.argv[1]])


class Rank:
    """Executes commands."""

    def __init__(self) -> None:
        self._works: dict[str, Work] = {}
        # As many as ResNet-50 has gradients.
        self._small = [torch.zeros(64) for _ in range(161)]

    def measure(self, what: str, bytes_: int, calls: int, blocks: int) -> list[float]:
        """Seconds of a call, the mean of `calls`, for each of the blocks.

        Raises:
            ValueError: a wrong sum.
        """
        return ranks.timed_blocks(self._call(what, bytes_), calls, blocks)

    def _call(self, what: str, bytes_: int) -> Callable[[], object]:
        if what == "allreduce":
            data = torch.arange(bytes_ // 4).remainder_(61).to(torch.float32)
            expected = data * hvd.size()
            name = f"x{bytes_}"
            if not torch.equal(hvd.allreduce(data, name=name, op=hvd.Sum), expected):
                raise ValueError(f"wrong sum of {bytes_} bytes")
            data.zero_()
            return lambda: hvd.allreduce_(data, name=name, op=hvd.Sum)
        if what == "small":
            return self._allreduce_small
        if what not in self._works:
            self._works[what] = Work(what, hvd.rank(), wrap_optimizer=self._wrap)
        return self._works[what].step

    def _allreduce_small(self) -> None:
        for handle in [hvd.allreduce_async_(each, name=f"small.{i}") for i, each in enumerate(self._small)]:
            hvd.synchronize(handle)

    @staticmethod
    def _wrap(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
        return hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())


def main() -> None:
    """The first line tells the process, too."""
    torch.set_num_threads(1)
    hvd.init()
    executor = Rank()
    hello = f"rank {hvd.rank()} pid {os.getpid()}"
    ranks.serve(sys.argv[2], hello, lambda what, _, numbers: executor.measure(what, *numbers))
    hvd.shutdown()
    os._exit(0)


if __name__ == "__main__":
    main()
