"""The wheels, built from what Bazel has built and installed into a folder each."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest
from installed import ROOT, Installed

DIST = ROOT / "build" / "wheel" / "dist"


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """Made by one of the processes that run tests, for all of them: there is one folder for what is built."""
    folder = tmp_path_factory.getbasetemp()
    # pytest-xdist gives each process a folder in that of the run.
    folder = (folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) / "wheels"
    folder.mkdir(exist_ok=True)
    site, alias_site, done = (folder / name for name in ("site", "alias", "done"))
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            build()
            install(one("farandole-*.whl"), site)
            install(one("farandole_horovod-*.whl"), alias_site)
            done.touch()
    return Installed(site, one("farandole-*.whl"), alias_site, one("farandole_horovod-*.whl"))


def build() -> None:
    built = subprocess.run([sys.executable, ROOT / "scripts" / "build_wheel.py"], capture_output=True, text=True)
    assert built.returncode == 0, built.stdout + built.stderr


def one(pattern: str) -> Path:
    (wheel,) = DIST.glob(pattern)
    return wheel


def install(wheel: Path, site: Path) -> None:
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-compile", "--target", str(site), str(wheel)]
    subprocess.run(pip, check=True)
