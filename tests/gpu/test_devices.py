"""Devices by every name, and what NVIDIA's own tool says of our kernels."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import processes
import pytest
import torch
from gpu import parts

BODY = """
        for step in range(3):
            result = hvd.allreduce(torch.full((1001,), 1.0 + hvd.rank(), device=device), op=hvd.Sum, name="x")
            assert result.device == device and result.tolist() == [hvd.size() * (hvd.size() + 1) / 2] * 1001
        print("summed", hvd.rank(), flush=True)
        """


def check(folder: Path, ranks: int, visible: str) -> None:
    """Collectives with these devices, which the driver counts from 0, as torch does."""
    folder.mkdir()
    job = parts.launch(folder, ranks, BODY, CUDA_VISIBLE_DEVICES=visible)
    assert job.wait() == 0 and sorted(job.lines("summed ")) == [str(rank) for rank in range(ranks)], job.report()


def names_of_devices() -> list[str]:
    """What CUDA_VISIBLE_DEVICES may hold: the number of a GPU, each UUID and, where one is divided, each part (MIG)."""
    if not parts.ON_GPU:
        return ["", "0"]
    if shutil.which("nvidia-smi") is None:
        pytest.skip("nvidia-smi, which names the devices, is not here")
    listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=60, check=True).stdout
    return ["0", *re.findall(r"UUID: ((?:GPU|MIG)-[^)]+)", listed)]


def test_devices_named_in_every_way(tmp_path: Path) -> None:
    for index, visible in enumerate(names_of_devices()):
        check(tmp_path / str(index), 2, visible)


@pytest.mark.skipif(not parts.ON_GPU or torch.cuda.device_count() < 2, reason="an order needs two GPUs or more")
def test_devices_in_reverse(tmp_path: Path) -> None:
    """What is a rank's first GPU is not the machine's."""
    gpus = torch.cuda.device_count()
    check(tmp_path / "reverse", min(gpus, 4), ",".join(str(number) for number in reversed(range(gpus))))


# Memory of the device from the driver itself: the least that the tool can look at.
TRIVIAL = """
import ctypes
cuda = ctypes.CDLL("libcuda.so.1")
context, address = ctypes.c_void_p(), ctypes.c_uint64()
assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert cuda.cuCtxSetCurrent(context) == 0
assert cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(64)) == 0
assert cuda.cuMemsetD8_v2(address, ctypes.c_ubyte(1), ctypes.c_size_t(64)) == 0 and cuda.cuCtxSynchronize() == 0
"""
# NCCL's kernels, which wait for those of other ranks, are left out, and so are calls of the driver that torch and NCCL
# make to see whether they fail. For the host's part of a backtrace the tool asks Python at each launch, and waits for
# its lock with the driver's held, while a thread that has Python's may wait for the driver's.
SANITIZER = ["compute-sanitizer", "--error-exitcode", "9", "--report-api-errors", "no", "--show-backtrace", "device"]
SANITIZER += ["--kernel-name-exclude", "kernel_substring=nccl"]
# Each tensor lies in memory of its own, beyond which the tool sees; and NCCL's initialisation takes its time under it.
BESIDE_SANITIZER = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1", "FARANDOLE_START_TIMEOUT": "120"}
# All that our kernels do: packing and unpacking at odd addresses, factors, integers in wider ones, means of integers,
# Adasum; and gradients to their places.
OUR_KERNELS = """
        size = hvd.size()
        narrow = (torch.int16, torch.uint8)
        for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int32, *narrow):
            if dtype in narrow:
                tensors = [torch.ones(n + 1, dtype=dtype, device=device)[1:] for n in (1, 7, 4001)]
                results = hvd.grouped_allreduce(tensors, op=hvd.Sum, name=f"sum {dtype}")
            else:
                tensors = [torch.full((n + 1,), 3, dtype=dtype, device=device)[1:] for n in (1, 7, 4001, 70001)]
                results = hvd.grouped_allreduce(tensors, name=f"mean {dtype}")
                hvd.grouped_allreduce(tensors, op=hvd.Sum, prescale_factor=1 / 3, name=f"scaled {dtype}")
                hvd.reducescatter(tensors[2], name=f"share {dtype}")
            wanted = size if dtype in narrow else 3
            assert all((result == wanted).all() for result in results), (dtype, results)
            if dtype.is_floating_point:
                hvd.grouped_allreduce(tensors, op=hvd.Adasum, name=f"adasum {dtype}")
        model = torch.nn.Sequential(*(torch.nn.Linear(33, 33) for _ in range(3))).to(device)
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
        for step in range(3):
            optimizer.zero_grad()
            model(torch.ones(2, 33, device=device)).square().mean().backward()
            optimizer.step()
        assert all(p.isfinite().all() for p in model.parameters())
        print("looked at", hvd.rank(), flush=True)
        """


@pytest.mark.skipif(shutil.which("compute-sanitizer") is None, reason="CUDA's compute-sanitizer is not here")
@pytest.mark.skipif(not parts.ON_GPU, reason="there are no kernels on a CPU")
def test_our_kernels_stay_within_their_memory(tmp_path: Path) -> None:
    try:
        tried = subprocess.run([*SANITIZER, sys.executable, "-c", TRIVIAL], capture_output=True, text=True, timeout=60)
    except subprocess.TimeoutExpired:
        pytest.skip("compute-sanitizer does not end with a trivial program within 60 s")
    said = tried.stdout + tried.stderr
    if tried.returncode or "ERROR SUMMARY: 0 errors" not in said:
        pytest.skip(f"compute-sanitizer cannot look at a trivial program here: {parts.last_line(said)}")
    script = processes.script_file(tmp_path, parts.with_device(OUR_KERNELS))
    command = processes.launch_command(2, *SANITIZER, sys.executable, str(script))
    with processes.running(command, tmp_path, {**parts.NCCL, **BESIDE_SANITIZER}) as job:
        assert job.wait(parts.TIMEOUT_S) == 0, job.report()
    assert sorted(job.lines("looked at ")) == ["0", "1"], job.report()
