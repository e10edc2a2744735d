"""The workers of tests/multiprocess with their tensors on GPUs: `make test-gpu`, which needs one.

With `make test-gpu DEVICE=cpu` the same runs on the CPU, which shows that the tests themselves are right.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import processes
import pytest
import torch

DEVICE = os.environ.get("FARANDOLE_TEST_DEVICE", "cuda")
HERE = Path(__file__).parent
WORKERS = HERE.parent / "multiprocess"

pytestmark = pytest.mark.skipif(
    DEVICE == "cuda" and not torch.cuda.is_available(), reason="this machine has no GPU that torch can use"
)


def run(
    folder: Path, ranks: int, worker: str, *arguments: str, device: str = DEVICE, **variables: str
) -> processes.Job:
    command = [sys.executable, str(HERE / "on_device.py"), device, str(WORKERS / worker), *arguments]
    with processes.running(processes.launch_command(ranks, *command), folder, variables) as job:
        assert job.wait() == 0, job.report()
    return job


CASES = ["plain", "optimizer", "gradients", "sync_batch_norm", "compiled", "adasum"]


def check_cases(folder: Path, ranks: int, name: str, **variables: str) -> None:
    """All cases of a worker pass on all ranks."""
    job = run(folder, ranks, f"{name}_worker.py", **variables)
    cases = re.findall(r"^def (case_\w+)", (WORKERS / f"{name}_worker.py").read_text(), re.MULTILINE)
    said = job.lines("passed ") + job.lines("left out ")
    assert cases and sorted(said) == sorted(ranks * cases), job.report()


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("communicator", ["auto", "staged"])
def test_every_case(tmp_path: Path, name: str, communicator: str) -> None:
    check_cases(tmp_path, 2, name, FARANDOLE_COMMUNICATOR=communicator)


@pytest.mark.parametrize("name", ["plain", "optimizer", "gradients"])
def test_every_case_of_four_ranks(tmp_path: Path, name: str) -> None:
    check_cases(tmp_path, 4, name)


def test_sets_and_joins(tmp_path: Path) -> None:
    job = run(tmp_path, 4, "sets_worker.py")
    assert sorted(job.lines("] checked 5 rank")) == [f"{rank} of 4" for rank in range(4)], job.report()


def test_losses_are_those_of_the_cpu(tmp_path: Path) -> None:
    losses = []
    for device in (DEVICE, "cpu"):
        folder = tmp_path / f"on-{device}-{len(losses)}"
        folder.mkdir()
        job = run(folder, 2, "training_worker.py", "float64", "1", device=device)
        losses.append([float(text) for text in job.lines("loss ")])
    assert len(losses[0]) == 50 and losses[0][-1] < losses[0][0]
    assert max(abs(a - b) for a, b in zip(*losses)) <= 1e-9


@pytest.mark.skipif(DEVICE != "cuda", reason="only a GPU works on while the host goes on")
def test_the_host_waits_for_nothing(tmp_path: Path) -> None:
    """A step is submitted and synchronized while the device is still at work on what came before."""
    body = """
        os.environ["NCCL_HOSTID"] = os.environ["FARANDOLE_LOCAL_RANK"]
        hvd.init()
        torch.cuda.set_device(hvd.local_rank() % torch.cuda.device_count())
        tensors = [torch.ones(1000, device="cuda") for _ in range(20)]

        def step():
            handles = [hvd.allreduce_async(each, op=hvd.Sum, name=str(i)) for i, each in enumerate(tensors)]
            return [hvd.synchronize(handle) * 2 for handle in handles]

        for _ in range(10):
            step()
        torch.cuda.synchronize()
        torch.cuda.set_sync_debug_mode("error")
        torch.cuda._sleep(2_000_000_000)  # cycles: about a second
        results = step()
        busy = not torch.cuda.current_stream().query()
        torch.cuda.set_sync_debug_mode("default")
        assert busy, "the host has waited for the device"
        assert all(torch.equal(each.cpu(), torch.full((1000,), 2.0 * hvd.size())) for each in results)
        print("did not wait", hvd.rank(), flush=True)
        """
    job = processes.launch(tmp_path, 2, body)
    assert sorted(job.lines("did not wait ")) == ["0", "1"], job.report()


def names_of_devices() -> list[str]:
    """What CUDA_VISIBLE_DEVICES may hold: the number of a GPU, each UUID and, where one is divided, each part (MIG)."""
    if DEVICE != "cuda":
        return ["", "0"]
    listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=60, check=True).stdout
    return ["0", *re.findall(r"UUID: ((?:GPU|MIG)-[^)]+)", listed)]


def test_devices_named_in_every_way(tmp_path: Path) -> None:
    """The driver counts the visible ones from 0, as torch does."""
    for index, visible in enumerate(names_of_devices()):
        folder = tmp_path / str(index)
        folder.mkdir()
        job = run(folder, 2, "plain_worker.py", CUDA_VISIBLE_DEVICES=visible)
        assert job.lines("passed "), job.report()


@pytest.mark.skipif(shutil.which("compute-sanitizer") is None, reason="CUDA's compute-sanitizer is not here")
def test_our_kernels_stay_within_their_memory(tmp_path: Path) -> None:
    """NCCL's kernels, which wait for those of other ranks, are left out."""
    worker = [sys.executable, str(HERE / "on_device.py"), DEVICE, str(WORKERS / "gradients_worker.py")]
    sanitizer = ["compute-sanitizer", "--kernel-name-exclude", "kernel_substring=nccl", "--error-exitcode", "9"]
    with processes.running(processes.launch_command(2, *sanitizer, *worker), tmp_path, {}) as job:
        assert job.wait(600) == 0, job.report()


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_collectives_against_numpy(tmp_path: Path, ranks: int) -> None:
    job = run(tmp_path, ranks, "collectives_worker.py")
    assert sorted(job.lines("] checked 13 rank")) == [f"{rank} of {ranks}" for rank in range(ranks)], job.report()


def test_a_killed_rank_is_named_and_the_others_go_on(tmp_path: Path) -> None:
    """The next membership has a communicator of its own."""
    body = f"""
        if {DEVICE!r} == "cuda":
            os.environ["NCCL_HOSTID"] = os.environ["FARANDOLE_LOCAL_RANK"]
        hvd.init()
        device = torch.device({DEVICE!r})
        state = hvd.elastic.TorchState(step=0)

        @hvd.elastic.run
        def train(state):
            while state.step < 40:
                if state.step == 10 and hvd.size() == 3 and hvd.rank() == 2:
                    os.kill(os.getpid(), signal.SIGKILL)
                total = hvd.allreduce(torch.ones(1000, device=device), op=hvd.Sum, name="x")
                assert torch.equal(total.cpu(), torch.full((1000,), float(hvd.size())))
                state.step += 1
                state.commit()

        train(state)
        print("ended with", hvd.size(), flush=True)
        """
    job = processes.launch(tmp_path, 3, body, "--min-np", "2", "--max-np", "3")
    # The launcher starts the killed one again, which may come before the end.
    assert job.lines("ended with ") in (["2"] * 2, ["3"] * 3), job.report()
