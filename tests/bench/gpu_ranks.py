"""One rank of bench_gpu: what is measured on a device, by turns with torch.distributed over NCCL on the same tensors.

argv: DEVICE, part, and its arguments; parts are the functions `part_...` below. On the CPU the peer is gloo.
"""

from __future__ import annotations

import collections
import json
import os
import signal
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import nccl_calls
import ranks
import torch
import torch.distributed as dist
from models import Work
from torch import nn
from train_ranks import WITHOUT_BUFFERS, with_ours

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from gpu import on_device

import farandole.torch as hvd
from farandole.torch.gradients.reducer import GradientReducer
from farandole.torch.gradients.slot import Slot

Times = dict[str, list[float]]

DEVICE = sys.argv[1]
WARM_UP = 20
# More than the host takes to submit a group of 161 tensors (5 to 9 ms on an H100's host).
GROUP_MS = 30
_communicators = 0


def synchronize() -> None:
    """Waits until the device has done all that it was given."""
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def init() -> None:
    """hvd.init(), and the device of this rank for all tensors that name none."""
    on_device.init(DEVICE, as_hosts=os.environ.get("BENCH_SHARES_BY", "sockets") == "sockets")
    torch.set_default_device(DEVICE)


def init_peer(rank: int, size: int) -> None:
    """torch.distributed in the same process; again after it was destroyed."""
    global _communicators
    _communicators += 1
    store = ranks.scratch(f"peer{_communicators}.{size}")
    backend = "nccl" if DEVICE == "cuda" else "gloo"
    dist.init_process_group(backend, init_method=f"file://{store}", rank=rank, world_size=size)


def by_turns(calls: dict[str, Callable[[], object]], rounds: int, warm_up: int = WARM_UP) -> Times:
    """Seconds that each call takes until the device has done it, all ranks together."""
    aligner = ranks.Aligner(hvd.rank(), hvd.size())
    times: Times = {name: [] for name in calls}
    for turn in range(warm_up + rounds):
        for name, call in calls.items():
            synchronize()
            seconds = ranks.timed(aligner, lambda call=call: (call(), synchronize()))
            if turn >= warm_up:
                times[name].append(seconds)
    return times


def part_call(bytes_: str, rounds: str) -> Times:
    """An average in place of one tensor, beside ncclAllReduce on the same one and stream, also of a communicator that
    does not block, as ours; on the CPU beside gloo."""
    tensor = torch.ones(int(bytes_) // 4)
    calls = {"farandole": lambda: hvd.allreduce_(tensor, op=hvd.Average, name="call")}
    if DEVICE != "cuda":
        init_peer(hvd.rank(), hvd.size())
        return by_turns({**calls, "bare": lambda: dist.all_reduce(tensor, op=dist.ReduceOp.MAX)}, int(rounds))
    blocking = nccl_calls.Communicator(hvd.rank(), hvd.size(), hvd.broadcast_object)
    as_ours = nccl_calls.Communicator(hvd.rank(), hvd.size(), hvd.broadcast_object, blocking=False)
    bare = {"bare": lambda: blocking.average(tensor), "not blocking": lambda: as_ours.average(tensor)}
    times = by_turns({**calls, **bare}, int(rounds))
    for communicator in (blocking, as_ours):
        communicator.close()
    return times


def part_shared(bytes_: str, rounds: str) -> Times:
    """A sum in place."""
    tensor = torch.ones(int(bytes_) // 4)
    times = by_turns({"sum": lambda: hvd.allreduce_(tensor, op=hvd.Sum, name="sum")}, int(rounds))
    return {"seconds": times["sum"]}


def hold_up(ms: int = 1) -> None:
    """Has the device wait for so long or a little more, in which the host puts there what follows: then nothing between
    its parts is the host's time."""
    if DEVICE == "cuda":
        torch.cuda._sleep(ms * 2_000_000)


def device_seconds(call: Callable[[], object]) -> float:
    """What a call takes on the device, by its own clock; on the CPU by the host's."""
    if DEVICE != "cuda":
        begin = time.perf_counter()
        call()
        return time.perf_counter() - begin
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
    hold_up()
    marks[0].record()
    call()
    marks[1].record()
    synchronize()
    return marks[0].elapsed_time(marks[1]) / 1000


def seconds_in(timeline: Path, span: str, rounds: int) -> list[float]:
    """Of the last rounds, each of which reduced every tensor once: seconds in spans of this name. Tensors of one batch
    share theirs. Rounds without such a span are left out."""
    found: dict[int, list[set[tuple[int, int]]]] = collections.defaultdict(list)  # by tensor, of each round
    open_spans: dict[int, list[tuple[str, int]]] = collections.defaultdict(list)
    for event in json.loads(timeline.read_text()):
        pid, stack = event.get("pid"), open_spans[event.get("pid", 0)]
        if event["ph"] == "B":
            stack.append((event["name"], event["ts"]))
            if event["name"] == "ALLREDUCE":
                found[pid].append(set())
        elif event["ph"] == "E":
            name, begin = stack.pop()
            if name == span:
                found[pid][-1].add((begin, event["ts"]))
    complete = min((len(each) for each in found.values()), default=0)
    times = []
    for back in range(min(rounds, complete), 0, -1):
        batches = set().union(*(each[-back] for each in found.values()))
        times.append(sum(end - begin for begin, end in batches) / 1e6)
    return [seconds for seconds in times if seconds > 0]


def part_pack(tensors: str, bytes_: str, rounds: str) -> Times:
    """Tensors that lie apart: what packing and unpacking them takes on the device of one rank, as the timeline tells,
    beside a copy of as many bytes there."""
    count = int(bytes_) // 16 // int(tensors) * 4  # of float32: whole 16 bytes, as most layers have
    apart = [torch.ones(count) for _ in range(2 * int(tensors))][::2]
    whole, copy = torch.ones(count * int(tensors)), torch.empty(count * int(tensors))
    timeline = ranks.scratch("timeline.json")
    copies = []
    for turn in range(WARM_UP + int(rounds)):
        if turn == WARM_UP:
            hvd.start_timeline(str(timeline))
        synchronize()
        copies.append(device_seconds(lambda: copy.copy_(whole)))
        hold_up(GROUP_MS)
        hvd.grouped_allreduce_(apart, op=hvd.Sum, name="apart")
    synchronize()
    hvd.stop_timeline()
    names = {"packed": "MEMCPY_IN_FUSION_BUFFER", "unpacked": "MEMCPY_OUT_FUSION_BUFFER"}
    phases = {name: seconds_in(timeline, span, int(rounds)) for name, span in names.items()}
    return {"copy": copies[WARM_UP:], **phases}


def part_first() -> Times:
    """The first collective of a job: NCCL's initialisation, and our kernels, which the driver compiles or has."""
    tensor = torch.ones(1000)
    synchronize()
    hvd.barrier()
    begin = time.perf_counter()
    hvd.allreduce_(tensor, name="first")
    synchronize()
    return {"first": [time.perf_counter() - begin]}


def part_submit(tensors: str, rounds: str) -> Times:
    """Host time: of submitting one gradient, of waiting for all of a step, and of a batch in one call."""
    gradients = [torch.ones(1000) for _ in range(int(tensors))]
    aligner = ranks.Aligner(hvd.rank(), hvd.size())
    times: Times = {"submit": [], "wait": [], "batch": []}
    for turn in range(WARM_UP + int(rounds)):
        synchronize()
        aligner.wait()
        begin = time.perf_counter()
        handles = [hvd.allreduce_async_(each, name=f"gradient {i}") for i, each in enumerate(gradients)]
        submitted = time.perf_counter()
        for handle in handles:
            hvd.synchronize(handle)
        waited = time.perf_counter()
        synchronize()
        aligner.wait()
        together = time.perf_counter()
        hvd.synchronize(hvd.grouped_allreduce_async_(gradients, name="batch"))
        ended = time.perf_counter()
        if turn >= WARM_UP:
            times["batch"].append(ended - together)
            times["submit"].append((submitted - begin) / len(gradients))
            times["wait"].append(waited - submitted)
    return times


def part_hook(tensors: str, rounds: str) -> Times:
    """Host time inside of the optimizer's hook, for one gradient in the mean of a step."""
    seconds: list[float] = []
    make_hook = GradientReducer._make_hook

    def make_timed(reducer: GradientReducer, slot: Slot) -> Callable[[torch.Tensor], None]:
        hook = make_hook(reducer, slot)

        def timed(parameter: torch.Tensor) -> None:
            begin = time.perf_counter()
            hook(parameter)
            seconds.append(time.perf_counter() - begin)

        return timed

    GradientReducer._make_hook = make_timed
    parameters = [nn.Parameter(torch.ones(1000)) for _ in range(int(tensors))]
    named = [(f"parameter {i}", parameter) for i, parameter in enumerate(parameters)]
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(parameters, lr=0.0), named)
    times = []
    for turn in range(WARM_UP + int(rounds)):
        optimizer.zero_grad()
        loss = sum((parameter * parameter).sum() for parameter in parameters)
        synchronize()
        seconds.clear()
        loss.backward()
        optimizer.step()
        if turn >= WARM_UP:
            times.append(statistics.mean(seconds))
    return {"hook": times}


def part_last(tensors: str, rounds: str) -> dict[str, list[float]]:
    """Host time from the submission of the last tensor of a batch, whose others were submitted before, until the batch
    is enqueued on the device; on the CPU until it is done. `together`: in which part of the rounds it was one batch."""
    gradients = [torch.ones(1000) for _ in range(int(tensors))]
    aligner = ranks.Aligner(hvd.rank(), hvd.size())
    times, together = [], 0
    for turn in range(2 * WARM_UP + int(rounds)):
        synchronize()
        aligner.wait()
        handles = [hvd.allreduce_async_(each, name=f"gradient {i}") for i, each in enumerate(gradients[1:])]
        # Until both have submitted them, and the threads behind are at rest again.
        aligner.wait()
        time.sleep(0.003)
        waiting = not hvd.poll(handles[0])
        aligner.wait()
        begin = time.perf_counter()
        hvd.synchronize(hvd.allreduce_async_(gradients[0], name="last gradient"))
        ended = time.perf_counter()
        for handle in handles:
            hvd.synchronize(handle)
        if turn >= 2 * WARM_UP:
            times.append(ended - begin)
            together += waiting
    return {"last": times, "together": [together / int(rounds)]}


def with_ddp(model: nn.Module) -> nn.Module:
    """DDP as its documentation tunes it."""
    devices = [torch.cuda.current_device()] if DEVICE == "cuda" else None
    return nn.parallel.DistributedDataParallel(model, devices, gradient_as_bucket_view=True, **WITHOUT_BUFFERS)


def part_step(network: str, rounds: str) -> Times:
    """Steps of training."""
    init_peer(hvd.rank(), hvd.size())
    trainers = {
        "farandole": Work(network, hvd.rank(), wrap_optimizer=with_ours),
        "ddp": Work(network, hvd.rank(), wrap_model=with_ddp),
    }
    return by_turns({name: work.step for name, work in trainers.items()}, int(rounds), warm_up=6)


def part_gradients(network: str) -> dict[str, list[float]]:
    """After three steps from one state on the same batches: in how many of their bytes our gradients differ from DDP's,
    and DDP's from those of another DDP. With kernels that give the same each time, where torch has such."""
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.backends.cudnn.deterministic = True
    # With warn_only the others add up in any order.
    for attention in ("flash", "mem_efficient", "cudnn"):
        getattr(torch.backends.cuda, f"enable_{attention}_sdp")(False)
    init_peer(hvd.rank(), hvd.size())

    def gradients(**wraps: Callable) -> list[torch.Tensor]:
        work = Work(network, hvd.rank(), **wraps)
        for _ in range(3):
            work.step()
        return [p.grad.detach().clone().flatten().view(torch.uint8) for p in work.plain.parameters()]

    ddp = gradients(wrap_model=with_ddp)
    others = {"farandole": gradients(wrap_optimizer=with_ours), "ddp": gradients(wrap_model=with_ddp)}
    differing = {name: [float(sum(int((a != b).sum()) for a, b in zip(ddp, other)))] for name, other in others.items()}
    return {**differing, "of": [float(sum(each.numel() for each in ddp))]}


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
    torch.ones(1)
    synchronize()
    hvd.barrier()  # each has its context, which is in what all have taken
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
    """Seconds to abort a communicator of NCCL's, make another one and use it once; on the CPU one of gloo's."""
    tensor, times = torch.ones(1000), []
    aligner = ranks.Aligner(hvd.rank(), hvd.size())
    for _ in range(int(rounds)):
        use, abort = make_peer(tensor)
        use()
        synchronize()
        aligner.wait(ranks.rest)
        begin = time.perf_counter()
        abort()
        use, abort = make_peer(tensor)
        use()
        synchronize()
        times.append(time.perf_counter() - begin)
        abort()
    return {"peer": times}


def make_peer(tensor: torch.Tensor) -> tuple[Callable[[], object], Callable[[], object]]:
    """A communicator of all ranks: what uses it, and what ends it."""
    if DEVICE == "cuda":
        made = nccl_calls.Communicator(hvd.rank(), hvd.size(), hvd.broadcast_object)
        return lambda: made.average(tensor), made.abort
    init_peer(hvd.rank(), hvd.size())
    return lambda: dist.all_reduce(tensor), dist.destroy_process_group


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
    init()
    result = globals()[f"part_{part}"](*arguments)
    if hvd.rank() == 0:
        ranks.report(result)
    if dist.is_initialized():
        dist.destroy_process_group()
    hvd.shutdown()


if __name__ == "__main__":
    main(sys.argv[2], sys.argv[3:])
