"""How the launcher's programs wait, with more descriptors than select() could take, and what they say without any."""

from __future__ import annotations

import errno
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import processes
import pytest

from farandole.launch.processes import descriptors
from farandole.launch.processes.waiting import Loop, wait

# Those of so many processes: two pipes each.
PROCESSES = 2000


@contextmanager
def pipes(count: int) -> Iterator[list[tuple[int, int]]]:
    with ExitStack() as stack:
        ends = []
        for _ in range(count):
            ends.append(os.pipe())
            for end in ends[-1]:
                stack.callback(os.close, end)
        yield ends


@pytest.fixture
def limit() -> Iterator[int]:
    """Raised for one test."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield descriptors.raise_limit()
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_the_pipes_of_2000_processes(limit: int) -> None:
    if limit < 4 * PROCESSES + descriptors.OWN:
        pytest.skip(f"the hard limit is {limit} descriptors (ulimit -Hn)")
    with pipes(2 * PROCESSES) as ends, Loop() as loop:
        readers = [reader for reader, _ in ends]
        assert max(readers) > 2 * PROCESSES
        assert loop.wait(readers, 0.0) == set()
        written = {ends[0], ends[700], ends[-1]}
        for _, writer in written:
            os.write(writer, b"x")
        assert loop.wait(readers, 10.0) == {reader for reader, _ in written}


def test_a_signal_ends_the_wait() -> None:
    before = signal.getsignal(signal.SIGCHLD)
    with Loop() as loop, pipes(1) as ends:
        child = subprocess.Popen(["sleep", "0.05"])
        with processes.Stopwatch() as watch:
            assert loop.wait([ends[0][0]], 30.0) == set()
        assert watch.seconds < 20 and child.wait(10) == 0
    assert signal.getsignal(signal.SIGCHLD) == before


def test_a_pipe_whose_other_end_is_closed_is_ready() -> None:
    reader, writer = os.pipe()
    os.close(writer)
    assert wait([reader], timeout_s=10.0) == {reader}
    os.close(reader)
    reader, writer = os.pipe()
    assert wait([reader], [writer], 10.0) == {writer}
    os.close(reader)
    assert wait([], [writer], 10.0) == {writer}
    os.close(writer)


def test_too_few_descriptors_are_named(limit: int) -> None:
    said: list[str] = []
    descriptors.warn_if_few(100, 1000, said.append)
    assert said == []
    descriptors.warn_if_few(1000, 1000, said.append)
    assert "this job needs about 1064 open files, the limit is 1000" in said[0] and "ulimit -n" in said[0]
    assert "ulimit -n" in descriptors.explain(OSError(errno.EMFILE, os.strerror(errno.EMFILE)))
    assert descriptors.explain(RuntimeError("other")) == "other"


def test_a_job_says_that_it_has_too_few(tmp_path: Path) -> None:
    """Though the soft limit, which it raises, is lower still."""
    command = processes.launch_command(8, "true", options=("--output-filename", "out"))
    with processes.running(["sh", "-c", 'ulimit -n 60; exec "$@"', "sh", *command], tmp_path) as job:
        job.wait()
    assert "this job needs about" in job.stderr and "the limit is 60" in job.stderr, job.report()


def test_a_job_takes_as_many_as_it_may(tmp_path: Path) -> None:
    options = ("--output-filename", "out")
    body = "import resource; print('limit', resource.getrlimit(resource.RLIMIT_NOFILE)[0])"
    command = processes.launch_command(40, sys.executable, "-S", "-c", body, options=options)
    with processes.running(["sh", "-c", 'ulimit -S -n 64; exec "$@"', "sh", *command], tmp_path) as job:
        assert job.wait() == 0, job.report()
    assert len(job.lines("limit ")) == 40 and "open files" not in job.stderr


# Every descriptor that the launcher opens has a number beyond those.
OCCUPIED = """
import os, resource, sys
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
for _ in range(%d):
    os.set_inheritable(os.open(os.devnull, os.O_RDONLY), True)
os.execv(sys.argv[1], sys.argv[1:])
"""


@pytest.mark.parametrize(
    "options",
    [[], ["-prefix-timestamp"], ["--host-discovery-script", "echo localhost:3"]],
    ids=["agent", "here", "slots"],
)
def test_a_job_beside_the_descriptors_of_2000_processes(tmp_path: Path, limit: int, options: list[str]) -> None:
    if limit < 2 * PROCESSES + descriptors.OWN:
        pytest.skip(f"the hard limit is {limit} descriptors (ulimit -Hn)")
    command = processes.launch_command(3, sys.executable, "-S", "-c", "print('ran')", options=tuple(options))
    with processes.running([sys.executable, "-c", OCCUPIED % (2 * PROCESSES), *command], tmp_path) as job:
        assert job.wait() == 0, job.report()
    assert len(job.lines("ran")) == 3, job.report()
