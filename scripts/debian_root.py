"""A Debian root with Python or what is named, and nothing of ours, from the mirror that this machine's apt uses.

Needs the rights of root: for debootstrap, mounts and chroot.
"""

from __future__ import annotations

import subprocess
from pathlib import Path


def _output(*command: str) -> str:
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def mirror() -> tuple[str, str]:
    """Address and suite of this machine's own Debian."""
    suite = _output("sh", "-c", ". /etc/os-release; echo $VERSION_CODENAME").strip()
    targets = _output(
        "apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE)", "Created-By: Packages", "Origin: Debian"
    )
    found = [line.split()[0] for line in targets.splitlines() if line.split()[1] == suite]
    if not found:
        raise SystemExit(f"apt knows no source of {suite}; look at /etc/apt/sources.list, run apt-get update")
    return found[0], suite


def make(folder: Path, packages: tuple[str, ...] = ("python3", "python3-venv")) -> None:
    """A root in a folder that does not exist, with these packages and what they need."""
    address, suite = mirror()
    command = ["debootstrap", "--variant=minbase", f"--include={','.join(packages)}", suite, str(folder), address]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
