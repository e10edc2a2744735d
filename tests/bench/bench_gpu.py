"""Collectives and training on a GPU, beside NCCL's own calls and DDP over the same NCCL: `make bench-gpu`, on a machine
with a GPU. Two ranks; they share it if there is one. Some parts only: `make bench-gpu PARTS="calls packing"`.

With DEVICE=cpu the same runs with small networks and gloo, which shows that the benchmark itself works, and no more.
"""

from __future__ import annotations

import os
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence

import ranks
import report
import torch

DEVICE = os.environ.get("FARANDOLE_TEST_DEVICE", "cuda")
ON_GPU = DEVICE == "cuda"
ROUNDS = 100 if ON_GPU else 5
SIZES = [4, 1 << 10, 64 << 10, 1 << 20, 16 << 20, 256 << 20] if ON_GPU else [4, 1 << 20]
NETWORKS = ["resnet50", "gpt124m"] if ON_GPU else ["resnet18", "gpt"]
TRIALS = 3 if ON_GPU else 1
# Two ranks on one GPU talk over sockets, which are slow, and take turns there: no goal is met or missed by that.
SHARED = ON_GPU and torch.cuda.device_count() < 2
ONE_GPU = "two ranks on one GPU"
SHARING_ROUNDS = 20 if ON_GPU else 2
NETWORK_ROUNDS = 3 if not ON_GPU else 8 if SHARED else 20
# Of one start of some ranks. A GPU may be there for minutes only.
TIMEOUT_S = 240
# What fails then is told, instead of being reduced on the host with a warning.
BY_NCCL = {"FARANDOLE_COMMUNICATOR": "nccl"}


def measure(part: str, *arguments: object, world: int = 2, options: tuple[str, ...] = (), **variables: str) -> dict:
    """What rank 0 of gpu_ranks.py has reported."""
    words = [DEVICE, part, *map(str, arguments)]
    variables = {**BY_NCCL, **variables}
    return ranks.start(world, "gpu_ranks.py", *words, options=options, variables=variables, timeout_s=TIMEOUT_S)


def with_goal(row: report.Row, part_of: str, goal: str, met: bool) -> report.Row:
    """The row, with what is wanted of it."""
    row.part_of, row.goal, row.met = part_of, goal, met
    return row


def not_judged(row: report.Row, why: str) -> report.Row:
    """The row without a goal, and why it has none."""
    row.name += f" (not judged: {why})"
    return row


def unless_shared(row: report.Row, part_of: str, goal: str, met: bool) -> report.Row:
    """With the goal, where each rank has a GPU."""
    return not_judged(row, ONE_GPU) if SHARED else with_goal(row, part_of, goal, met)


def is_steady(values: Sequence[float]) -> bool:
    """Whether they are ten or more, and half of them lie within a fifth around their median. Others are noise."""
    if len(values) < 10:
        return False
    lower, upper = report.quartiles(values)
    return lower > 0 and upper - lower <= 0.2 * statistics.median(values)


def calls() -> Iterator[report.Row]:
    """Beside a bare call of NCCL's that averages, too, in place on the same tensor."""
    for size in [4, 64 << 10] if SHARED else SIZES:
        # One rank alone does on one GPU all that two do on theirs, but for what goes between them, which costs no host.
        times = measure("call", size, ROUNDS, world=1 if SHARED else 2)
        more_us = [(ours - bare) * 1e6 for ours, bare in zip(times["farandole"], times["bare"])]
        row = report.row(f"allreduce of {size} B, more than a bare call", "us", more_us)
        bare_us = statistics.median(times["bare"]) * 1e6
        row.peers = {name: statistics.median(seconds) * 1e6 for name, seconds in times.items()}
        if size <= 64 << 10:
            row = with_goal(row, "small calls", "at most 3 us more than a bare call", row.value <= 3)
        elif size >= 16 << 20:
            row = with_goal(row, "large calls", "at most 1 % more than a bare call", row.value <= bare_us / 100)
        yield row


def packing() -> Iterator[report.Row]:
    """161 tensors of 24 MiB together, which one call of NCCL's reduces, by the device's own clock. One rank, which has
    the GPU to itself."""
    times = measure("pack", 161, 24 << 20, SHARING_ROUNDS, world=1)
    copy = statistics.median(times["copy"])
    for what in ("packed", "unpacked"):
        if not times[what]:
            print(f"bench: packing: the timeline has no tensors that were {what}", flush=True)
            continue
        row = report.row(f"a device's copy, over 24 MiB of 161 tensors {what}", "x", [copy / s for s in times[what]])
        row.peers = {f"{what}_us": statistics.median(times[what]) * 1e6, "copy_us": copy * 1e6}
        # Nothing is moved twice as fast as a copy: then it is something else that was measured.
        if is_steady(times["copy"]) and is_steady(times[what]) and row.value < 2:
            yield with_goal(row, "kernels", "85 % of the speed of a device's copy", row.value >= 0.85)
        else:
            yield not_judged(row, "the times are no measure")


def loading() -> Iterator[report.Row]:
    """What the driver takes for our kernels once in a machine, which is part of a job's first collective there."""
    measure("first")  # leaves them in the driver's cache
    times = {}
    for name, disable in (("has our kernels", "0"), ("compiles our kernels", "1")):
        trials = [measure("first", CUDA_CACHE_DISABLE=disable)["first"][0] * 1e3 for _ in range(TRIALS)]
        times[disable] = statistics.median(trials)
        yield report.row(f"first collective of a job, where the driver {name}", "ms", trials)
    yield report.Row("compiling our kernels", times["1"] - times["0"], "ms")


def submitting() -> Iterator[report.Row]:
    """Host time."""
    times = measure("submit", 161, ROUNDS)
    yield report.row("host: allreduce_async_ of one gradient", "us", [each * 1e6 for each in times["submit"]])
    yield report.row("host: waiting for a step of 161", "us", [each * 1e6 for each in times["wait"]])
    name = "host: grouped_allreduce_async_ of 161, until enqueued"
    yield report.row(name, "us", [each * 1e6 for each in times["batch"]])
    hook = measure("hook", 161, ROUNDS)["hook"]
    one = report.row("host: the optimizer's hook, for one gradient of 161", "us", [each * 1e6 for each in hook])
    yield with_goal(one, "host", "at most 2 us for a gradient", one.value <= 2)
    # Long enough for all to be there when the batch is put together for the first time.
    last = measure("last", 161, ROUNDS, HOROVOD_CYCLE_TIME="50")
    name = "host: the last gradient of a batch of 161 under replay, from its submission until the batch is enqueued"
    row = report.row(name, "us", [each * 1e6 for each in last["last"]])
    if last["together"][0] < 0.9:
        yield not_judged(row, f"it was one batch in {last['together'][0]:.0%} of the rounds")
    else:
        yield with_goal(row, "host", "at most 10 us for a batch", row.value <= 10)


def steps(network: str) -> Iterator[report.Row]:
    """Beside DDP's, by turns."""
    found = measure("step", network, NETWORK_ROUNDS)
    ratios = [ours / ddp for ours, ddp in zip(found["farandole"], found["ddp"])]
    row = report.row(f"{network}: step, over DDP's", "x", ratios)
    row.peers = {f"{name}_ms": statistics.median(seconds) * 1e3 for name, seconds in found.items()}
    yield unless_shared(row, "training", "at most 1.0 of DDP's step", row.value <= 1)


def gradients(network: str) -> Iterator[report.Row]:
    """Bit for bit. Two ranks have one sum, in whatever order: this is about factors, packing and places."""
    found = measure("gradients", network, CUBLAS_WORKSPACE_CONFIG=":4096:8")
    peers = {"ddp_twice": found["ddp"][0], "of": found["of"][0]}
    row = report.Row(f"{network}: bytes of gradients other than DDP's", found["farandole"][0], "B", peers=peers)
    if found["ddp"][0]:
        yield not_judged(row, "DDP's own differ from one run to the next")
    else:
        yield with_goal(row, "gradients", "bitwise those of DDP", row.value == 0)


def memory(network: str) -> Iterator[report.Row]:
    """Of the device."""
    used = {trainer: measure("memory", network, trainer)["bytes"][0] / 2**20 for trainer in ("farandole", "ddp")}
    row = report.Row(f"{network}: memory of the device", used["farandole"], "MiB", peers={"ddp": used["ddp"]})
    yield with_goal(row, "memory", "none beyond DDP's", used["farandole"] <= used["ddp"])


def training() -> Iterator[report.Row]:
    """Beside DDP. What fails is told at the end, when the rest has been measured."""
    kinds: tuple[Callable[[str], Iterator[report.Row]], ...] = (steps, gradients, memory)
    failed = []
    for network in NETWORKS:
        for kind in kinds:
            try:
                yield from kind(network)
            except (SystemExit, Exception) as error:
                print(f"bench: training: {network}: {kind.__name__}: {error}", flush=True)
                failed.append(f"{kind.__name__} of {network}")
    if failed:
        raise SystemExit(f"not measured: {', '.join(failed)}")


def recovery() -> Iterator[report.Row]:
    """From kill -9 of one of three to the next step of two, beside NCCL's abort and init alone of two."""
    bare = statistics.median(measure("bare_recovery", TRIALS)["peer"])
    elastic = ("--min-np", "2", "--max-np", "3")
    found = [measure("recovery", world=3, options=elastic)["farandole"][0] for _ in range(TRIALS)]
    row = report.row("kill -9 to the next step, over a bare abort and init", "x", [each / bare for each in found])
    row.peers = {"farandole_s": statistics.median(found), "bare_s": bare}
    yield unless_shared(row, "recovery", "at most 1.2 of a bare abort and init", row.value <= 1.2)


def sharing() -> Iterator[report.Row]:
    """Two ranks of one GPU: what they do by themselves, through host memory, beside the ways that NCCL has."""
    ways = {"host": {"FARANDOLE_COMMUNICATOR": "staged"}, "sockets": {}, "nccl": {"NCCL_MULTI_RANK_GPU_ENABLE": "1"}}
    if not ON_GPU or torch.cuda.nccl.version() < (2, 30):
        print("bench: sharing: NCCL_MULTI_RANK_GPU_ENABLE is left out, which NCCL has from 2.30 on", flush=True)
        del ways["nccl"]
    one_gpu = {"CUDA_VISIBLE_DEVICES": os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]}
    for size in SIZES[::2]:
        found = {
            way: measure("shared", size, SHARING_ROUNDS, BENCH_SHARES_BY=way, **one_gpu, **variables)["seconds"]
            for way, variables in ways.items()
        }
        times_us = {way: [each * 1e6 for each in seconds] for way, seconds in found.items()}
        yield report.row(f"allreduce of {size} B by two ranks of one GPU", "us", times_us.pop("host"), **times_us)


def shrinking() -> Iterator[report.Row]:
    """Whether a communicator that NCCL makes out of another one is there sooner than a new one."""
    if not ON_GPU:
        print("bench: shrinking: there is no NCCL without a GPU", flush=True)
        return
    times = measure("shrink", TRIALS, world=3)
    row = report.row("ncclCommShrink and a call, one of three lost", "ms", [each * 1e3 for each in times["shrunk"]])
    row.peers = {"abort_and_init": statistics.median(times["anew"]) * 1e3}
    yield row


PARTS = {
    "packing": packing,
    "calls": calls,
    "submitting": submitting,
    "training": training,
    "shrinking": shrinking,
    "recovery": recovery,
    "sharing": sharing,
    "loading": loading,
}


def main(wanted: list[str]) -> int:
    """Prints each row when it is measured, and writes build/bench/gpu.json after each part, or gpu-PART-PART.json of
    some. How many parts failed."""
    unknown = [part for part in wanted if part not in PARTS]
    if unknown:
        raise SystemExit(f"bench: there is no part {', '.join(unknown)}, but {', '.join(PARTS)}")
    rows: list[report.Row] = []
    failed = []
    for part in wanted or PARTS:
        try:
            for row in PARTS[part]():
                report.print_table(part, [row])
                rows.append(row)
        except (SystemExit, Exception) as error:  # whatever it is, the other parts are worth having
            print(f"bench: {part}: {type(error).__name__}: {error}", flush=True)
            failed.append(part)
        if rows:
            report.write_file("-".join(["gpu", *wanted]), rows, "make bench-gpu", device=DEVICE)
    if rows:
        report.print_table("gpu", rows)
        report.print_goals(rows)
    if failed:
        print(f"bench: not measured, or not all of it: {', '.join(failed)}")
    return len(failed)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
