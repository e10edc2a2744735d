from __future__ import annotations

import os
import signal
import socket
import sys
from pathlib import Path

import processes
from elastic_jobs import Turn, training


def test_a_killed_worker_and_its_replacement(tmp_path: Path) -> None:
    with training(tmp_path, 3, "--min-np", "2", "--max-np", "3", "-H", "localhost:4") as elastic:
        first = elastic.await_turns(3)
        elastic.await_steps(3)
        os.kill(first[0].pid, signal.SIGKILL)
        second = elastic.await_turns(2)
        assert {turn.pid for turn in second.values()} == {first[1].pid, first[2].pid}
        assert second[0].step == second[1].step == second[0].history >= 20
        # The members go on while the replacement starts, and it gets what they have.
        elastic.await_steps(2)
        third = elastic.await_turns(3)
        assert third[0].pid == second[0].pid and third[1].pid == second[1].pid
        assert third[2].pid not in {turn.pid for turn in first.values()}
        assert third[2].step == third[0].step == third[2].history > second[0].step
        elastic.enough(3)
    assert f" has ended: pid {first[0].pid}, was killed by SIGKILL" in elastic.job.stderr
    assert "the slot is not used again" in elastic.job.stderr


def test_no_process_is_told_the_gpu_of_another(tmp_path: Path) -> None:
    """Scripts choose one once, by the local rank that they have then."""
    ask = """
        users = hvd.allreduce(tensor([float(gpu == i) for i in range(4)]), name="users", op=hvd.Sum)
        assert all(users[i] <= 1 for i in range(4)), [users[i] for i in range(4)]
        assert hvd.local_rank() == gpu or gpu >= hvd.local_size(), (gpu, hvd.local_rank())
    """
    options = ("--min-np", "2", "--max-np", "4", "-H", "localhost:6")
    with training(tmp_path, 4, *options, setup="gpu = hvd.local_rank()", extra=ask.strip()) as elastic:
        for killed in (0, 2):
            members = elastic.await_turns(4)
            elastic.await_steps(4)
            os.kill(members[killed].pid, signal.SIGKILL)
            elastic.await_turns(3)
        elastic.await_turns(4)
        elastic.await_steps(4)
        elastic.enough(4)


def test_fewer_slots_free_the_gpus_behind_them(tmp_path: Path) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text("localhost:4\n")
    options = ("--min-np", "1", "--host-discovery-script", f"cat {hosts}")
    ask = "assert gpu < hvd.local_size(), (gpu, hvd.local_size())"
    with training(tmp_path, 4, *options, setup="gpu = hvd.local_rank()", extra=ask) as elastic:
        elastic.await_turns(4)
        elastic.await_steps(4)
        hosts.write_text("localhost:2\n")
        elastic.await_turns(2)
        elastic.await_steps(2)
        elastic.enough(2)


def test_below_the_least_the_job_ends(tmp_path: Path) -> None:
    with training(tmp_path, 3, "--min-np", "2") as elastic:
        first = elastic.await_turns(3)
        os.kill(first[1].pid, signal.SIGKILL)
        second = elastic.await_turns(2)
        os.kill(second[1].pid, signal.SIGKILL)
        assert elastic.job.wait() == 137
    assert "only 1 of the 2 slots that --min-np needs can still be used" in elastic.job.stderr
    # What waits for others ends when it is told to, not when patience ends.
    assert f"pid {second[0].pid}, was killed by SIGTERM" in elastic.job.stderr


def test_hosts_come_and_go(tmp_path: Path) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text("localhost:2\n")
    options = ("--min-np", "1", "--host-discovery-script", f"cat {hosts}")
    with training(tmp_path, 2, *options) as elastic:
        first = elastic.await_turns(2)
        elastic.await_steps(2)
        hosts.write_text("no such line\n")
        elastic.job.wait_for(lambda: "going on with the hosts that are known" in elastic.job.stderr, "a complaint")
        hosts.write_text("localhost:3\n")
        second = elastic.await_turns(3)
        assert [second[0].pid, second[1].pid] == [first[0].pid, first[1].pid] and second[2].step == second[0].step > 0
        elastic.await_steps(3)
        hosts.write_text("localhost:1\n")
        third = elastic.await_turns(1)
        assert third[0].pid in {first[0].pid, first[1].pid} and third[0].step == third[0].history
        elastic.enough(1)
    assert elastic.job.stderr.count("this worker leaves the job") == 2


def test_all_hosts_are_exchanged(tmp_path: Path) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text("localhost:2\n")
    options = ("--min-np", "2", "--max-np", "2", "--host-discovery-script", f"cat {hosts}")
    with training(tmp_path, 2, *options) as elastic:
        first = elastic.await_turns(2)
        elastic.await_steps(2)
        hosts.write_text("")
        elastic.job.wait_for(lambda: "no slot is left" in elastic.job.stderr, "a word about it")
        elastic.await_steps(2)
        hosts.write_text(f"{socket.gethostname()}:2\n")
        # One of the first two hands the state over.
        olds = {turn.pid for turn in first.values()}

        def others() -> list[Turn]:
            # The last two lines may be of two turns.
            turns = list(elastic.turns(2).values())
            return turns if not olds & {turn.pid for turn in turns} and len({turn.step for turn in turns}) == 1 else []

        last = elastic.job.wait_for(others, "a turn of others")
        assert last[0].step == last[0].history == last[1].history >= 20
        elastic.enough(2)
    assert elastic.job.stderr.count("this worker leaves the job") == 2


# A process that begins while there is a file takes part in the first hand-over of the state only once that has gone.
HELD = """
if os.path.exists("held"):
    sync = state.sync
    def late():
        print("holds", os.getpid(), flush=True)
        while os.path.exists("held"):
            time.sleep(0.05)
        sync()
    state.sync = late
"""


def test_who_was_not_handed_the_state_does_not_hand_it_on(tmp_path: Path) -> None:
    """It stands beside rank 0, on its host, and before the other one that has the state."""
    hosts, held = tmp_path / "hosts", tmp_path / "held"
    hosts.write_text(f"localhost:1\n{socket.gethostname()}:1\n")
    options = ("--min-np", "2", "--host-discovery-script", f"cat {hosts}")
    with training(tmp_path, 2, *options, setup=HELD) as elastic:
        first = elastic.await_turns(2)
        elastic.await_steps(2)
        held.touch()
        hosts.write_text(f"localhost:2\n{socket.gethostname()}:1\n")
        (newcomer,) = elastic.job.wait_for(lambda: elastic.job.lines("holds "), "a newcomer")
        os.kill(first[0].pid, signal.SIGKILL)
        held.unlink()
        # The three that came together in between have not begun a turn.
        elastic.job.wait_for(lambda: len(elastic.job.lines("turn ")) == 4, "a turn of both")
        second = elastic.turns(2)
        assert [second[0].pid, second[1].pid] == [first[1].pid, int(newcomer)]
        assert second[0].step == second[1].step == second[1].history >= 20
        elastic.enough(2)


def test_reset_limit(tmp_path: Path) -> None:
    with training(tmp_path, 3, "--min-np", "1", "--reset-limit", "1") as elastic:
        os.kill(elastic.await_turns(3)[2].pid, signal.SIGKILL)
        os.kill(elastic.await_turns(2)[1].pid, signal.SIGKILL)
        assert elastic.job.wait() == 137
    assert "the processes have changed more than 1 times, the reset limit" in elastic.job.stderr


def test_the_example_with_data_loader_workers(tmp_path: Path) -> None:
    example = str(processes.ROOT / "examples" / "torch_elastic.py")
    options = ("--min-np", "2", "--max-np", "3", "-H", "localhost:4")
    command = [sys.executable, example, "--epochs", "12", "--loader-workers", "2"]
    with processes.running(processes.launch_command(3, *command, options=options), tmp_path) as job:
        job.wait_for(lambda: job.lines("rank 1 of 3, pid "), "training")
        line = job.lines("rank 1 of 3, pid ")[0]
        os.kill(int(line.split(":")[0]), signal.SIGKILL)
        job.wait_for(lambda: job.lines("rank 0 of 2"), "training without it")
        assert job.wait() == 0, job.report()
    (result,) = job.lines("test accuracy ")
    assert float(result.split(",")[0]) > 0.9


def test_who_comes_too_late_is_sent_home(tmp_path: Path) -> None:
    # The third process usually gets to init() when the two others have done all their steps.
    late = "os.path.exists('enough') or open('enough', 'w').close()"
    options = ("--min-np", "2", "--max-np", "3", "-H", "localhost:3")
    with training(tmp_path, 2, *options, extra=late) as elastic:
        assert elastic.job.wait() == 0, elastic.job.report()
    assert len(elastic.job.lines("done ")) >= 2, elastic.job.report()
