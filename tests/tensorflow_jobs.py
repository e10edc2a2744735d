"""Jobs with TensorFlow that tests run, with the python3 and the TensorFlow that are on the PATH."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import processes

HERE = processes.ROOT / "tests" / "with_tensorflow"
HEAD = """
import os, signal, sys, threading, time
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
import tensorflow as tf
import farandole.tensorflow as hvd

hvd.init()
"""


def run(folder: Path, ranks: int, worker: str, *arguments: str) -> processes.Job:
    """A script of tests/with_tensorflow, which has to end well."""
    command = processes.launch_command(ranks, sys.executable, str(HERE / worker), *arguments)
    with processes.running(command, folder, {"TF_CPP_MIN_LOG_LEVEL": "2"}) as job:
        assert job.wait(300) == 0, job.report()
    return job


def cases_pass(folder: Path, ranks: int, worker: str) -> None:
    """All functions case_* of a worker have run on every rank."""
    job = run(folder, ranks, worker)
    cases = re.findall(r"^def (case_\w+)", (HERE / worker).read_text(), re.MULTILINE)
    assert cases and sorted(job.lines("passed ")) == sorted(ranks * cases), job.report()


def launch(folder: Path, ranks: int, script: str, *options: str) -> processes.Job:
    """A script after HEAD; it may fail."""
    path = folder / "script.py"
    path.write_text(HEAD + script)
    command = processes.launch_command(ranks, sys.executable, str(path), options=options)
    with processes.running(command, folder) as job:
        job.wait(150)
    return job
