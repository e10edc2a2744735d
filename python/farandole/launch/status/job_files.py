"""The runs of this user on this host, for ``farandole status``: a small file each, written by its launcher.

The file holds the controller's address and an observer's token, which allows to read the job's status and nothing else.
It has mode 0600 and lies in a folder of mode 0700: ``$XDG_RUNTIME_DIR/farandole``, or ``/tmp/farandole-UID``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from farandole.base.private import is_private

FILES_MAX = 10000
BYTES_MAX = 65536


@dataclass(frozen=True)
class JobFile:
    """One run.

    Attributes:
        job: name of the job.
        controller: HOST:PORT, the same for all lives of the controller.
        token: of an observer.
        pid: of the launcher.
        start: when it began, in clock ticks since the host did; tells it from another process with its pid.
        processes: how many were asked for.
        command: what they run.
        certificate: the controller's own, in PEM; empty: no TLS.
    """

    job: str
    controller: str
    token: str
    pid: int
    start: int
    processes: int
    command: tuple[str, ...]
    certificate: str = ""

    def alive(self) -> bool:
        """Whether the launcher runs."""
        return self.start != 0 and start_of(self.pid) == self.start

    def over(self) -> bool:
        """Whether the launcher has removed the file, which it does before it ends the controller, or is gone itself."""
        return not os.path.exists(os.path.join(folder(), self.job)) or not self.alive()


def start_of(pid: int) -> int:
    """When a process began, in clock ticks since the host did; 0 if there is none."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return int(file.read().rsplit(")", 1)[1].split()[19])
    except (OSError, IndexError, ValueError):
        return 0


def folder() -> str:
    """Where the files lie. It need not exist."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if runtime and is_private(runtime):
        return os.path.join(runtime, "farandole")
    return f"/tmp/farandole-{os.getuid()}"


def write(job: str, controller: str, token: str, processes: int, command: Sequence[str], certificate: str = "") -> None:
    """Writes the file of a run that this process launches.

    Raises:
        OSError: it cannot be written; among others because the folder belongs to somebody else.
    """
    place = folder()
    try:
        os.mkdir(place, 0o700)
    except FileExistsError:
        pass
    if not is_private(place):
        raise PermissionError(f"{place} is not a folder that only this user may look into")
    entry = JobFile(job, controller, token, os.getpid(), start_of(os.getpid()), processes, tuple(command), certificate)
    path = os.path.join(place, job)
    unfinished = f"{path}.{os.getpid()}"
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        json.dump(asdict(entry), file)
    os.rename(unfinished, path)


def remove(job: str) -> None:
    """Removes the file of a run, if there is one."""
    try:
        os.unlink(os.path.join(folder(), job))
    except OSError:
        pass


def _read(path: str) -> JobFile | None:
    try:
        with open(path) as file:
            fields = json.loads(file.read(BYTES_MAX))
        return JobFile(**{**fields, "command": tuple(fields["command"])})
    except (OSError, ValueError, TypeError, KeyError):
        return None


def read_all() -> list[JobFile]:
    """The runs whose launchers run, oldest first. Files that launchers have left behind are removed."""
    place = folder()
    if not is_private(place):
        return []
    found = []
    for name in sorted(os.listdir(place))[:FILES_MAX]:
        entry = _read(os.path.join(place, name))
        if entry is not None and entry.alive():
            found.append(entry)
        elif entry is not None:
            remove(entry.job)
    return sorted(found, key=lambda entry: (entry.start, entry.job))
