"""Steps that repeat themselves on a device of the fake CUDA driver: quiet_devices_worker.py WARM_UP STEPS TENSORS. The
steps after the first ones begin when the file `go` is there, and the process ends when `end` is."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

# Ranks of one GPU, for NCCL on several hosts.
os.environ["NCCL_HOSTID"] = str(os.getpid())

from fake_devices import ALL, SUM, Array, collectives  # noqa: E402

from farandole.core import handles  # noqa: E402
from farandole.session import init  # noqa: E402

warm_up, steps, tensors = map(int, sys.argv[1:])


def until(name: str) -> None:
    for _ in range(6000):
        if Path(name).exists():
            return
        time.sleep(0.01)
    sys.exit(f"nobody made {name}")


def train(steps: int) -> None:
    for _ in range(steps):
        begun = [
            handles.track(*collectives.allreduce(gradient, True, f"layer.{index}", SUM, 1.0, 1.0, ALL))
            for index, gradient in enumerate(gradients)
        ]
        handles.synchronize_all(begun)


init.init()
gradients = [Array.of([0.0] * 50) for _ in range(tensors)]
train(warm_up)
handles.settle()
print("warm", flush=True)
until("go")
train(steps)
handles.settle()
until("end")
init.shutdown()
