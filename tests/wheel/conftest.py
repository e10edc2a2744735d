"""The wheels, built from what Bazel has built and installed into a folder each."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from installed import ROOT, Installed


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    built = subprocess.run([sys.executable, ROOT / "scripts" / "build_wheel.py"], capture_output=True, text=True)
    assert built.returncode == 0, built.stdout + built.stderr
    (wheel,) = (ROOT / "build" / "wheel" / "dist").glob("farandole-*.whl")
    (alias,) = (ROOT / "build" / "wheel" / "dist").glob("farandole_horovod-*.whl")
    return Installed(install(wheel, tmp_path_factory), wheel, install(alias, tmp_path_factory), alias)


def install(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    site = tmp_path_factory.mktemp("site")
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-compile", "--target", str(site), str(wheel)]
    subprocess.run(pip, check=True)
    return site
