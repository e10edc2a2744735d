"""An installation of the wheel."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@dataclass
class Installed:
    """An installation of the wheel that nothing of the source tree shines through, and apart from it one of the wheel
    with Horovod's names."""

    site: Path
    wheel: Path
    alias_site: Path
    alias_wheel: Path

    @property
    def library(self) -> Path:
        return self.site / "farandole" / "lib" / "libfarandole.so"

    @property
    def executables(self) -> list[Path]:
        return sorted((self.site / "farandole" / "bin").iterdir())

    def run(self, ranks: int, script: Path, *arguments: str, **extra: str) -> subprocess.CompletedProcess[str]:
        """`farandole run` of the installation; standard output and error are joined."""
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("FARANDOLE_", "LD_"))}
        environment.update(PYTHONPATH=str(self.site), OMP_NUM_THREADS="1", **extra)
        command = [sys.executable, "-m", "farandole", "run", "-np", str(ranks), sys.executable, str(script), *arguments]
        return subprocess.run(
            command,
            cwd=self.site,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
        )
