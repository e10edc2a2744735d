"""The wheels, installed with what they declare and nothing else: torch is lent, and brings no numpy."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from environments import DOWNLOADED, Environment
from installed import ROOT, Installed

# The launcher's own process; each rank checks what it has got.
SCRIPT = """
import importlib.util, sys
import horovod.torch as hvd
import torch

def train():
    assert importlib.util.find_spec("numpy") is None
    hvd.init()
    model = torch.nn.Linear(3, 1)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    for step in range(3):
        optimizer.zero_grad()
        model(torch.full((2, 3), float(hvd.rank() + step))).sum().backward()
        optimizer.step()
    assert hvd.allgather_object({"rank": hvd.rank()}) == [{"rank": r} for r in range(hvd.size())]
    return hvd.broadcast_object([p.sum().item() for p in model.parameters()], root_rank=0), hvd.size()
"""


@pytest.fixture(scope="module")
def environment(installed: Installed, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    made = Environment(tmp_path_factory.mktemp("wheels") / "environment")
    done = made.pip("install", f"--find-links={DOWNLOADED}", installed.wheel, installed.alias_wheel)
    assert done.returncode == 0, done.stdout
    made.link_torch()
    return made


def test_what_is_declared_fits_together(environment: Environment) -> None:
    done = environment.pip("check")
    assert done.returncode == 0, done.stdout


def test_a_command_runs(environment: Environment, tmp_path: Path) -> None:
    script, settings = tmp_path / "train.py", tmp_path / "settings.yaml"
    script.write_text(f"{SCRIPT}\nprint('result', train())\n")
    settings.write_text("params:\n  fusion_threshold_mb: 32\n")
    done = environment.run("horovodrun", "-np", "2", "--config-file", settings, "python", script)
    assert done.returncode == 0, done.stdout
    results = {line.partition("result ")[2] for line in done.stdout.splitlines() if "result " in line}
    assert len(results) == 1 and results.pop().endswith(", 2)"), done.stdout


def test_a_function_runs(environment: Environment, tmp_path: Path) -> None:
    script = tmp_path / "launch.py"
    run = "if __name__ == '__main__':\n    first, second = farandole.run(train, np=2)\n    assert first == second\n"
    script.write_text(f"import farandole\n{SCRIPT}\n{run}    print('the same')\n")
    done = environment.run("python", script)
    assert done.returncode == 0 and "the same" in done.stdout, done.stdout


def test_a_type_checker_knows_the_names(environment: Environment, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    shutil.copy(ROOT / "tests" / "types" / "script.py", script)
    options = [
        "--strict",
        "--config-file=",
        "--python-executable",
        environment.python,
        "--cache-dir",
        tmp_path / "cache",
    ]
    command = [sys.executable, "-m", "mypy", *map(str, options), str(script)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
