"""The workers of tests/multiprocess with their tensors on GPUs: `make test-gpu`, which needs one.

With `make test-gpu DEVICE=cpu` the same runs on the CPU, which shows that the tests themselves are right.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from gpu import parts
from gpu.parts import DEVICE, check_cases, run

NAMES = "plain optimizer gradients steps repetition sync_batch_norm compiled adasum odd_scripts"


@pytest.mark.parametrize("name", NAMES.split())
@pytest.mark.parametrize("communicator", parts.WAYS)
def test_every_case(tmp_path: Path, name: str, communicator: str) -> None:
    check_cases(tmp_path, 2, name, FARANDOLE_COMMUNICATOR=communicator)


@pytest.mark.parametrize("name", ["plain", "optimizer", "gradients"])
def test_every_case_of_four_ranks(tmp_path: Path, name: str) -> None:
    check_cases(tmp_path, 4, name)


def test_sets_and_joins(tmp_path: Path) -> None:
    # A rank that has joined before its first tensor on a GPU has none to add zeros on: all go through the host then.
    job = run(tmp_path, 4, "sets_worker.py", FARANDOLE_COMMUNICATOR="auto")
    assert sorted(job.lines("] checked 7 rank")) == [f"{rank} of 4" for rank in range(4)], job.report()


def test_losses_are_those_of_the_cpu(tmp_path: Path) -> None:
    losses = []
    for device in (DEVICE, "cpu"):
        folder = tmp_path / f"on-{device}-{len(losses)}"
        folder.mkdir()
        job = run(folder, 2, "training_worker.py", "float64", "1", device=device)
        losses.append([float(text) for text in job.lines("loss ")])
    assert len(losses[0]) == 50 and losses[0][-1] < losses[0][0]
    assert max(abs(a - b) for a, b in zip(*losses)) <= 1e-9


@pytest.mark.parametrize("communicator", parts.WAYS)
@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_collectives_against_numpy(tmp_path: Path, ranks: int, communicator: str) -> None:
    job = run(tmp_path, ranks, "collectives_worker.py", FARANDOLE_COMMUNICATOR=communicator)
    assert sorted(job.lines("] checked 14 rank")) == [f"{rank} of {ranks}" for rank in range(ranks)], job.report()
