"""systemd, really: Debian's own as the first process of process, mount and network namespaces."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import debian_roots
import processes

WAIT_S = 60.0
CGROUPS = next(
    (p for p in map(Path, ("/sys/fs/cgroup/unified", "/sys/fs/cgroup")) if (p / "cgroup.procs").exists()), None
)
# The devices that a container manager would give it, and no service of the machine's own network.
BOOT = """
umount -l sys dev
mount -t sysfs sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs -o mode=755 tmpfs dev
for node in null zero full random urandom tty; do
  touch dev/$node
  mount --bind /dev/$node dev/$node
done
mkdir dev/pts dev/shm
mount -t devpts -o newinstance,ptmxmode=0666 devpts dev/pts
ln -s pts/ptmx dev/ptmx
mount --rbind "$INSTALLED" host
for unit in systemd-networkd.service systemd-networkd-wait-online.service systemd-logind.service; do
  ln -s /dev/null etc/systemd/system/$unit
done
: >etc/machine-id
ip link set lo up
export container=other
# Shared as systemd wants it; in a container it does not do this itself.
enter /bin/sh -c "/bin/mount --make-rshared / && exec /lib/systemd/systemd --unit=multi-user.target --show-status=false"
"""


def why_not() -> str:
    """Why it cannot be booted here; empty if it can."""
    if CGROUPS is None:
        return "no hierarchy of control groups of version 2"
    return debian_roots.why_not("systemd")


class Machine:
    """One that has booted."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.root = Path(f"/proc/{pid}/root")

    def inside(self, *words: str) -> list[str]:
        """A command of its own."""
        return ["nsenter", "-t", str(self.pid), "-m", "-p", "-n", *words]

    def run(self, *words: str, check: bool = True) -> str:
        """What a command of its own says."""
        done = subprocess.run(self.inside(*words), capture_output=True, text=True, timeout=WAIT_S)
        assert not check or done.returncode == 0, f"{words}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    def show(self, unit: str, name: str) -> str:
        return self.run("systemctl", "show", "--value", "-p", name, unit).strip()


def until(done: Callable[[], Any], what: Callable[[], str]) -> Any:
    """What `done` returns, once it is true; fails the test with `what()` if that takes too long."""
    end = time.monotonic() + WAIT_S
    while not (found := done()):
        assert time.monotonic() < end, what()
        time.sleep(0.05)
    return found


def child_of(pid: int) -> int:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(children[0]) if children else 0


@contextmanager
def booted(folder: Path, installed: Path) -> Iterator[Machine]:
    """`installed`: what it has at /host."""
    folder.mkdir()
    assert CGROUPS is not None
    group = CGROUPS / f"farandole-test-{os.getpid()}"
    group.mkdir()
    try:
        words = debian_roots.command("systemd", folder, BOOT, "-C", "-u", "-i", "-n")
        words = ["sh", "-c", f'echo $$ >{group}/cgroup.procs; exec "$@"', "sh", *words]
        with processes.running(words, folder.parent, {"INSTALLED": str(installed)}) as job:
            # Of the shell that has become `unshare`.
            pid = int(job.wait_for(lambda: child_of(job.process.pid), "the first process"))
            machine = Machine(pid)

            def up() -> bool:
                assert job.process.poll() is None, job.report()
                states = ("running", "degraded")
                return machine.run("systemctl", "is-system-running", check=False).strip() in states

            try:
                until(up, lambda: f"systemd has not booted\n{job.report()}\n{machine.run('systemctl', 'list-jobs')}")
                yield machine
            finally:
                job.process.kill()
                job.wait()
    finally:
        events = group / "cgroup.events"
        until(lambda: "populated 0" in events.read_text(), lambda: f"{group} has processes")
        for each in sorted((path for path in [group, *group.rglob("*")] if path.is_dir()), reverse=True):
            each.rmdir()
