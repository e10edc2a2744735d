"""Commands of ``horovod.runner.common.util.safe_shell_exec`` end with whoever runs them."""

from __future__ import annotations

import io
import sys
import threading
from pathlib import Path

import processes

from farandole.launch.helpers import safe_shell_exec

BODY = """
from farandole.launch.helpers import safe_shell_exec
safe_shell_exec.execute("sleep 1000 & echo begun; sleep 1000; true")
"""

LEFT = """
import os
print([number for number in range(3, 256) if os.path.exists(f"/proc/self/fd/{number}")])
print(open(f"/proc/self/task/{os.getpid()}/children").read().split())
"""


def test_a_killed_caller_takes_its_command_along(tmp_path: Path) -> None:
    """`running` looks for what is left."""
    with processes.running([sys.executable, "-c", BODY], tmp_path) as job:
        job.wait_for(lambda: job.lines("begun") and len(processes.marked(job.mark)) > 3, "the command")
        job.process.kill()
        job.wait()


def test_what_a_command_leaves_behind_stays(tmp_path: Path) -> None:
    code = safe_shell_exec.execute(f"(sleep 0.3; touch {tmp_path}/after) >/dev/null 2>&1 & exit 4")
    assert code == 4
    processes.Job(None, tmp_path / "none", tmp_path / "none").wait_for((tmp_path / "after").exists, "what was left")


def test_a_command_has_nothing_of_its_watcher() -> None:
    """It is no job or child that the command could wait for; the command has no more arguments and descriptors."""
    lines, end = io.StringIO(), threading.Event()
    timer = threading.Timer(30.0, end.set)
    timer.start()
    command = f"sleep 0.1 & wait; echo $# $0; exec {sys.executable} -S -c '{LEFT}'"
    code = safe_shell_exec.execute(command, stdout=lines, events=[end])
    timer.cancel()
    assert (code, lines.getvalue()) == (0, "0 /bin/sh\n[]\n[]\n")
