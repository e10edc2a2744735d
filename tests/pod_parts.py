"""What tests of pods begin with: a controller that others have started, and its key."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import processes

from farandole.base import locate

KEY = "k" * 64
JOB = "digits"


def secret(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o600)
    return path


@contextmanager
def controller(folder: Path) -> Iterator[str]:
    """Yields the address of one that outlives jobs, as a Deployment has it."""
    reader, writer = os.pipe()
    command = [locate.find("farandole-controller"), "--key-file", str(secret(folder / "key", KEY))]
    process = subprocess.Popen(
        [*command, "--ready-fd", str(writer)], pass_fds=[writer], stdin=subprocess.DEVNULL, env=processes.environment()
    )
    os.close(writer)
    try:
        with os.fdopen(reader) as file:
            yield file.readline().strip()
    finally:
        process.kill()
        process.wait()


def last_words(pid: int) -> str:
    """Of its command line, without those that an agent has for its command."""
    words = processes.command_line(pid)
    return "" if "farandole-agent" in words else words
