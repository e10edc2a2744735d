"""Scripts and commands of the docs' pages work: a page is a folder with its scripts, in which its commands are run.

A block "```python title=NAME" is a file of that name; in a block "```console" a line "$ COMMAND" is run, and what
stands below it has to appear, line by line and in this order, with "..." for anything.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT_S = 240


def blocks(page: Path, kind: str) -> list[tuple[str, str]]:
    """What stands after the language, and the text, of each block of a language."""
    return re.findall(rf"^```{kind}\b ?([^\n]*)\n(.*?)^```$", page.read_text(), re.M | re.S)


def commands(page: Path) -> list[tuple[str, list[str]]]:
    """Each command with the lines that it is to print."""
    found: list[tuple[str, list[str]]] = []
    for _, text in blocks(page, "console"):
        for line in text.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], []))
            else:
                found[-1][1].append(line)
    return found


PAGES = [page for page in sorted((ROOT / "docs").glob("*.md")) if commands(page)]


def environment(folder: Path) -> dict[str, str]:
    """As after an installation of both wheels: the commands are on the PATH, the packages can be imported."""
    programs = folder / "bin"
    programs.mkdir()
    for name, module in (("farandole", "farandole"), ("horovodrun", "horovod.runner.launch")):
        (programs / name).write_text(f'#!/bin/sh\nexec {sys.executable} -m {module} "$@"\n')
        (programs / name).chmod(0o755)
    path = os.pathsep.join([str(programs), str(Path(sys.executable).parent), os.environ["PATH"]])
    packages = os.pathsep.join([str(ROOT / "python"), str(ROOT / "alias")])
    return {**os.environ, "PATH": path, "PYTHONPATH": packages, "OMP_NUM_THREADS": "1"}


def assert_printed(expected: list[str], output: str, command: str) -> None:
    """Each line once, in this order."""
    lines = iter(output.splitlines())
    for wanted in expected:
        pattern = re.compile(".*".join(map(re.escape, wanted.split("..."))))
        assert any(pattern.fullmatch(line) for line in lines), f"$ {command}\nprints no line {wanted!r}:\n{output}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_page_works_as_written(page: Path, tmp_path: Path) -> None:
    for title, text in blocks(page, "python"):
        if title:
            (tmp_path / re.fullmatch(r'title="([\w.]+)"', title).group(1)).write_text(text)
    variables = environment(tmp_path)
    for command, expected in commands(page):
        done = subprocess.run(
            ["bash", "-c", command], cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=TIMEOUT_S
        )
        output = done.stdout + done.stderr
        assert done.returncode == 0, f"$ {command}\n{output}"
        assert_printed(expected, output, command)


SRUN = """\
for task in $(seq 0 $((SLURM_NTASKS - 1))); do
  SLURM_PROCID=$task SLURM_LOCALID=$task SLURM_NODEID=0 SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=$SLURM_NTASKS \\
    SLURM_STEP_TASKS_PER_NODE=$SLURM_NTASKS "${@:3}" &
done
wait
"""


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
    ((title, text),) = blocks(ROOT / "docs" / "slurm.md", "bash")
    assert title == 'title="train.sbatch"'
    (tmp_path / "train.sbatch").write_text(text)
    quickstart = dict(blocks(ROOT / "docs" / "quickstart-ddp.md", "python"))
    (tmp_path / "train.py").write_text(quickstart['title="train.py"'])
    (tmp_path / "venv" / "bin").mkdir(parents=True)
    (tmp_path / "venv" / "bin" / "activate").touch()
    port = free_port(20000 + os.getpid() % 9000)
    slurm = {"SLURM_JOB_ID": str(port - 20000), "SLURM_NTASKS": "2", "SLURM_CPUS_PER_TASK": "1", "HOME": str(tmp_path)}
    variables = {**environment(tmp_path), **slurm, "SLURM_JOB_NODELIST": "localhost"}
    for name, script in (("srun", SRUN), ("scontrol", 'echo "${@: -1}"\n')):
        (tmp_path / "bin" / name).write_text("#!/bin/bash\n" + script)
        (tmp_path / "bin" / name).chmod(0o755)
    command = ["bash", "train.sbatch"]
    done = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=TIMEOUT_S)
    assert "2 processes, weight 3.00, bias 1.00" in done.stdout, done.stdout + done.stderr
    assert done.returncode == 0, done.stdout + done.stderr
    assert list(tmp_path.glob("*.key")) == []


def test_pages_are_found() -> None:
    assert {"quickstart-ddp", "quickstart-horovod", "checkpoints", "debugging"} <= {page.stem for page in PAGES}
