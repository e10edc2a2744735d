"""Fresh virtual environments, without anything that the tests' own has."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

from installed import ROOT

# What `make deps` has downloaded: all that the wheels declare.
DOWNLOADED = ROOT / ".deps" / "wheels"


class Environment:
    """An empty environment in a folder that does not exist yet."""

    def __init__(self, folder: Path) -> None:
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
        self.bin = folder / "bin"
        self.python = self.bin / "python"
        (self.site,) = (folder / "lib").glob("python*/site-packages")

    def pip(self, *arguments: object, **variables: str) -> subprocess.CompletedProcess[str]:
        """Runs pip for this environment, without an index."""
        command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", self.python, *arguments]
        return self._run(command, PIP_NO_INDEX="1", **variables)

    def run(self, command: str, *arguments: object, **variables: str) -> subprocess.CompletedProcess[str]:
        """Runs a command of this environment; standard output and error are joined."""
        return self._run([self.bin / command, *arguments], **variables)

    def _run(self, command: list[object], **variables: str) -> subprocess.CompletedProcess[str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("FARANDOLE_", "PYTHON", "LD_"))}
        kept.update(PATH=f"{self.bin}:{kept['PATH']}", OMP_NUM_THREADS="1", **variables)
        return subprocess.run(
            [str(part) for part in command],
            cwd=self.bin,
            env=kept,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=300,
        )

    def link_torch(self) -> None:
        """Lends torch and what torch itself requires, too large to be installed once more. numpy is not among it."""
        todo, seen = ["torch"], set()
        while todo:
            name = todo.pop()
            if name in seen:
                continue
            seen.add(name)
            distribution = metadata.distribution(name)
            for top in {
                file.parts[0] for file in distribution.files or [] if file.parts[0] not in ("..", "__pycache__")
            }:
                link = self.site / top
                if not link.exists():
                    link.symlink_to(distribution.locate_file(top))
            required = [r for r in distribution.requires or [] if "extra ==" not in r]
            todo += [n for n in (re.match(r"[\w.-]+", r).group() for r in required) if _is_installed(n)]


def _is_installed(name: str) -> bool:
    """Markers are not read: what they exclude here is not there."""
    try:
        metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return False
    return True
