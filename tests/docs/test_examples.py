"""Scripts and commands of the docs' pages work, with the packages of the tree (make wheel-test: with the wheels)."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import in_root
import pages
import pytest
import stand_ins

TIMEOUT_S = 240
PAGES = pages.with_commands()


def environment(folder: Path) -> dict[str, str]:
    """As after an installation of both wheels: the commands are on the PATH, the packages can be imported."""
    programs = folder / "bin"
    programs.mkdir()
    for name, module in (("farandole", "farandole"), ("horovodrun", "horovod.runner.launch")):
        (programs / name).write_text(f'#!/bin/sh\nexec {sys.executable} -m {module} "$@"\n')
        (programs / name).chmod(0o755)
    path = os.pathsep.join([str(programs), str(Path(sys.executable).parent), os.environ["PATH"]])
    packages = os.pathsep.join([str(pages.ROOT / "python"), str(pages.ROOT / "alias")])
    return {**os.environ, "PATH": path, "PYTHONPATH": packages, "OMP_NUM_THREADS": "1"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_page_works_as_written(page: Path, tmp_path: Path) -> None:
    pages.write_scripts(page, tmp_path)
    variables = environment(tmp_path)
    for command, expected in pages.commands(page):
        done = subprocess.run(
            ["bash", "-c", command], cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=TIMEOUT_S
        )
        output = done.stdout + done.stderr
        assert done.returncode == 0, f"$ {command}\n{output}"
        missing = pages.not_printed(expected, output)
        assert missing is None, f"$ {command}\nprints no line {missing!r}:\n{output}"


def free_port(first: int) -> int:
    """One that nobody listens on, from `first` on."""
    for port in range(first, first + 1000):
        with socket.socket() as listener:
            try:
                listener.bind(("", port))
                return port
            except OSError:
                continue
    raise AssertionError(f"no port is free from {first} on")


def test_batch_file_of_slurm(tmp_path: Path) -> None:
    """As it stands, with a stand-in for srun that starts its tasks on this host, with Slurm's variables."""
    ((title, text),) = pages.blocks(pages.DOCS / "slurm.md", "bash")
    assert title == 'title="train.sbatch"'
    (tmp_path / "train.sbatch").write_text(text)
    quickstart = dict(pages.blocks(pages.DOCS / "quickstart-ddp.md", "python"))
    (tmp_path / "train.py").write_text(quickstart['title="train.py"'])
    (tmp_path / "venv" / "bin").mkdir(parents=True)
    (tmp_path / "venv" / "bin" / "activate").touch()
    port = free_port(20000 + os.getpid() % 9000)
    slurm = {"SLURM_JOB_ID": str(port - 20000), "SLURM_NTASKS": "2", "SLURM_CPUS_PER_TASK": "1", "HOME": str(tmp_path)}
    variables = {**environment(tmp_path), **slurm, "SLURM_JOB_NODELIST": "localhost"}
    for name, script in (("srun", stand_ins.SRUN), ("scontrol", 'echo "${@: -1}"\n')):
        (tmp_path / "bin" / name).write_text("#!/bin/bash\n" + script)
        (tmp_path / "bin" / name).chmod(0o755)
    command = ["bash", "train.sbatch"]
    done = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=TIMEOUT_S)
    assert "2 processes, weight 3.00, bias 1.00" in done.stdout, done.stdout + done.stderr
    assert done.returncode == 0, done.stdout + done.stderr
    assert list(tmp_path.glob("*.key")) == []


def test_pages_are_found() -> None:
    assert {"quickstart-ddp", "quickstart-horovod", "checkpoints", "debugging"} <= {page.stem for page in PAGES}


def test_what_is_not_run_from_the_wheels_has_its_reason() -> None:
    kinds = ("sh", "bash", "dockerfile")
    found = {page.stem for page in pages.DOCS.glob("*.md") if any(pages.blocks(page, kind) for kind in kinds)}
    assert found == set(in_root.LEFT_OUT)
