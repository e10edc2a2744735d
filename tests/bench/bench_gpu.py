"""Collectives and training on a GPU, beside NCCL's own calls and DDP over the same NCCL: `make bench-gpu`, on a machine
with a GPU. Two ranks; they share it if there is one. Some parts only: `make bench-gpu PARTS="calls packing"`.

With DEVICE=cpu the same runs with small networks and gloo, which shows that the benchmark itself works, and no more.
"""

from __future__ import annotations

import os
import statistics
import sys
from collections.abc import Iterator

import ranks
import report
import torch

DEVICE = os.environ.get("FARANDOLE_TEST_DEVICE", "cuda")
ON_GPU = DEVICE == "cuda"
ROUNDS = 100 if ON_GPU else 5
SIZES = [4, 1 << 10, 64 << 10, 1 << 20, 16 << 20, 256 << 20] if ON_GPU else [4, 1 << 20]
NETWORKS = ["resnet50", "gpt124m"] if ON_GPU else ["resnet18", "gpt"]
TRIALS = 5 if ON_GPU else 1
# Sockets are slow.
SHARING_ROUNDS = 20 if ON_GPU else 2
# Of one start of some ranks. A GPU may be there for minutes only.
TIMEOUT_S = 180


def measure(part: str, *arguments: object, world: int = 2, options: tuple[str, ...] = (), **variables: str) -> dict:
    """What rank 0 of gpu_ranks.py has reported."""
    words = [DEVICE, part, *map(str, arguments)]
    return ranks.start(world, "gpu_ranks.py", *words, options=options, variables=variables, timeout_s=TIMEOUT_S)


def with_goal(row: report.Row, part_of: str, goal: str, met: bool) -> report.Row:
    """The row, with what is wanted of it."""
    row.part_of, row.goal, row.met = part_of, goal, met
    return row


def calls() -> Iterator[report.Row]:
    """Beside a bare call of NCCL's that averages, too, in place on the same tensor."""
    for size in SIZES:
        times = measure("call", size, ROUNDS)
        more_us = [(ours - bare) * 1e6 for ours, bare in zip(times["farandole"], times["bare"])]
        row = report.row(f"allreduce of {size} B, more than a bare call", "us", more_us)
        bare_us = statistics.median(times["bare"]) * 1e6
        row.peers = {"bare": bare_us, "farandole": statistics.median(times["farandole"]) * 1e6}
        if size <= 64 << 10:
            row = with_goal(row, "small calls", "at most 3 us more than a bare call", row.value <= 3)
        elif size >= 16 << 20:
            row = with_goal(row, "large calls", "at most 1 % more than a bare call", row.value <= bare_us / 100)
        yield row


def packing() -> Iterator[report.Row]:
    """161 tensors of 64 MiB together."""
    times = measure("pack", 161, 64 << 20, ROUNDS)
    moved = [apart - whole for apart, whole in zip(times["apart"], times["whole"])]
    copied = statistics.median(times["two_copies"])
    row = report.row("two copies, over packing and unpacking", "x", [copied / max(each, 1e-9) for each in moved])
    yield with_goal(row, "kernels", "85 % of the speed of a device's copy", row.value >= 0.85)


def loading() -> Iterator[report.Row]:
    """What the driver takes for our kernels once in a process: compiled, and from its cache."""
    for name, disable in (("compiled from PTX", "1"), ("from the driver's cache", "0")):
        trials = [measure("first", CUDA_CACHE_DISABLE=disable) for _ in range(TRIALS)]
        more = [(each["first"][0] - each["second"][0]) * 1e3 for each in trials]
        yield report.row(f"loading our kernels, {name}", "ms", more)


def submitting() -> Iterator[report.Row]:
    """Host time."""
    times = measure("submit", 161, ROUNDS)
    one = report.row("host: submitting one gradient", "us", [each * 1e6 for each in times["submit"]])
    yield with_goal(one, "host", "at most 2 us", one.value <= 2)
    yield report.row("host: waiting for a step of 161", "us", [each * 1e6 for each in times["wait"]])
    batch = report.row(
        "host: a batch of 161, submitted in one call and waited for", "us", [t * 1e6 for t in times["batch"]]
    )
    yield with_goal(batch, "host", "at most 10 us", batch.value <= 10)


def training() -> Iterator[report.Row]:
    """Step times beside DDP, gradients, and memory."""
    for network in NETWORKS:
        found = measure("step", network, ROUNDS)
        ratios = [ours / ddp for ours, ddp in zip(found["farandole"], found["ddp"])]
        row = report.row(f"{network}: step, over DDP's", "x", ratios)
        yield with_goal(row, "training", "at most 1.0 of DDP's step", row.value <= 1)
        differing = report.Row(f"{network}: bytes of gradients other than DDP's", found["differing"][0], "B")
        yield with_goal(differing, "gradients", "bitwise those of DDP", differing.value == 0)
        used = {trainer: measure("memory", network, trainer)["bytes"][0] / 2**20 for trainer in ("farandole", "ddp")}
        memory = report.Row(f"{network}: memory of the device", used["farandole"], "MiB", peers={"ddp": used["ddp"]})
        yield with_goal(memory, "memory", "none beyond DDP's", used["farandole"] <= used["ddp"])


def recovery() -> Iterator[report.Row]:
    """From kill -9 of one of three to the next step of two, beside an abort and an init of torch's."""
    bare = statistics.median(measure("bare_recovery", TRIALS)["peer"])
    elastic = ("--min-np", "2", "--max-np", "3")
    found = [measure("recovery", world=3, options=elastic)["farandole"][0] for _ in range(TRIALS)]
    row = report.row("kill -9 to the next step, over a bare abort and init", "x", [each / bare for each in found])
    row.peers = {"farandole_s": statistics.median(found), "bare_s": bare}
    yield with_goal(row, "recovery", "at most 1.2 of a bare abort and init", row.value <= 1.2)


def sharing() -> Iterator[report.Row]:
    """Two ranks of one GPU: what they do by themselves, through host memory, beside the ways that NCCL has."""
    ways = {"host": {"FARANDOLE_COMMUNICATOR": "staged"}, "sockets": {}, "nccl": {"NCCL_MULTI_RANK_GPU_ENABLE": "1"}}
    if not ON_GPU or torch.cuda.nccl.version() < (2, 30):
        print("bench: sharing: NCCL_MULTI_RANK_GPU_ENABLE is left out, which NCCL has from 2.30 on", flush=True)
        del ways["nccl"]
    one_gpu = {"CUDA_VISIBLE_DEVICES": os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]}
    for size in SIZES:
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
    "calls": calls,
    "packing": packing,
    "loading": loading,
    "submitting": submitting,
    "training": training,
    "recovery": recovery,
    "sharing": sharing,
    "shrinking": shrinking,
}


def main(wanted: list[str]) -> int:
    """Prints each row when it is measured, and writes build/bench/gpu.json after each part. How many parts failed."""
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
            report.write_file("gpu", rows, "make bench-gpu", device=DEVICE)
    if rows:
        report.print_table("gpu", rows)
        report.print_goals(rows)
    if failed:
        print(f"bench: not measured, or not all of it: {', '.join(failed)}")
    return len(failed)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
