"""One rank of bench_gpu: what is measured on a device, by turns with torch.distributed over NCCL on the same tensors.

argv: DEVICE, part, and its arguments; parts are the functions `part_...` below. On the CPU the peer is gloo.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Sequence

import nccl_calls
import ranks
import torch
import torch.distributed as dist
from models import Work
from torch import nn
from train_ranks import differing_gradients, with_ours

import farandole.torch as hvd

Times = dict[str, list[float]]

DEVICE = sys.argv[1]
WARM_UP = 20
_communicators = 0


def synchronize() -> None:
    """Waits until the device has done all that it was given."""
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def choose_device() -> None:
    """Ranks share the GPUs if there are not enough; NCCL takes that for several hosts if each names its own."""
    if DEVICE == "cuda":
        rank, gpus = int(os.environ["FARANDOLE_LOCAL_RANK"]), torch.cuda.device_count()
        by_sockets = os.environ.get("BENCH_SHARES_BY", "sockets") == "sockets"
        if gpus < int(os.environ["FARANDOLE_LOCAL_SIZE"]) and by_sockets:
            os.environ["NCCL_HOSTID"] = str(rank)
        torch.cuda.set_device(rank % gpus)
    torch.set_default_device(DEVICE)


def init_peer(rank: int, size: int) -> None:
    """torch.distributed in the same process; again after it was destroyed."""
    global _communicators
    _communicators += 1
    store = ranks.scratch(f"peer{_communicators}.{size}")
    backend = "nccl" if DEVICE == "cuda" else "gloo"
    dist.init_process_group(backend, init_method=f"file://{store}", rank=rank, world_size=size)


def by_turns(calls: dict[str, Callable[[], object]], rounds: int) -> Times:
    """Seconds that each call takes until the device has done it, all ranks together."""
    aligner = ranks.Aligner(hvd.rank(), hvd.size())
    times: Times = {name: [] for name in calls}
    for turn in range(WARM_UP + rounds):
        for name, call in calls.items():
            synchronize()
            seconds = ranks.timed(aligner, lambda call=call: (call(), synchronize()))
            if turn >= WARM_UP:
                times[name].append(seconds)
    return times


def part_call(bytes_: str, rounds: str) -> Times:
    """An average in place of one tensor, beside ncclAllReduce on the same one and stream; on the CPU beside gloo."""
    tensor = torch.ones(int(bytes_) // 4)
    calls = {"farandole": lambda: hvd.allreduce_(tensor, op=hvd.Average, name="call")}
    if DEVICE != "cuda":
        init_peer(hvd.rank(), hvd.size())
        return by_turns({**calls, "bare": lambda: dist.all_reduce(tensor, op=dist.ReduceOp.MAX)}, int(rounds))
    bare = nccl_calls.Communicator(hvd.rank(), hvd.size(), hvd.broadcast_object)
    times = by_turns({**calls, "bare": lambda: bare.average(tensor)}, int(rounds))
    bare.close()
    return times


def part_shared(bytes_: str, rounds: str) -> Times:
    """A sum in place."""
    tensor = torch.ones(int(bytes_) // 4)
    times = by_turns({"sum": lambda: hvd.allreduce_(tensor, op=hvd.Sum, name="sum")}, int(rounds))
    return {"seconds": times["sum"]}


def part_pack(tensors: str, bytes_: str, rounds: str) -> Times:
    """Tensors that lie apart beside as many bytes in one piece; what is more is packing and unpacking. A copy of the
    same bytes on the device, twice, is the least that this can take."""
    count = int(bytes_) // 4 // int(tensors)
    apart = [torch.ones(count) for _ in range(2 * int(tensors))][::2]
    whole, copy = torch.ones(count * int(tensors)), torch.empty(count * int(tensors))

    def two_copies() -> None:
        copy.copy_(whole)
        whole.copy_(copy)

    calls = {
        "apart": lambda: hvd.grouped_allreduce_(apart, op=hvd.Sum, name="apart", prescale_factor=1 / hvd.size()),
        "whole": lambda: hvd.allreduce_(whole, op=hvd.Sum, name="whole", prescale_factor=1 / hvd.size()),
        "two_copies": two_copies,
    }
    return by_turns(calls, int(rounds))


def part_first() -> Times:
    """The first batch that our kernels pack, which loads them, beside the second."""
    synchronize()
    hvd.allreduce_(torch.ones(1000), name="NCCL")
    synchronize()
    apart = [torch.ones(1000) for _ in range(20)][::2]
    times: Times = {}
    for turn in ("first", "second"):
        begin = time.perf_counter()
        hvd.grouped_allreduce_(apart, name="apart")
        synchronize()
        times[turn] = [time.perf_counter() - begin]
    return times


def part_submit(tensors: str, rounds: str) -> Times:
    """Host time: of submitting one gradient, of waiting for all of a step, and of a batch in one call."""
    gradients = [torch.ones(1000) for _ in range(int(tensors))]
    times: Times = {"submit": [], "wait": [], "batch": []}
    for turn in range(WARM_UP + int(rounds)):
        synchronize()
        begin = time.perf_counter()
        handles = [hvd.allreduce_async_(each, name=f"gradient {i}") for i, each in enumerate(gradients)]
        submitted = time.perf_counter()
        for handle in handles:
            hvd.synchronize(handle)
        waited = time.perf_counter()
        synchronize()
        together = time.perf_counter()
        hvd.synchronize(hvd.grouped_allreduce_async_(gradients, name="batch"))
        ended = time.perf_counter()
        if turn >= WARM_UP:
            times["batch"].append(ended - together)
            times["submit"].append((submitted - begin) / len(gradients))
            times["wait"].append(waited - submitted)
    return times


def with_ddp(model: nn.Module) -> nn.Module:
    """DDP as its documentation tunes it."""
    devices = [torch.cuda.current_device()] if DEVICE == "cuda" else None
    return nn.parallel.DistributedDataParallel(model, devices, forward_sync_buffers=False, gradient_as_bucket_view=True)


def part_step(network: str, rounds: str) -> dict[str, list[float]]:
    """Steps of training, and in how many of its bytes a gradient differs from DDP's after three."""
    init_peer(hvd.rank(), hvd.size())
    differing = differing_gradients(network, with_ddp)
    trainers = {
        "farandole": Work(network, hvd.rank(), wrap_optimizer=with_ours),
        "ddp": Work(network, hvd.rank(), wrap_model=with_ddp),
    }
    times: dict[str, list[float]] = by_turns({name: work.step for name, work in trainers.items()}, int(rounds))
    return {**times, "differing": [float(number) for number in differing]}


def sharing() -> int:
    """Ranks that use the GPU of this one."""
    return max(1, hvd.local_size() // torch.cuda.device_count()) if DEVICE == "cuda" else 1


def device_bytes() -> int:
    """What all processes have taken of this one's GPU; 0 on the CPU."""
    if DEVICE != "cuda":
        return 0
    free, total = torch.cuda.mem_get_info()
    return total - free


def part_memory(network: str, trainer: str) -> dict[str, list[float]]:
    """Bytes of the device that a process has taken after some steps, NCCL's and ours included, but for its context."""
    hvd.barrier()
    before = device_bytes()
    hvd.barrier()
    if trainer == "ddp":
        init_peer(hvd.rank(), hvd.size())
        work = Work(network, hvd.rank(), wrap_model=with_ddp)
    else:
        work = Work(network, hvd.rank(), wrap_optimizer=with_ours)
    for _ in range(5):
        work.step()
    synchronize()
    hvd.barrier()
    return {"bytes": [(device_bytes() - before) / sharing()]}


def part_bare_recovery(rounds: str) -> Times:
    """Seconds to abort a communicator of torch's, make another one and use it once."""
    init_peer(hvd.rank(), hvd.size())
    tensor, times = torch.ones(1000), []
    dist.all_reduce(tensor)
    aligner = ranks.Aligner(hvd.rank(), hvd.size())
    for _ in range(int(rounds)):
        synchronize()
        aligner.wait(ranks.rest)
        begin = time.perf_counter()
        dist.destroy_process_group()
        init_peer(hvd.rank(), hvd.size())
        dist.all_reduce(tensor)
        synchronize()
        times.append(time.perf_counter() - begin)
    return {"peer": times}


def part_shrink(rounds: str) -> Times:
    """Seconds until two of three have another communicator and have used it, the one of three ended included: by NCCL's
    ncclCommShrink, and by a new one, whose id goes through our broadcast. Nothing is under way, and the third one only
    stands aside."""
    rank, tensor, aligner = hvd.rank(), torch.ones(1000), ranks.Aligner(hvd.rank(), hvd.size())
    pair = hvd.add_process_set([0, 1])

    def anew(whole: nccl_calls.Communicator) -> nccl_calls.Communicator:
        whole.abort()
        return nccl_calls.Communicator(rank, 2, lambda mine: hvd.broadcast_object(mine, process_set=pair))

    def shrunk(whole: nccl_calls.Communicator) -> nccl_calls.Communicator:
        made = whole.without([2])
        whole.abort()
        return made

    ways = {"shrunk": shrunk, "anew": anew}
    times: Times = {way: [] for way in ways}
    for _ in range(int(rounds)):
        for way, recover in ways.items():
            whole = nccl_calls.Communicator(rank, 3, hvd.broadcast_object)
            whole.average(tensor)
            synchronize()
            aligner.wait(ranks.rest)
            if rank < 2:
                begin = time.perf_counter()
                made = recover(whole)
                made.average(tensor)
                synchronize()
                times[way].append(time.perf_counter() - begin)
                made.close()
            hvd.barrier()
            if rank == 2:
                whole.abort()
    return times


def part_recovery() -> Times:
    """Seconds from kill -9 of the last rank to the next allreduce of the others."""
    state, tensor = hvd.elastic.TorchState(step=0), torch.ones(1000)
    first, killed = hvd.size(), ranks.scratch("killed")

    @hvd.elastic.run
    def train(state: hvd.elastic.TorchState) -> float:
        while True:
            hvd.allreduce_(tensor, name="step")
            synchronize()
            if hvd.size() < first:
                return time.monotonic() - float(killed.read_text())
            state.step += 1
            if state.step == 50 and hvd.rank() == first - 1:
                killed.write_text(str(time.monotonic()))
                os.kill(os.getpid(), signal.SIGKILL)
            state.commit()

    return {"farandole": [train(state)]}


def main(part: str, arguments: Sequence[str]) -> None:
    """Runs one part; rank 0 reports what it returns."""
    choose_device()
    hvd.init()
    result = globals()[f"part_{part}"](*arguments)
    if hvd.rank() == 0:
        ranks.report(result)
    if dist.is_initialized():
        dist.destroy_process_group()
    hvd.shutdown()


if __name__ == "__main__":
    main(sys.argv[2], sys.argv[3:])
