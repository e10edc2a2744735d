"""Tensors on devices through the package, on a fake of the CUDA driver."""

from __future__ import annotations

from pathlib import Path

import processes
import pytest


@pytest.mark.parametrize("ranks", [1, 2])
def test_every_rank_gets_its_results(tmp_path: Path, ranks: int) -> None:
    processes.run_cases(tmp_path, ranks, "devices_worker.py")
