"""`make wheel-test`: does in a bare Debian root what the docs' pages say, then trains twice for longer.

The wheels are installed as docs/install.md has it; the scripts and commands of every page run as they stand there. What
a page has beyond that, and why it is not run here, stands in LEFT_OUT.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import time
from pathlib import Path

from bare_root import BASE, PACKAGES, PATH, ROOT, check_bare, inside, make_root

sys.path.insert(0, str(ROOT / "tests"))
import pages

# Where the wheels are "built", and the pages' folders.
SOURCE, FOLDERS = "/farandole", "/pages"
VENV = "/root/venv"
INSTALL = pages.DOCS / "install.md"
# Blocks of a shell that are no `console` blocks, by page.
LEFT_OUT = {
    "containers": "needs Docker",
    "dashboard": "looks at a job that is under way; tests/multiprocess/test_dashboard.py does so",
    "debugging": "looks at a job that stands still or crashes; py-spy",
    "elastic": "a script for a cluster's own list of hosts",
    "install": "make wheel needs the source tree and compilers; the wheels are given here",
    "jax": "needs JAX; tests/with_jax runs the script and the examples",
    "kubernetes": "needs a cluster; make test-kubernetes runs jobs on one",
    "mxnet": "needs MXNet; tests/with_mxnet trains in the same way",
    "keras": "needs Keras; tests/with_keras runs the scripts and the examples",
    "monitoring": "looks at a job that is under way; curl, jq, a cluster",
    "tensorflow": "needs TensorFlow; tests/with_tensorflow trains in the same way",
    "security": "needs a key file; tests/manifests and controller/token make tokens",
    "several-hosts": "needs several hosts with ssh, torchrun or mpirun",
    "slurm": "needs Slurm; tests/docs runs the file with a stand-in for srun",
    "status": "looks at a job that is under way; tests/wheel/test_protos.py does so",
}


def in_venv(command: str, folder: str = "/") -> str:
    """Output of a command of bash after `source ~/venv/bin/activate`."""
    variables = {"PATH": f"{VENV}/bin:{PATH}", "VIRTUAL_ENV": VENV}
    return inside("bash", "-c", command, folder=folder, timeout_s=240, **variables)


def install() -> None:
    """As docs/install.md says, with /wheels as the only index."""
    for folder in (SOURCE, FOLDERS, VENV):
        shutil.rmtree(BASE / folder[1:], ignore_errors=True)
    dist = BASE / SOURCE[1:] / "build" / "wheel" / "dist"
    shutil.copytree(ROOT / "build" / "wheel" / "dist", dist)
    (commands,) = [text for _, text in pages.blocks(INSTALL, "sh") if "pip install" in text]
    inside("bash", "-ec", commands, folder=SOURCE, PIP_NO_INDEX="1", PIP_FIND_LINKS="/wheels")


def try_page(page: Path) -> int:
    """Writes a page's scripts and runs its commands; the number of these."""
    folder = f"{FOLDERS}/{page.stem}"
    (BASE / folder[1:]).mkdir(parents=True)
    pages.write_scripts(page, BASE / folder[1:])
    commands = pages.commands(page)
    for command, expected in commands:
        output = in_venv(command, folder)
        missing = pages.not_printed(expected, output)
        if missing is not None:
            raise SystemExit(f"wheel-test: {page.name}: $ {command}\nprints no line {missing!r}:\n{output}")
    return len(commands)


def try_pages() -> None:
    """Says of each page what was run, or why it was not."""
    for page in pages.with_commands():
        started = time.monotonic()
        count = try_page(page)
        print(f"wheel-test: docs/{page.name}: {count} commands, {time.monotonic() - started:.0f} s", flush=True)
    for name, reason in LEFT_OUT.items():
        print(f"wheel-test: skipped the other commands of docs/{name}.md: {reason}")


def train(script: Path, command: str, pattern: str) -> None:
    """Runs a script with two processes, which has to print an accuracy above 0.9."""
    shutil.copy(script, BASE / script.name)
    output = in_venv(f"{command} -np 2 python /{script.name}")
    print(output.replace("\r", "\n").splitlines()[-1])
    result = re.search(pattern, output)
    if not result or float(result.group(1)) <= 0.9:
        raise SystemExit(f"wheel-test: no accuracy above 0.9 in\n{output}")


def main() -> int:
    """Exit code 0 if every page's commands did what it says, and both trainings ended with a good accuracy."""
    if os.geteuid() != 0:
        print("wheel-test: debootstrap, mount and chroot need root; run: sudo make wheel-test", file=sys.stderr)
        return 1
    make_root()
    check_bare()
    install()
    try_pages()
    # After the pages: with it comes numpy, which nothing of ours declares.
    in_venv(f"pip install -q --no-index --find-links=/wheels {' '.join(PACKAGES)}")
    train(ROOT / "examples" / "torch_digits.py", "farandole run", r"test accuracy (\d\.\d+), processes 2")
    train(ROOT / "tests" / "multiprocess" / "horovod_digits.py", "horovodrun", r"accuracy (\d\.\d+), ranks 2")
    print("wheel-test: passed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
