"""One rank of bench_footprint: threads and memory before and after a library comes in. argv: farandole or gloo."""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path

import ranks
import torch
import torch.distributed as dist


def now() -> dict[str, int]:
    """Threads, and private plus shared resident KiB."""
    gc.collect()
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return {"threads": int(status["Threads"]), "kib": int(status["VmRSS"].split()[0])}


def main() -> None:
    """Reports what importing and init added, and what a first allreduce of 1 MiB added to that."""
    rank, size = int(os.environ["FARANDOLE_RANK"]), int(os.environ["FARANDOLE_SIZE"])
    data = torch.ones(1 << 18)
    data.add_(1)
    before = now()
    if sys.argv[1] == "farandole":
        import farandole.torch as hvd

        hvd.init()
        after = now()
        hvd.allreduce_(data, name="x", op=hvd.Sum)
        used = now()
        hvd.shutdown()
    else:
        ranks.init_gloo(rank, size)
        after = now()
        dist.all_reduce(data)
        used = now()
        dist.destroy_process_group()
    if rank == 0:
        ranks.report({f"{when} {k}": v[k] - before[k] for when, v in (("init", after), ("use", used)) for k in v})


if __name__ == "__main__":
    main()
