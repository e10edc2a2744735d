"""What ``farandole.run`` does: a launcher, the wait for its end, and the results.

The launcher is a process of its own, so that nothing of the caller's is touched: no signal handler, no thread, no child
that is not its own. Function and results are files (call_files.py); nothing is unpickled but what this user has
written, here or on hosts that ssh has authenticated.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import cloudpickle

from farandole.base import locate
from farandole.exceptions import RunError
from farandole.launch.function import call_files
from farandole.launch.processes.child import pipe

# The launcher gives workers 10 s to heed SIGTERM once the caller is gone; this is for it to end then.
END_S = 20.0


def run(call: tuple[Any, ...], processes: int, options: Sequence[str], executable: str | None) -> list[Any]:
    """Results by rank of `call`, which is (function, args, kwargs); `options` are those of `farandole run`."""
    # The function apart, so that its modules are found when it is unpickled.
    pickled = (list(sys.path), cloudpickle.dumps(call))
    with call_files.new_folder() as folder:
        call_files.write_call(folder, pickled)
        worker = [executable or sys.executable, "-m", "farandole.launch.function.worker", folder]
        code, interrupted = _launch([folder, "run", *options, "--", *worker])
        if interrupted:
            raise KeyboardInterrupt
        missing = call_files.ranks_without_result(folder, processes)
        if code or missing:
            raise _error(code, call_files.read_failures(folder), missing)
        return [call_files.read_result(folder, rank) for rank in range(processes)]


def _launch(arguments: Sequence[str]) -> tuple[int, bool]:
    """Exit code of the launcher, and whether Ctrl-C came meanwhile."""
    # A session of its own: what a terminal or a notebook's server sends to the whole group reaches the job only
    # through this process, once.
    launcher = subprocess.Popen(
        [sys.executable, "-m", "farandole.launch.function.launcher", *arguments],
        env=_environment(),
        stdin=subprocess.PIPE,
        start_new_session=True,
    )
    signals = [signal.SIGKILL, signal.SIGTERM, signal.SIGINT]
    interrupted = False
    try:
        while True:
            try:
                return launcher.wait(), interrupted
            except KeyboardInterrupt:
                interrupted = True
                launcher.send_signal(signals.pop() if len(signals) > 1 else signals[0])
    finally:
        pipe(launcher.stdin).close()
        try:
            launcher.wait(END_S)
        except subprocess.TimeoutExpired:
            launcher.kill()
            launcher.wait()


def _environment() -> dict[str, str]:
    """In which the other Pythons find this package, if this one has it from a path of its own."""
    root = os.path.dirname(locate.PACKAGE)
    if os.path.basename(root) in ("site-packages", "dist-packages"):
        return dict(os.environ)
    path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path}


def _error(code: int, failures: Sequence[call_files.Failure], missing: Sequence[int]) -> RunError:
    # Scripts look for the first words.
    text = "Horovod detected that one or more processes exited without a result: "
    rank, trace = None, ""
    if failures and failures[0].consequence and set(missing) - {failure.rank for failure in failures}:
        # Nothing came back of the cause; the others have been told of it.
        text += failures[0].summary.partition(": ")[2]
    elif failures:
        rank, trace = failures[0].rank, failures[0].traceback
        text += f"rank {rank} raised {failures[0].summary}"
    elif missing:
        text += "no exception came back, so look at the output of the job"
    else:
        text += "all have returned one, and then one of them failed; look at the output of the job"
    ranks = ", ".join(map(str, missing))
    text += f" (exit code of the job: {code}; ranks without a result: {ranks or 'none'})"
    if trace:
        text += f"\n\nOn rank {rank}:\n{trace.rstrip()}"
    return RunError(text, rank, trace, code, tuple(missing))
