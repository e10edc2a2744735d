"""Scripts that were written for Horovod, in tests/horovod_scripts: nothing in them knows of Farandole."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import processes

FOLDER = processes.ROOT / "tests" / "horovod_scripts"
PATH = os.pathsep.join(str(each) for each in (processes.ROOT / "python", processes.ROOT / "alias", FOLDER))


def learns(folder: Path, name: str, *arguments: str) -> processes.Job:
    """Runs one with two ranks under horovodrun's module; both find the classes of nearly all images."""
    checkpoints = folder / "checkpoints"
    checkpoints.mkdir()
    launcher = [sys.executable, "-m", "horovod.runner.launch", "-np", "2", "-H", "localhost:2"]
    command = [*launcher, sys.executable, str(FOLDER / f"{name}.py"), *arguments]
    variables = {"PYTHONPATH": PATH, "CHECKPOINTS": str(checkpoints), "TF_CPP_MIN_LOG_LEVEL": "3"}
    with processes.running(command, folder, variables) as job:
        assert job.wait(200) == 0, job.report()
    found = [float(text.split()[0]) for text in job.lines("accuracy ")]
    assert len(found) == 2 and min(found) > 0.9, job.report()
    return job
