"""The launcher starts a killed agent or controller again, and training does not notice."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import processes
import pytest
from job_parts import children, kill, part, pids, running, wait_for_another, wait_for_attached

from farandole.base import locate
from farandole.launch.status import job_files, query

STEPS = 250
PAUSE_S = 0.01
SCRIPT = [sys.executable, str(processes.ROOT / "tests" / "multiprocess" / "training_worker.py")]
WORKER = [*SCRIPT, "float64", "1", str(STEPS), str(PAUSE_S)]
# One write for a line: without prefixes the ranks share the launcher's output as it is.
HEAD = """
        hvd.init()
        os.write(1, b"pid %d %d\\n" % (hvd.rank(), os.getpid()))
        """


def wait_for_step(job: processes.Job, step: int) -> None:
    job.wait_for(lambda: len(job.lines("loss ")) >= step, f"step {step}")


@contextmanager
def training(folder: Path, *options: str) -> Iterator[processes.Job]:
    with processes.running(processes.launch_command(2, *WORKER, options=options), folder) as job:
        yield job


@pytest.fixture(scope="module")
def losses(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Of a run that nothing disturbs."""
    with training(tmp_path_factory.mktemp("undisturbed")) as job:
        assert job.wait() == 0, job.report()
    assert len(job.lines("loss ")) == STEPS
    return job.lines("loss ")


def check_undisturbed(
    job: processes.Job, losses: list[str], pid: dict[int, int], killed: list[tuple[str, int]]
) -> None:
    """The job has ended as if nothing had happened, and said one line for each killed part."""
    assert job.wait() == 0, job.report()
    assert job.lines("loss ") == losses, job.report()
    assert {int(rank): int(p) for rank, p in (line.split() for line in job.lines("done "))} == pid, job.report()
    said = [line for line in job.stderr.splitlines() if "starting it again" in line]
    expected = [f"the {name} (pid {old}) was killed by signal 9 (SIGKILL)" for name, old in killed]
    assert len(said) == len(expected) and all(any(e in s for s in said) for e in expected), job.report()


NEVER_THE_SAME = (
    HEAD
    + f"""
        total = zeros(4)
        for step in range({STEPS}):
            total += hvd.allreduce(full((4,), float(step + hvd.rank())), op=hvd.Sum, name=f"tensor {{step}}")
            if hvd.rank() == 0:
                os.write(1, b"loss %s\\n" % repr(float(total[0])).encode())
            time.sleep({PAUSE_S})
        os.write(1, b"done %d %d\\n" % (hvd.rank(), os.getpid()))
        """
)


def activity(job: processes.Job) -> str:
    """Whether the job negotiates or replays, as the controller says."""
    (file,) = [file for file in job_files.read_all() if file.pid == job.process.pid]
    return query.Target(file.job, file.controller, token=file.token).get()["activity"]


@pytest.mark.parametrize("replayed", [False, True])
@pytest.mark.parametrize(
    ("victims", "options"),
    [
        (["agent"], []),
        (["agent"], ["--no-prefix-output"]),
        (["controller"], []),
        (["agent", "controller"], []),
        (["controller", "agent"], []),
    ],
)
def test_killed_while_training(
    tmp_path: Path, losses: list[str], victims: list[str], replayed: bool, options: list[str]
) -> None:
    if replayed:
        command = WORKER
    else:
        command = [sys.executable, str(processes.script_file(tmp_path, NEVER_THE_SAME))]
        losses = [str(float(sum(2 * i + 1 for i in range(step + 1)))) for step in range(STEPS)]
    with processes.running(processes.launch_command(2, *command, options=tuple(options)), tmp_path) as job:
        pid = pids(job, 2)
        killed = []
        for step in (15, 50, 100):
            wait_for_step(job, step)
            if replayed:
                job.wait_for(lambda: activity(job) == "ACTIVITY_REPLAYING", "the replay")
            else:
                assert activity(job) == "ACTIVITY_NEGOTIATING"
            old = [(name, part(job, name)) for name in victims]
            for _, target in old:
                os.kill(target, signal.SIGKILL)
            for name, target in old:
                wait_for_another(job, name, target)
            wait_for_attached(job, list(pid.values()))
            killed += old
        check_undisturbed(job, losses, pid, killed)


def test_agent_killed_before_all_have_joined(tmp_path: Path) -> None:
    body = """
        print("pid", os.environ["HOROVOD_RANK"], os.getpid(), flush=True)
        if os.environ["HOROVOD_RANK"] == "1":
            while not os.path.exists("go"):
                time.sleep(0.01)
        hvd.init()
        print("sum", hvd.allreduce(ones(1), op=hvd.Sum).item(), flush=True)
        """
    with processes.launching(tmp_path, 2, body) as job:
        pids(job, 2)
        time.sleep(0.3)
        kill(job, "agent")
        (tmp_path / "go").touch()
        assert job.wait() == 0, job.report()
    assert job.lines("sum ") == ["2.0", "2.0"], job.report()


def test_segments_outlive_the_agent(tmp_path: Path) -> None:
    """A rank puts its data into a segment that it has from the first agent; the others ask the next one for it."""
    body = (
        HEAD
        + """
        hvd.allreduce(ones(1))
        print("small", flush=True)
        while not os.path.exists("go"):
            time.sleep(0.005)
        data = tensor([float(i) for i in range(1 << 15)])
        assert hvd.allreduce(data, op=hvd.Sum).tolist() == [3.0 * i for i in range(1 << 15)]
        print("right", flush=True)
        while not os.path.exists("end"):
            time.sleep(0.005)
        """
    )
    with processes.launching(tmp_path, 3, body) as job:
        pid = pids(job, 3)
        job.wait_for(lambda: len(job.lines("small")) == 3, "the small one")
        before = {rank: segments_of(p) for rank, p in pid.items()}
        kill(job, "agent")
        (tmp_path / "go").touch()
        # Otherwise nothing is tested here.
        job.wait_for(lambda: all(segments_of(p) > before[rank] for rank, p in pid.items()), "more segments")
        (tmp_path / "end").touch()
        assert job.wait() == 0, job.report()
    assert len(job.lines("right")) == 3, job.report()


def segments_of(pid: int) -> int:
    return Path(f"/proc/{pid}/maps").read_text().count("/memfd:farandole")


@pytest.mark.parametrize(
    ("ending", "code", "cause"),
    [
        ("sys.exit(3)", 3, "exited with code 3"),
        ("os._exit(0)", 1, "exited with code 0 without leaving the job"),
        ("os.kill(os.getpid(), signal.SIGKILL)", 137, "was killed by signal 9 (SIGKILL)"),
    ],
)
@pytest.mark.parametrize("when", ["after the restart", "while there is no agent"])
def test_worker_fails_after_a_restart(tmp_path: Path, when: str, ending: str, code: int, cause: str) -> None:
    body = (
        HEAD
        + f"""
        hvd.barrier()
        print("ready", flush=True)
        while not os.path.exists("go"):
            time.sleep(0.001)
        if hvd.rank() == 1:
            {ending}
        hvd.allreduce(ones(1))
        """
    )
    with processes.launching(tmp_path, 3, body) as job:
        pid = pids(job, 3)
        job.wait_for(lambda: len(job.lines("ready")) == 3, "the barrier")
        if when == "after the restart":
            kill(job, "agent")
            wait_for_attached(job, list(pid.values()))
            (tmp_path / "go").touch()
        else:
            # The launcher cannot replace it while it is stopped.
            job.process.send_signal(signal.SIGSTOP)
            os.kill(part(job, "agent"), signal.SIGKILL)
            (tmp_path / "go").touch()
            job.wait_for(lambda: not running(pid[1]), "the end of rank 1")
            job.process.send_signal(signal.SIGCONT)
        assert job.wait() == code, job.report()
    first = f"rank 1 (pid {pid[1]} on host {socket.gethostname()}) failed first: it {cause}"
    assert [line for line in job.stderr.splitlines() if "failed first" in line] == [f"farandole-agent: {first}"], (
        job.report()
    )


def test_wrapped_worker_fails_while_there_is_no_agent(tmp_path: Path) -> None:
    """The process that attached is not the one that the agent has started."""
    body = (
        HEAD
        + """
        hvd.barrier()
        print("ready", flush=True)
        while not os.path.exists("go"):
            time.sleep(0.001)
        if hvd.rank() == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        hvd.allreduce(ones(1))
        """
    )
    script = processes.script_file(tmp_path, body)
    wrapped = ["sh", "-c", f"{sys.executable} {script} || exit 7"]
    with processes.running(processes.launch_command(2, *wrapped), tmp_path) as job:
        pid = pids(job, 2)
        job.wait_for(lambda: len(job.lines("ready")) == 2, "the barrier")
        job.process.send_signal(signal.SIGSTOP)
        os.kill(part(job, "agent"), signal.SIGKILL)
        (tmp_path / "go").touch()
        job.wait_for(lambda: not running(pid[1]), "the end of rank 1")
        job.process.send_signal(signal.SIGCONT)
        assert job.wait() == 7, job.report()
    told = [line for line in job.stderr.splitlines() if "HorovodInternalError" in line]
    assert len(told) == 1 and f"rank 1 (pid {pid[1]}" in told[0], job.report()
    # The shell waits for its child, and may be quicker than the agent, which would see how it has ended.
    assert re.search(r"(ended without leaving the job|was killed by signal 9)", told[0]), job.report()


@pytest.mark.parametrize("victims", [("launcher",), ("launcher", "agent"), ("agent", "launcher")])
def test_killed_launcher_after_a_restart(tmp_path: Path, victims: tuple[str, ...]) -> None:
    with training(tmp_path) as job:
        pid = pids(job, 2)
        wait_for_step(job, 10)
        kill(job, "agent")
        wait_for_attached(job, list(pid.values()))
        targets = [job.process.pid if name == "launcher" else part(job, name) for name in victims]
        for target in targets:
            os.kill(target, signal.SIGKILL)
        job.wait()
        for rank in pid:
            job.wait_for(lambda rank=rank: not running(pid[rank]), f"end of rank {rank}", 5)


def test_interrupts_after_a_restart(tmp_path: Path) -> None:
    body = (
        HEAD
        + """
        count = 0
        def interrupted(*_):
            global count
            count += 1
            print("interrupt", count, flush=True)
        signal.signal(signal.SIGINT, interrupted)
        signal.signal(signal.SIGTERM, lambda *_: print("terminate", flush=True))
        while True:
            time.sleep(0.1)
        """
    )
    with processes.launching(tmp_path, 2, body) as job:
        pid = pids(job, 2)
        kill(job, "agent")
        # It may not be able to pass a signal on yet; none is lost.
        job.process.send_signal(signal.SIGINT)
        job.wait_for(lambda: len(job.lines("interrupt 1")) == 2, "the first interrupt")
        job.process.send_signal(signal.SIGINT)
        job.wait_for(lambda: len(job.lines("terminate")) == 2, "the second interrupt")
        assert job.process.poll() is None
        job.process.send_signal(signal.SIGINT)
        assert job.wait(10) == 128 + signal.SIGKILL, job.report()
        assert not any(running(p) for p in pid.values())


def test_output_goes_on_across_restarts(tmp_path: Path) -> None:
    body = (
        HEAD
        + """
        for i in range(3000):
            print("line", hvd.rank(), i, flush=True)
            time.sleep(0.001)
        """
    )
    with processes.launching(tmp_path, 2, body) as job:
        pids(job, 2)
        for count in (200, 1000):
            job.wait_for(lambda count=count: len(job.lines("line 1 ")) > count, f"line {count}")
            kill(job, "agent")
        assert job.wait() == 0, job.report()
    for rank in (0, 1):
        own = [int(number) for number in job.lines(f"[{rank}] line {rank} ")]
        gaps = [later - earlier - 1 for earlier, later in zip([-1, *own], [*own, 3000])]
        # What an agent has read and not yet written goes with it; what workers say while there is none does not.
        assert min(gaps) == 0 and max(gaps) < 16 and sum(gap > 0 for gap in gaps) <= 2, gaps


def test_an_agent_that_is_killed_again_and_again(tmp_path: Path) -> None:
    with training(tmp_path) as job:
        pid = pids(job, 2)
        for _ in range(5):
            kill(job, "agent")
        os.kill(part(job, "agent"), signal.SIGKILL)
        assert job.wait(20) == 128 + signal.SIGKILL, job.report()
        assert not any(running(p) for p in pid.values())
    (last,) = [line for line in job.stderr.splitlines() if "ending the job" in line]
    assert "the agent" in last and "started again 5 times within 60 s" in last, job.report()


def sleeping(job: processes.Job) -> list[int]:
    return [pid for pid, line in children(job).items() if line.startswith("sleep ")]


@pytest.mark.parametrize("name", ["agent", "controller"])
@pytest.mark.parametrize("how", ["is gone", "fails"])
def test_a_part_that_cannot_start_again(tmp_path: Path, name: str, how: str) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for each in ("agent", "controller"):
        shutil.copy(locate.find(f"farandole-{each}"), programs)
    command = processes.launch_command(2, "sleep", "60")
    with processes.running(command, tmp_path, {"FARANDOLE_BIN_DIR": str(programs)}) as job:
        workers = job.wait_for(lambda: len(sleeping(job)) == 2 and sleeping(job), "the start")
        (programs / f"farandole-{name}").unlink()
        if how == "fails":
            (programs / f"farandole-{name}").write_text("#!/bin/sh\necho this fails >&2; exit 1\n")
            (programs / f"farandole-{name}").chmod(0o755)
        os.kill(part(job, name), signal.SIGKILL)
        code = {("agent", "is gone"): 128 + signal.SIGKILL, ("agent", "fails"): 1}.get(
            (name, how), 128 + signal.SIGTERM
        )
        assert job.wait(20) == code, job.report()
        assert not any(running(worker) for worker in workers)
    assert ("this fails" if how == "fails" else "No such file or directory") in job.stderr, job.report()


def test_controller_comes_back_on_its_port(tmp_path: Path) -> None:
    """Workers that never call us do not notice."""
    command = [sys.executable, "-c", "import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)"]
    with processes.running(processes.launch_command(2, *command, options=("--verbose",)), tmp_path) as job:
        for count in range(1, 5):
            job.wait_for(lambda count=count: job.stderr.count("connected from host") == count, "the agent's connection")
            told = processes.command_line(part(job, "controller")).split()
            assert ("--first" in told) == (count == 1), "who has been served before may have to come back first"
            if count < 4:
                kill(job, "controller")
        (tmp_path / "go").touch()
        assert job.wait() == 0, job.report()
    lines = [line for line in job.stderr.splitlines() if "farandole run: controller" in line]
    assert len(lines) == 4 and len({line.split("listens on ")[1] for line in lines}) == 1, lines


def test_a_controller_that_is_killed_again_and_again(tmp_path: Path) -> None:
    with processes.running(processes.launch_command(2, "sleep", "60"), tmp_path) as job:
        job.wait_for(lambda: part(job, "agent"), "the start")
        for _ in range(5):
            kill(job, "controller")
        os.kill(part(job, "controller"), signal.SIGKILL)
        assert job.wait(20) == 128 + signal.SIGTERM, job.report()
    (last,) = [line for line in job.stderr.splitlines() if "ending the job" in line]
    assert "the controller" in last and "started again 5 times within 60 s" in last, job.report()
