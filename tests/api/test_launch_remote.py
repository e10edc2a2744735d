"""Other hosts, with stand-ins for ssh that hang or speak nonsense; real ones are in tests/multiprocess/test_ssh.py."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import processes
import pytest
import stand_ins

from farandole.launch.job.output import HELD_BYTES_MAX

HOSTS = 60
# For all hosts together: far less than for one after the other.
END_S = 25.0


def started(folder: Path, job: processes.Job, count: int) -> None:
    log = folder / "started"
    job.wait_for(lambda: log.exists() and len(log.read_text().split()) >= count, f"{count} ssh processes")


@pytest.mark.parametrize("options", [[], ["--min-np", "1"]], ids=["fixed", "elastic"])
def test_hosts_that_hang_do_not_delay_a_signal(tmp_path: Path, options: list[str]) -> None:
    program = stand_ins.program(tmp_path, f"echo $$ >> {tmp_path}/started; exec sleep 1000")
    named = ",".join(f"host{number}:1" for number in range(HOSTS))
    command = processes.launch_command(HOSTS, "true", options=("-H", named, "--start-timeout", "300", *options))
    with processes.running(command, tmp_path, {"FARANDOLE_SSH": program}) as job:
        started(tmp_path, job, HOSTS)
        os.kill(job.process.pid, signal.SIGTERM)
        with processes.Stopwatch() as watch:
            assert job.wait(END_S) != 0, job.report()
        assert watch.seconds < 5


@pytest.mark.parametrize("options", [[], ["--min-np", "1"]], ids=["fixed", "elastic"])
@pytest.mark.parametrize("here", [0, 1], ids=["elsewhere", "and here"])
def test_hosts_that_hang_after_the_check_do_not_either(tmp_path: Path, options: list[str], here: int) -> None:
    program = stand_ins.ssh(tmp_path, f"echo $$ >> {tmp_path}/started; exec sleep 1000")
    named = ["localhost:1"] * here + [f"host{number}:1" for number in range(HOSTS)]
    given = ("-H", ",".join(named), *options)
    command = processes.launch_command(len(named), "sleep", "1000", options=given)
    with processes.running(command, tmp_path, {"FARANDOLE_SSH": program}) as job:
        started(tmp_path, job, HOSTS)
        os.kill(job.process.pid, signal.SIGTERM)
        with processes.Stopwatch() as watch:
            assert job.wait(END_S) == 128 + signal.SIGTERM, job.report()
        assert watch.seconds < 5


# Runs here what is to run there, but refuses the second login of the launcher's checks.
REFUSES_ONCE = """
case "$*" in *--check*) echo >> {0}/checks; [ "$(wc -l < {0}/checks)" != 2 ] || exit 255;; esac
{1}
"""


@pytest.mark.parametrize("asked_to_end", [False, True])
def test_a_host_that_cannot_be_used_for_once_costs_one_restart(tmp_path: Path, asked_to_end: bool) -> None:
    program = stand_ins.program(tmp_path, REFUSES_ONCE.format(tmp_path, stand_ins.RUN))
    worker = ("sh", "-c", "[ $FARANDOLE_RESTARTS != 0 ] || exit 3; echo again $FARANDOLE_RESTARTS")
    command = processes.launch_command(1, *worker, options=("-H", "other:1", "--max-restarts", "5"))
    with processes.running(command, tmp_path, {"FARANDOLE_SSH": program}) as job:
        job.wait_for(lambda: "exit code 1: restart 2 of 5 in 3 s" in job.stderr, "the pause")
        if asked_to_end:
            job.process.terminate()
        assert job.wait() == (128 + signal.SIGTERM if asked_to_end else 0), job.report()
    assert job.lines("again ") == ([] if asked_to_end else ["2"]), job.report()


def test_a_first_attempt_that_does_not_begin_is_the_last(tmp_path: Path) -> None:
    program = stand_ins.program(tmp_path, "exit 255")
    command = processes.launch_command(1, "true", options=("-H", "other:1", "--max-restarts", "5"))
    with processes.running(command, tmp_path, {"FARANDOLE_SSH": program}) as job:
        assert job.wait() == 1, job.report()
    assert "restart" not in job.stderr


def test_who_names_only_this_host_listens_only_here(tmp_path: Path) -> None:
    options = ("--min-np", "1", "--host-discovery-script", "echo localhost:1")
    command = processes.launch_command(1, "sleep", "1000", options=options)
    with processes.running(command, tmp_path) as job:
        job.wait_for(lambda: "sleep 1000 " in map(processes.command_line, processes.marked(job.mark)), "the worker")
        (controller,) = [p for p in processes.marked(job.mark) if "farandole-controller" in processes.command_line(p)]
        assert "--listen 127.0.0.1:0 " in processes.command_line(controller)
        os.kill(job.process.pid, signal.SIGTERM)
        assert job.wait() == 128 + signal.SIGTERM, job.report()


# Rank 1 fails when it is told to.
FLOOD = """
import os, sys, time
while os.environ.get("FARANDOLE_RANK") == "1":
    if os.path.exists("fail"):
        sys.exit(3)
    time.sleep(0.01)
while True:
    os.write(1, b"x" * 1000 + b"\\n")
"""


@contextmanager
def unread(folder: Path, count: int, *options: str) -> Iterator[processes.Job]:
    """A job on another host whose output nobody reads, once no more of it is taken."""
    os.mkfifo(folder / "pipe")
    reader = os.open(folder / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    given = ("-H", f"host1:{count}", "--output-filename", "out", *options)
    command = processes.launch_command(count, sys.executable, "-S", "-c", FLOOD, options=given)
    command = ["sh", "-c", 'exec "$@" >pipe', "sh", *command]
    program = stand_ins.program(folder, stand_ins.RUN)
    try:
        with processes.running(command, folder, {"FARANDOLE_SSH": program}) as job:
            log = folder / "out" / ("slot.host1.0" if options else "rank.0") / "stdout"
            job.wait_for(lambda: log.exists() and log.stat().st_size > HELD_BYTES_MAX, "more output than is held")
            sizes = [0]

            def stands_still() -> bool:
                time.sleep(0.3)
                sizes.append(log.stat().st_size)
                return sizes[-1] == sizes[-2]

            job.wait_for(stands_still, "the end of reading")
            assert sizes[-1] < 16 * HELD_BYTES_MAX
            yield job
    finally:
        os.close(reader)


@pytest.mark.parametrize("options", [[], ["--min-np", "1"]], ids=["fixed", "elastic"])
def test_a_signal_ends_a_job_whose_output_nobody_reads(tmp_path: Path, options: list[str]) -> None:
    with unread(tmp_path, 1, *options) as job:
        os.kill(job.process.pid, signal.SIGTERM)
        assert job.wait(END_S) == 128 + signal.SIGTERM, job.report()
    assert "the connection to host" not in job.stderr, job.report()


def test_a_failure_ends_a_job_whose_output_nobody_reads(tmp_path: Path) -> None:
    with unread(tmp_path, 2) as job:
        (tmp_path / "fail").touch()
        assert job.wait(END_S) == 3, job.report()
    assert "the connection to host" not in job.stderr, job.report()


# More than pipes hold, once the other rank has failed.
LAST_WORDS = """
import os, signal, sys, time
if os.environ["FARANDOLE_RANK"] == "0":
    while not os.path.exists("ready"):
        time.sleep(0.01)
    sys.exit(3)

def end(*_):
    for number in range(20_000):
        print("last", number, "x" * 60)
    sys.stdout.flush()
    os._exit(0)

signal.signal(signal.SIGTERM, end)
open("ready", "w").close()
while True:
    time.sleep(1)
"""


SLOW = """
import os, time
while chunk := os.read(0, 1 << 16):
    time.sleep(0.05)
    while chunk:
        chunk = chunk[os.write(1, chunk):]
"""


def test_what_a_worker_says_at_its_end_is_shown(tmp_path: Path) -> None:
    """Also over a connection that takes its time."""
    (tmp_path / "slow.py").write_text(SLOW)
    run = stand_ins.RUN.replace("exec ", "")
    program = stand_ins.program(tmp_path, f"{run} | exec {sys.executable} -S {tmp_path}/slow.py")
    command = processes.launch_command(2, sys.executable, "-S", "-c", LAST_WORDS, options=("-H", "localhost:1,host1:1"))
    with processes.running(command, tmp_path, {"FARANDOLE_SSH": program}) as job:
        assert job.wait(END_S) == 3, job.report()
    assert len(job.lines("last ")) == 20_000, job.stdout[-1000:] + job.stderr


def handles(pid: int, number: int) -> bool:
    """Whether a process catches a signal, or has it blocked to wait for it."""
    masks = dict(line.split(":\t") for line in Path(f"/proc/{pid}/status").read_text().splitlines() if "Sig" in line)
    return bool((int(masks["SigCgt"], 16) | int(masks["SigBlk"], 16)) >> (number - 1) & 1)


@pytest.mark.parametrize("host", ["localhost", "host1"])
def test_what_workers_had_begun_to_say_is_shown_when_their_agent_ends(tmp_path: Path, host: str) -> None:
    program = stand_ins.program(tmp_path, stand_ins.RUN)
    body = "printf 'last words'; touch ready; exec sleep 1000"
    command = processes.launch_command(1, "sh", "-c", body, options=("-H", f"{host}:1", "--min-np", "1"))
    with processes.running(command, tmp_path, {"FARANDOLE_SSH": program}) as job:
        job.wait_for((tmp_path / "ready").exists, "the worker")
        (agent,) = [
            p for p in processes.marked(job.mark) if "farandole-agent" in processes.command_line(p).split(" ")[0]
        ]
        job.wait_for(lambda: handles(agent, signal.SIGTERM), "an agent that does not die of the signal")
        os.kill(agent, signal.SIGTERM)
        job.wait_for(lambda: job.lines("last words"), "the end of the line", 20.0)
        os.kill(job.process.pid, signal.SIGTERM)
        job.wait(END_S)
