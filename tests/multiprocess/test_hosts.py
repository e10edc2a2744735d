"""Jobs on several hosts, which are network namespaces: shared memory inside each, TCP across."""

from __future__ import annotations

import os
import re
import signal
import socket
import time
from pathlib import Path

import job_parts
import namespaces
import processes
import pytest

FOLDER = processes.ROOT / "tests" / "multiprocess"

_REASON = namespaces.why_not()
pytestmark = pytest.mark.skipif(bool(_REASON), reason=_REASON or "namespaces can be made")

HOSTS = [(2, 1), (2, 2), (1, 2, 1)]
IDS = ["-".join(map(str, workers)) for workers in HOSTS]


def chosen(job: namespaces.SpreadJob) -> set[str]:
    """What the selectors of all workers say that the global set communicates by, without the reasons."""
    lines = [line for part in job.parts for line in part.stderr.splitlines()]
    found = [re.search(r"process set 0 of \d+ members communicates by ([^;]+);", line) for line in lines]
    return {match.group(1) for match in found if match}


@pytest.mark.parametrize("workers", HOSTS, ids=IDS)
def test_all_collectives_against_numpy(tmp_path: Path, workers: tuple[int, ...]) -> None:
    script = [str(FOLDER / "collectives_worker.py")]
    with namespaces.spread(tmp_path, workers, script, {"FARANDOLE_LOG_LEVEL": "debug"}) as job:
        assert job.wait() == [0] * len(workers), job.report()
    size = sum(workers)
    assert sorted(job.lines("] checked 14 rank")) == [f"{rank} of {size}" for rank in range(size)], job.report()
    assert chosen(job) == {"hier"}, job.report()


@pytest.mark.parametrize("workers", HOSTS[:2], ids=IDS[:2])
def test_replay_and_what_ends_it(tmp_path: Path, workers: tuple[int, ...]) -> None:
    with namespaces.spread(tmp_path, workers, [str(FOLDER / "replay_worker.py")]) as job:
        assert job.wait() == [0] * len(workers), job.report()
    assert len([line for part in job.parts for line in part.stdout.splitlines() if " done on rank" in line]) == 8 * sum(
        workers
    ), job.report()


def test_process_sets_that_lie_differently(tmp_path: Path) -> None:
    """Of the even ranks two share a host, of the odd ones none do."""
    script = [str(FOLDER / "sets_worker.py")]
    with namespaces.spread(tmp_path, (3, 2), script, {"FARANDOLE_LOG_LEVEL": "debug"}) as job:
        assert job.wait() == [0, 0], job.report()
    assert sorted(job.lines("] checked 7 rank")) == [f"{rank} of 5" for rank in range(5)], job.report()
    assert chosen(job) == {"hier"}, job.report()
    stderr = "".join(part.stderr for part in job.parts)
    assert re.search(r"process set 1 of 3 members communicates by hier;", stderr), job.report()
    assert re.search(r"process set 2 of 2 members communicates by tcp", stderr), job.report()


# Other ranks have this long from the kill to their end.
END_S = 5.0


def _ended(job: namespaces.SpreadJob, hosts: list[int], timeout_s: float) -> None:
    """Waits until the agents of these hosts have ended."""
    with processes.Stopwatch() as watch:
        while any(job.parts[host].process.poll() is None for host in hosts):
            assert watch.seconds < timeout_s, f"no end within {timeout_s} s\n{job.report()}"
            time.sleep(0.01)


def _told(job: namespaces.SpreadJob, host: int) -> list[str]:
    return [line for line in job.parts[host].stderr.splitlines() if "HorovodInternalError" in line]


def test_killed_worker_of_another_host(tmp_path: Path) -> None:
    script = [str(processes.script_file(tmp_path, job_parts.IN_ALLREDUCE))]
    with namespaces.spread(tmp_path, (2, 2), script) as job:
        pids = dict(line.split() for line in job.wait_for_lines("pid ", 4))
        job.wait_for_lines("warm", 4)
        time.sleep(0.2)
        os.kill(int(pids["3"]), signal.SIGKILL)
        _ended(job, [0, 1], END_S)
        assert all(part.process.returncode != 0 for part in job.parts), job.report()
    culprit = re.compile(rf"rank 3 \(pid {pids['3']} on host host1\).*SIGKILL")
    for host, survivors in ((0, 2), (1, 1)):
        assert len(_told(job, host)) == survivors, job.report()
        assert all(culprit.search(line) for line in _told(job, host)), job.report()


def test_killed_host(tmp_path: Path) -> None:
    script = [str(processes.script_file(tmp_path, job_parts.IN_ALLREDUCE))]
    with namespaces.spread(tmp_path, (2, 2), script) as job:
        job.wait_for_lines("warm", 4)
        time.sleep(0.2)
        job.kill_host(1)
        _ended(job, [0], END_S)
        assert job.parts[0].process.returncode != 0, job.report()
    assert len(_told(job, 0)) == 2, job.report()
    assert all(re.search(r"rank [23] \(pid \d+ on host host1\)", line) for line in _told(job, 0)), job.report()


# The controller gives an agent up after 30 s of silence.
CUT_S = 60.0


def test_cut_link(tmp_path: Path) -> None:
    script = [str(processes.script_file(tmp_path, job_parts.IN_ALLREDUCE))]
    with namespaces.spread(tmp_path, (2, 2), script) as job:
        job.wait_for_lines("warm", 4)
        time.sleep(0.2)
        job.network.cut(1)
        _ended(job, [0], CUT_S)
        assert len(_told(job, 0)) == 2, job.report()
        assert all(re.search(r"ranks 2 and 3 are given up.*host1", line) for line in _told(job, 0)), job.report()
        # Who was cut off learns of it when the link is back.
        job.network.mend(1)
        _ended(job, [1], CUT_S)
        assert job.parts[1].process.returncode != 0, job.report()
    # All that the controller had of the job went with the other host; the reason has stayed.
    assert len(_told(job, 1)) == 2, job.report()
    assert all(re.search(r"ranks 2 and 3 are given up.*host1", line) for line in _told(job, 1)), job.report()
    assert "the job has failed: ranks 2 and 3 are given up" in job.parts[1].stderr, job.report()


def _has_ended(pid: str) -> bool:
    """Also if nobody has taken note of it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_stopped_agent(tmp_path: Path) -> None:
    """Its workers end while it is stopped; it does not blame them for that."""
    script = [str(processes.script_file(tmp_path, job_parts.IN_ALLREDUCE))]
    with namespaces.spread(tmp_path, (1, 1), script) as job:
        pids = dict(line.split() for line in job.wait_for_lines("pid ", 2))
        job.wait_for_lines("warm", 2)
        job.parts[1].process.send_signal(signal.SIGSTOP)
        _ended(job, [0], CUT_S)
        with processes.Stopwatch() as watch:
            while not _has_ended(pids["1"]):
                assert watch.seconds < BOUNDED_S, job.report()
                time.sleep(0.01)
        job.parts[1].process.send_signal(signal.SIGCONT)
        _ended(job, [1], END_S)
        assert job.parts[1].process.returncode != 0, job.report()
    assert re.search(r"rank 1 .*given up.*host1.* silent for 30 s", _told(job, 0)[0]), job.report()
    said = r"farandole-agent: the agent on host host1 was silent for \d+ s, .* Meanwhile rank 1 \(pid "
    assert re.search(said, job.parts[1].stderr), job.report()


# The kernel sends again 0.2, 0.6, 1.4, 3.0, 6.2, 11.2 and 16.2 s after the cut; without our bound the last are 12.6 and
# 25.4 s.
SHORT_CUT_S = 14.0
BACK_S = 9.0
TCP_RTO_MAX_MS = 44


def _bounds_back_off() -> bool:
    """Whether this kernel lets a socket bound TCP's back-off."""
    with socket.socket() as probe:
        try:
            probe.setsockopt(socket.IPPROTO_TCP, TCP_RTO_MAX_MS, 5000)
        except OSError:
            return False
    return True


# All ranks end at the same step, the one after that in which one of them has waited for long.
UNTIL_A_LONG_WAIT = """
        hvd.init()
        tensor = zeros(1 << 18)
        last = time.monotonic()
        for step in range(10**9):
            tensor[0] = float(time.monotonic() - last > 5.0)
            last = time.monotonic()
            hvd.allreduce_(tensor, name="gradient")
            if step == 30:
                print("warm", flush=True)
            if tensor[0] > 0:
                break
        print("back", flush=True)
        """


@pytest.mark.skipif(not _bounds_back_off(), reason="sockets cannot bound TCP's back-off here (Linux can since 6.15)")
def test_a_job_goes_on_soon_after_a_cut(tmp_path: Path) -> None:
    script = [str(processes.script_file(tmp_path, UNTIL_A_LONG_WAIT))]
    with namespaces.spread(tmp_path, (1, 1), script) as job:
        job.wait_for_lines("warm", 2)
        job.network.cut(1)
        time.sleep(SHORT_CUT_S)
        job.network.mend(1)
        with processes.Stopwatch() as watch:
            job.wait_for_lines("back", 2)
        assert watch.seconds < BACK_S, f"{watch.seconds} s\n{job.report()}"
        assert job.wait() == [0, 0], job.report()


# The bound on the collective (4 s), the wait for the controller's verdict (6 s) and for its answer to the leave (5 s),
# and the agent's patience with the other worker (3 s).
BOUNDED_S = 40.0


def test_cut_link_with_a_bound_on_collectives(tmp_path: Path) -> None:
    """Both sides of a replay, which needs no controller, end by themselves, and name who is behind the cut."""
    script = [str(processes.script_file(tmp_path, job_parts.IN_ALLREDUCE))]
    with namespaces.spread(tmp_path, (2, 2), script, {"FARANDOLE_OP_TIMEOUT_SECONDS": "4"}) as job:
        job.wait_for_lines("warm", 4)
        time.sleep(0.2)
        job.network.cut(1)
        _ended(job, [0, 1], BOUNDED_S)
        assert all(part.process.returncode != 0 for part in job.parts), job.report()
    for host, behind in ((0, "[23]"), (1, "[01]")):
        assert len(_told(job, host)) == 2, job.report()
        named = [
            line for line in _told(job, host) if re.search(rf"rank {behind} \(pid \d+ on host host{1 - host}\)", line)
        ]
        assert named, job.report()


NEGOTIATED = """
        hvd.init()
        tensor = ones(100)
        for step in range(10**9):
            hvd.broadcast_(tensor, 0, name="weights")
            if step == 30:
                print("warm", flush=True)
        """


def test_cut_link_while_the_controller_is_needed(tmp_path: Path) -> None:
    """Who is behind the cut ends by itself, too, and says what it cannot reach."""
    script = [str(processes.script_file(tmp_path, NEGOTIATED))]
    with namespaces.spread(tmp_path, (1, 1), script, {"FARANDOLE_CONTROLLER_TIMEOUT_SECONDS": "5"}) as job:
        job.wait_for_lines("warm", 2)
        job.network.cut(1)
        _ended(job, [0, 1], CUT_S)
        assert all(part.process.returncode != 0 for part in job.parts), job.report()
    assert [bool(re.search(r"rank 1 .*given up.*host1", line)) for line in _told(job, 0)] == [True], job.report()
    out_of_reach = r"the controller has been out of reach for \d+ s, and \"broadcast.weights\" has waited for \d+ s"
    assert [bool(re.search(out_of_reach, line)) for line in _told(job, 1)] == [True], job.report()


TCP = {"FARANDOLE_COMMUNICATOR": "tcp", "FARANDOLE_OP_TIMEOUT_SECONDS": "4"}
# What waits for neighbours alone is the hardest to see through.
SCHEDULES = ["direct", "ring"]


def _over_tcp(folder: Path, schedule: str) -> dict[str, str]:
    table = folder / "schedules"
    table.write_text(f"allreduce 0 any 1 any {schedule}\n")
    return {**TCP, "FARANDOLE_SCHEDULE_TABLE": str(table)}


def _blamed(line: str) -> set[str]:
    """The hosts of the ranks that an error is put down to."""
    return set(re.findall(r"because of rank \d+ \(pid \d+ on host (\w+)\)", line))


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_cut_link_over_tcp(tmp_path: Path, schedule: str) -> None:
    """All ranks end, and none blames one that it can reach, though all of them wait."""
    script = [str(processes.script_file(tmp_path, job_parts.IN_ALLREDUCE))]
    with namespaces.spread(tmp_path, (2, 2), script, _over_tcp(tmp_path, schedule)) as job:
        job.wait_for_lines("warm", 4)
        time.sleep(0.2)
        job.network.cut(1)
        _ended(job, [0, 1], BOUNDED_S)
        assert all(part.process.returncode != 0 for part in job.parts), job.report()
    for host, other in ((0, "host1"), (1, "host0")):
        assert len(_told(job, host)) == 2, job.report()
        blamed = [_blamed(line) for line in _told(job, host)]
        assert {other} in blamed and all(hosts <= {other} for hosts in blamed), job.report()
    # There the controller has spoken.
    assert all(_blamed(line) == {"host1"} for line in _told(job, 0)), job.report()


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_link_between_two_hosts_cut_over_tcp(tmp_path: Path, schedule: str) -> None:
    """All ranks reach the controller, so none is to blame."""
    script = [str(processes.script_file(tmp_path, job_parts.IN_ALLREDUCE))]
    with namespaces.spread(tmp_path, (1, 1, 1), script, _over_tcp(tmp_path, schedule)) as job:
        job.wait_for_lines("warm", 3)
        time.sleep(0.2)
        job.network.cut_between([1, 2])
        _ended(job, [0, 1, 2], BOUNDED_S)
        assert all(part.process.returncode != 0 for part in job.parts), job.report()
    told = [line for host in range(3) for line in _told(job, host)]
    assert len(told) == 3, job.report()
    link = re.compile(r"nothing comes through between host (host1 and host host2|host2 and host host1), though")
    assert all(link.search(line) for line in told), job.report()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=["kill", "stop"])
def test_killed_or_stopped_worker_over_tcp(tmp_path: Path, number: signal.Signals) -> None:
    script = [str(processes.script_file(tmp_path, job_parts.IN_ALLREDUCE))]
    with namespaces.spread(tmp_path, (2, 2), script, _over_tcp(tmp_path, "ring")) as job:
        pids = dict(line.split() for line in job.wait_for_lines("pid ", 4))
        job.wait_for_lines("warm", 4)
        time.sleep(0.2)
        os.kill(int(pids["3"]), number)
        _ended(job, [0, 1], END_S if number == signal.SIGKILL else BOUNDED_S)
        assert all(part.process.returncode != 0 for part in job.parts), job.report()
    how = "was killed by signal 9" if number == signal.SIGKILL else "did not send or take data"
    culprit = re.compile(rf"rank 3 \(pid {pids['3']} on host host1\).*{how}")
    for host, survivors in ((0, 2), (1, 1)):
        assert len(_told(job, host)) == survivors, job.report()
        assert all(culprit.search(line) for line in _told(job, host)), job.report()
