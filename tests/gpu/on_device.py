"""Runs a worker of tests/multiprocess with its tensors on a device: `python on_device.py DEVICE WORKER ARGUMENT...`.
Scripts of tests/gpu find their device by `init`.

The ranks share the GPUs if there are not enough. NCCL takes that for several hosts if each names its own.
"""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path

import torch


def share_gpus(as_hosts: bool = True) -> int:
    """Before init(): the number of GPUs; if ranks share them, NCCL takes each rank for a host of its own, unless it is
    not to."""
    gpus = torch.cuda.device_count()
    # Of an elastic job the number of ranks on this host is not told before init().
    ranks = os.environ.get("FARANDOLE_LOCAL_SIZE") or os.environ.get("FARANDOLE_SIZE", "1")
    if as_hosts and gpus < int(ranks):
        os.environ["NCCL_HOSTID"] = f"process {os.getpid()}"
    return gpus


def init(device: str, as_hosts: bool = True) -> torch.device:
    """hvd.init(); then what a script does to choose its GPU. `as_hosts`: see `share_gpus`."""
    import farandole.torch as hvd

    gpus = share_gpus(as_hosts) if device == "cuda" else 0
    hvd.init()
    if not gpus:
        return torch.device(device)
    torch.cuda.set_device(hvd.local_rank() % gpus)
    return torch.device(device, torch.cuda.current_device())


class Generator(torch.Generator):
    """What is drawn on a device needs a generator there, unless it names another place."""

    def __new__(cls, where: str = "") -> Generator:
        return super().__new__(cls, where or torch.empty(0).device)


def run(device: str, worker: str) -> None:
    """Runs the worker as the main program."""
    # Ranks compare bit for bit what each has computed of the same batch.
    torch.backends.cudnn.deterministic = True
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    if device == "cuda":
        torch.cuda.set_device(int(os.environ.get("FARANDOLE_LOCAL_RANK", "0")) % share_gpus())
    torch.set_default_device(device)
    torch.Generator = Generator
    sys.path.insert(0, str(Path(worker).parent))
    runpy.run_path(worker, run_name="__main__")


if __name__ == "__main__":
    of_worker = sys.argv[2:]
    device, sys.argv = sys.argv[1], of_worker
    run(device, of_worker[0])
