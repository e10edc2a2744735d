"""The workers of tests/multiprocess with their tensors on GPUs: `make test-gpu`, which needs one.

With `make test-gpu DEVICE=cpu` the same runs on the CPU, which shows that the tests themselves are right.
"""

from __future__ import annotations

import os
import re
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


def run(folder: Path, ranks: int, worker: str, **variables: str) -> processes.Job:
    command = [sys.executable, str(HERE / "on_device.py"), DEVICE, str(WORKERS / worker)]
    with processes.running(processes.launch_command(ranks, *command), folder, variables) as job:
        assert job.wait() == 0, job.report()
    return job


@pytest.mark.parametrize(
    "worker", ["plain_worker.py", "optimizer_worker.py", "gradients_worker.py", "sync_batch_norm_worker.py"]
)
@pytest.mark.parametrize("communicator", ["auto", "staged"])
def test_every_case(tmp_path: Path, worker: str, communicator: str) -> None:
    job = run(tmp_path, 2, worker, FARANDOLE_COMMUNICATOR=communicator)
    cases = re.findall(r"^def (case_\w+)", (WORKERS / worker).read_text(), re.MULTILINE)
    said = job.lines("passed ") + job.lines("left out ")
    assert cases and sorted(said) == sorted(2 * cases), job.report()


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
