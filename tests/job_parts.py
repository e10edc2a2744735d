"""The processes of a job that `farandole run` has started: who they are, what they do, how they are killed."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import processes

# How long until a killed part has been replaced. Machines that run several builds at once are slow.
RESTART_S = 30.0
# A script whose ranks say who they are and reduce until they are killed.
IN_ALLREDUCE = """
        hvd.init()
        print("pid", hvd.rank(), os.getpid(), flush=True)
        tensor = ones(1 << 18)
        for step in range(10**9):
            hvd.allreduce_(tensor, name="gradient")
            if step == 30:
                print("warm", flush=True)
        """
# One whose ranks reduce until each of them finds a file.
UNTIL_GO = """
        hvd.init()
        # Ranks that are just looking for each other lose their way when the controller dies; those that train do not.
        hvd.allreduce(tensor([0.0]), op=hvd.Sum, name="go")
        print("pid", hvd.rank(), os.getpid(), flush=True)
        while hvd.allreduce(tensor([1.0 if os.path.exists("go") else 0.0]), op=hvd.Sum, name="go").item() < 2:
            time.sleep(0.005)
        """


def children(job: processes.Job) -> dict[int, str]:
    """Command lines of the launcher's children that run."""
    found = Path(f"/proc/{job.process.pid}/task/{job.process.pid}/children").read_text().split()
    lines = {int(pid): processes.command_line(int(pid)) for pid in found}
    return {pid: line for pid, line in lines.items() if line.strip("? ")}


def part(job: processes.Job, name: str) -> int:
    """Pid of the controller or the agent, 0 if there is none."""
    found = [pid for pid, line in children(job).items() if f"farandole-{name}" in line.split(" ")[0]]
    return found[0] if found else 0


def pids(job: processes.Job, size: int) -> dict[int, int]:
    """Process of each rank, once all have said it."""
    lines = job.wait_for(lambda: len(job.lines("pid ")) == size and job.lines("pid "), "init on all ranks")
    return {int(rank): int(pid) for rank, pid in (line.split() for line in lines)}


def wait_for_another(job: processes.Job, name: str, old: int) -> int:
    return job.wait_for(lambda: part(job, name) not in (0, old) and part(job, name), f"another {name}", RESTART_S)


def kill(job: processes.Job, name: str) -> int:
    """SIGKILL; returns when another one is there, its pid."""
    old = part(job, name)
    assert old, job.report()
    os.kill(old, signal.SIGKILL)
    return wait_for_another(job, name, old)


def wait_for_attached(job: processes.Job, workers: list[int]) -> None:
    """Until the present agent serves these processes: `ss` would tell; the kernel's table does."""
    agent = part(job, "agent")
    job.wait_for(lambda: len(connections(agent)) >= len(workers), "the workers to attach again", RESTART_S)


def connections(agent: int) -> list[str]:
    """Unix sockets of a process that are connected and have the agent's name."""
    try:
        inodes = {os.readlink(f"/proc/{agent}/fd/{fd}") for fd in os.listdir(f"/proc/{agent}/fd")}
    except OSError:
        return []
    lines = [line.split() for line in Path("/proc/net/unix").read_text().splitlines()[1:]]
    return [
        line[6] for line in lines if len(line) > 7 and "@farandole-" in line[7] and f"socket:[{line[6]}]" in inodes
    ][1:]


def state(pid: int) -> str:
    """R, S, T, Z, ...; empty if it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return ""


def running(pid: int) -> bool:
    return state(pid) not in ("", "Z")
