"""Runs a worker of tests/multiprocess with its tensors on a device: `python on_device.py DEVICE WORKER ARGUMENT...`.

The ranks share the first GPU if there are not enough. NCCL takes that for several hosts if each names its own.
"""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path

import torch

device, worker = sys.argv[1:3]
if device == "cuda":
    rank, gpus = int(os.environ.get("FARANDOLE_LOCAL_RANK", "0")), torch.cuda.device_count()
    if gpus < int(os.environ.get("FARANDOLE_LOCAL_SIZE", "1")):
        os.environ["NCCL_HOSTID"] = str(rank)
    torch.cuda.set_device(rank % gpus)
torch.set_default_device(device)


class Generator(torch.Generator):
    """What is drawn on a device needs a generator there, unless it names another place."""

    def __new__(cls, where: str = device) -> Generator:
        return super().__new__(cls, where)


torch.Generator = Generator
sys.path.insert(0, str(Path(worker).parent))
sys.argv = [worker, *sys.argv[3:]]
runpy.run_path(worker, run_name="__main__")
