"""What the tests of GPUs share: the device, and jobs whose ranks find theirs."""

from __future__ import annotations

import os
import re
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import processes
import pytest
import torch

DEVICE = os.environ.get("FARANDOLE_TEST_DEVICE", "cuda")
ON_GPU = DEVICE == "cuda"
HERE = Path(__file__).parent
WORKERS = HERE.parent / "multiprocess"
# Ranks that share a GPU take turns there, by sockets.
TIMEOUT_S = 240.0 if ON_GPU else processes.TIMEOUT_S

if ON_GPU and not torch.cuda.is_available():
    raise pytest.UsageError("this machine has no GPU that torch can use; make test-gpu DEVICE=cpu needs none")

# What tensors on GPUs are to go by: otherwise a failure of NCCL's would be a warning, and all be reduced on the host.
NCCL = {"FARANDOLE_COMMUNICATOR": "nccl"}
WAYS = [*NCCL.values(), "staged"]


def run(
    folder: Path, ranks: int, worker: str, *arguments: str, device: str = DEVICE, **variables: str
) -> processes.Job:
    """Runs a worker of tests/multiprocess on a device, by NCCL if nothing else is said; all ranks end well."""
    command = [sys.executable, str(HERE / "on_device.py"), device, str(WORKERS / worker), *arguments]
    with processes.running(processes.launch_command(ranks, *command), folder, {**NCCL, **variables}) as job:
        assert job.wait(TIMEOUT_S) == 0, job.report()
    return job


def check_cases(folder: Path, ranks: int, name: str, **variables: str) -> None:
    """All cases of a worker pass on all ranks."""
    job = run(folder, ranks, f"{name}_worker.py", **variables)
    cases = re.findall(r"^def (case_\w+)", (WORKERS / f"{name}_worker.py").read_text(), re.MULTILINE)
    said = job.lines("passed ") + job.lines("left out ")
    assert cases and sorted(said) == sorted(ranks * cases), job.report()


def with_device(body: str) -> str:
    """A script that has called init(), and knows its `device`."""
    return f"from gpu import on_device\ndevice = on_device.init({DEVICE!r})\n{textwrap.dedent(body)}"


@contextmanager
def launching(folder: Path, ranks: int, body: str, *options: str, **variables: str) -> Iterator[processes.Job]:
    """A script `with_device`, by NCCL if nothing else is said."""
    with processes.launching(folder, ranks, with_device(body), *options, **{**NCCL, **variables}) as job:
        yield job


def launch(folder: Path, ranks: int, body: str, *options: str, **variables: str) -> processes.Job:
    """Runs it until its end; what has become of it the caller looks at."""
    with launching(folder, ranks, body, *options, **variables) as job:
        job.wait(TIMEOUT_S)
    return job


def last_line(text: str) -> str:
    """Of what a tool has said; empty if it has said nothing."""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")
