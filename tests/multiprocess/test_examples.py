"""Each example with two processes and few steps. That of the digits is in test_launch.py."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import processes
import pytest

# File without "torch_", arguments, and what rank 0 says at the end.
EXAMPLES = [
    ("gpt", "--steps 40 --width 32 --layers 2 --batch-size 8 --sample 5", r"test loss (\S+), processes 2, seconds"),
    (
        "synthetic_benchmark",
        "--model resnet --batch-size 2 --num-warmup-batches 2 --num-batches-per-iter 2 --num-iters 2 --fp16-allreduce",
        r"Total img/sec on 2 process\(es\): (\S+) \+-",
    ),
    (
        "synthetic_benchmark",
        "--model mlp --batch-size 2 --num-warmup-batches 1 --num-batches-per-iter 2 --num-iters 1 --use-adasum",
        r"Total img/sec on 2 process\(es\): (\S+) \+-",
    ),
    ("process_sets", "--steps 100", r"test accuracy (\S+) \(team 0 \S+, team 1 \S+\), processes 2"),
    ("mixed_precision", "--steps 60", r"test accuracy (\S+), bfloat16, processes 2"),
    ("gradient_accumulation", "--steps 40 --passes 3", r"test accuracy (\S+), images in a step 96, processes 2"),
]


@pytest.mark.parametrize(("name", "arguments", "result"), EXAMPLES)
def test_example(tmp_path: Path, name: str, arguments: str, result: str) -> None:
    example = str(processes.ROOT / "examples" / f"torch_{name}.py")
    command = processes.launch_command(2, sys.executable, example, *arguments.split())
    with processes.running(command, tmp_path) as job:
        assert job.wait() == 0, job.report()
    (value,) = re.findall(result, job.stdout)
    if "accuracy" in result:
        assert 0.8 < float(value) <= 1, job.report()
    elif "loss" in result:
        # That of guessing among all characters is above 4.5.
        assert float(value) < 3.5, job.report()
    else:
        assert float(value) > 0


def test_every_example_is_run() -> None:
    files = {path.stem for path in (processes.ROOT / "examples").glob("torch_*.py")}
    tests = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    assert not [file for file in files if f'"{file[len("torch_") :]}"' not in tests and f"{file}.py" not in tests]
