"""Commands in the roots of Debian that scripts/install_deps.sh unpacks: with processes, mounts and an upper layer of
their own, so that nothing of them is left when their first process has ended. Needs the rights of root."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import processes

DEPS = processes.ROOT / ".deps"
# $1: the root; $2: a folder. What is written goes to a file system in memory. The rest is the caller's, who ends with
# `enter COMMAND...`.
BEGIN = """set -eu
mount -t tmpfs tmpfs "$2"
mkdir "$2/upper" "$2/work" "$2/root"
mount -t overlay overlay -o "lowerdir=$1,upperdir=$2/upper,workdir=$2/work" "$2/root"
cd "$2/root"
mkdir -p old proc sys dev run tmp host etc
touch etc/hosts etc/resolv.conf etc/localtime
mount -t proc proc proc
mount --rbind /sys sys
mount --rbind /dev dev
mount -t tmpfs tmpfs run
mount -t tmpfs -o mode=1777 tmpfs tmp
enter() {
  pivot_root . old
  cd /
  /bin/umount -l /old
  exec "$@"
}
"""


def why_not(name: str) -> str:
    """Why there can be no such root here; empty if there can."""
    if os.geteuid() != 0:
        return "needs root, to mount"
    if not (DEPS / name / "packages").exists():
        return f"scripts/install_deps.sh --{name} has not been run"
    tried = subprocess.run(["unshare", "-m", "-p", "-f", "true"], capture_output=True, text=True)
    return tried.stderr.strip()


def command(name: str, folder: Path, script: str, *unshare: str) -> list[str]:
    """Runs `BEGIN` and a script. `folder`: an empty one; `unshare`: further options of that program."""
    words = ["unshare", "-m", "-p", "-f", "--kill-child", "--propagation", "private", *unshare]
    return [*words, "bash", "-c", BEGIN + script, "enter", str(DEPS / name), str(folder)]
