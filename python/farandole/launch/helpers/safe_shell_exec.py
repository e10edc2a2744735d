"""Commands that end when they are told to, as ``horovod.runner.common.util.safe_shell_exec`` runs them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Mapping
from typing import BinaryIO, TextIO

from farandole.launch.helpers.threads import in_thread

GRACEFUL_TERMINATION_TIME_S = 5
"""How long a command has after SIGTERM."""
_POLL_S = 0.05
# Beside the command's shell, one that kills its session: no child of it, so that it does not wait for that. The pipe is
# opened through our own number, as a shell cannot close a descriptor of two digits.
_WATCHED = (
    'exec 3</proc/{}/fd/{}; ({{ read -r line || kill -KILL 0; }} <&3 3<&- >/dev/null 2>&1 &); exec /bin/sh -c "$1" 3<&-'
)


def _pass_on(source: BinaryIO, target: TextIO, prefix: str, timestamps: bool) -> None:
    for line in source:
        now = time.strftime("%a %b %d %H:%M:%S %Y") if timestamps and prefix else ""
        target.write(now + prefix + line.decode(errors="replace"))
        target.flush()


def execute(
    command: str,
    env: Mapping[str, str] | None = None,
    stdout: TextIO | None = None,
    stderr: TextIO | None = None,
    index: int | None = None,
    events: Iterable[threading.Event] | None = None,
    prefix_output_with_timestamp: bool = False,
) -> int:
    """Runs a command of the shell, and ends it, with all that it has started, when one of the events is set or an
    exception (Ctrl-C) comes. If this process is killed, it is killed too.

    Args:
        command: for the shell.
        env: all of its variables; None: those of this process.
        stdout, stderr: where its output goes, line by line; None: `sys.stdout`, `sys.stderr`.
        index: written before each line, as ``[index]<stdout>:``; None: nothing is.
        events: each of them ends it.
        prefix_output_with_timestamp: the time before the index, too.

    Returns:
        Its exit code; minus the signal that has ended it.
    """
    # At the end of file somebody has killed us; a line says that all is well.
    reader, writer = os.pipe()
    try:
        process = subprocess.Popen(
            ["/bin/sh", "-c", _WATCHED.format(os.getpid(), reader), "sh", command],
            env=None if env is None else dict(env),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except BaseException:
        os.close(reader)
        os.close(writer)
        raise
    forwards = []
    for name, source, target in (
        ("stdout", process.stdout, sys.stdout if stdout is None else stdout),
        ("stderr", process.stderr, sys.stderr if stderr is None else stderr),
    ):
        prefix = "" if index is None else f"[{index}]<{name}>:"
        forwards.append(in_thread(_pass_on, (source, target, prefix, prefix_output_with_timestamp)))
    try:
        waiting = list(events or [])
        while process.poll() is None and not any(event.is_set() for event in waiting):
            try:
                process.wait(_POLL_S if waiting else None)
            except subprocess.TimeoutExpired:
                pass
    finally:
        try:
            if process.poll() is None:
                _end(process)
        finally:
            os.write(writer, b"\n")
            os.close(reader)
            os.close(writer)
    for forward in forwards:
        forward.join(GRACEFUL_TERMINATION_TIME_S)
    return process.returncode


def _end(process: subprocess.Popen[bytes]) -> None:
    """Whatever of its session still runs."""
    for each in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, each)
        except ProcessLookupError:
            break
        try:
            process.wait(GRACEFUL_TERMINATION_TIME_S)
        except subprocess.TimeoutExpired:
            continue
        if each == signal.SIGTERM and not _group_lives(process.pid):
            break
    process.wait()


def _group_lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
