"""One rank of bench_data's training step: our optimizer and torch's DDP with gloo, by turns, on the same batches.

argv: network, rounds, steps of each round. Reports {"times": {trainer: [[seconds of each step] of each round]},
"gradients": [bytes that differ from DDP's, bytes]}. The trainer "ddp_alone" is DDP without its communication.
"""

from __future__ import annotations

import inspect
import sys
import time

import ranks
import torch
import torch.distributed as dist
from models import Work, WrapModel
from torch import nn

import farandole.torch as hvd

WARM_UP = 12
# DDP's buffers are not broadcast, as ours does not do that either. Torch has another name for it since 2.12 or 2.13.
_OPTIONS = inspect.signature(nn.parallel.DistributedDataParallel).parameters
WITHOUT_BUFFERS = {"forward_sync_buffers" if "forward_sync_buffers" in _OPTIONS else "broadcast_buffers": False}


def with_ddp(model: nn.Module) -> nn.Module:
    """DDP as its documentation tunes it."""
    return nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True, **WITHOUT_BUFFERS)


def with_ours(model: nn.Module, optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
    """Our optimizer, as the README shows it."""
    return hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())


def differing_gradients(name: str, with_ddp: WrapModel = with_ddp) -> list[int]:
    """Three steps from one state on the same batches: bytes of gradients that differ from DDP's after the last, and all
    of them."""
    ours = Work(name, hvd.rank(), wrap_optimizer=with_ours)
    ddp = Work(name, hvd.rank(), wrap_model=with_ddp)
    for work in (ours, ddp) * 3:
        work.optimizer.zero_grad()
        work.backward()
        if work is ours:
            work.optimizer.synchronize()
            with work.optimizer.skip_synchronize():
                work.optimizer.step()
        else:
            work.optimizer.step()
    differing = total = 0
    for a, b in zip(ours.plain.parameters(), ddp.plain.parameters()):
        assert a.grad is not None and b.grad is not None
        bits = [p.grad.contiguous().view(torch.uint8).flatten() for p in (a, b)]
        differing += int((bits[0] != bits[1]).sum())
        total += bits[0].numel()
    return [differing, total]


def steps(work: Work, count: int, aligner: ranks.Aligner) -> list[float]:
    """Seconds of each step."""
    aligner.wait()
    times = []
    for _ in range(count):
        begin = time.perf_counter()
        work.step()
        times.append(time.perf_counter() - begin)
    return times


def main() -> None:
    """All trainers by turns."""
    name, rounds, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    torch.set_num_threads(1)
    hvd.init()
    ranks.pin(hvd.local_rank())
    ranks.init_gloo(hvd.rank(), hvd.size())
    aligner = ranks.Aligner(hvd.rank(), hvd.size())
    gradients = differing_gradients(name)
    ddp = Work(name, hvd.rank(), wrap_model=with_ddp)
    trainers = {"farandole": Work(name, hvd.rank(), wrap_optimizer=with_ours), "ddp": ddp}
    names = [*trainers, "ddp_alone"]
    times: dict[str, list[list[float]]] = {trainer: [] for trainer in names}
    for work in trainers.values():
        steps(work, WARM_UP, aligner)
    for number in range(rounds):
        shift = number % len(names)
        for trainer in names[shift:] + names[:shift]:
            if trainer == "ddp_alone":
                with ddp.model.no_sync():
                    times[trainer].append(steps(ddp, count, aligner))
            else:
                times[trainer].append(steps(trainers[trainer], count, aligner))
    if hvd.rank() == 0:
        ranks.report({"times": times, "gradients": gradients})
    dist.destroy_process_group()
    hvd.shutdown()


if __name__ == "__main__":
    main()
