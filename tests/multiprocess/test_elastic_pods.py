"""Pods of an elastic job come and go without a launcher: the controller decides who is a member, the agent of each pod
has its processes leave, and whoever makes pods learns from exit codes. Here pods are plain processes on one host."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import elastic_jobs
import processes
import pytest
from elastic_jobs import Turn
from pod_parts import JOB, KEY, controller, last_words, secret
from processes import Job

from farandole.base import locate
from farandole.launch.processes import tokens

RETRIED = os.EX_TEMPFAIL


def runs(pid: int) -> bool:
    """Whether there is such a process that has not ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class Pods:
    """Those of one elastic job, from 1 rank on; each goes on until the file `enough` is there."""

    def __init__(self, folder: Path, address: str, stack: ExitStack, first: str, last: str) -> None:
        self._folder, self.address, self._stack = folder, address, stack
        train = elastic_jobs.TRAIN.replace("EXTRA", "pass").replace('"enough")', f'"{folder}/enough")')
        self._script = processes.script_file(folder, f"{first}\n{train}\n{last}\n")
        self.token = secret(folder / "token", tokens.member_token(KEY, JOB))
        self.all: list[Job] = []

    def add(
        self, size: int, *options: str, slots: int = 1, run: str = "uid-1", extra: str = "", after: str = ""
    ) -> Job:
        """With `after` the script is no process of the agent's, but of a shell that does this when it has ended."""
        command = [locate.find("farandole-agent"), "--pod", "--job", JOB, "--controller", self.address]
        command += ["--token-file", str(self.token), "--size", str(size), "--min-size", "1", "--run", run]
        command += ["--host-name", f"pod{len(self.all)}", "--local-size", str(slots), "--prefix-output", *options, "--"]
        command += ["sh", "-c", f'{extra} exec "$@"', "sh"] if extra else []
        command += ["sh", "-c", f'"$@" && {after}', "sh"] if after else []
        place = self._folder / f"pod{len(self.all)}"
        place.mkdir()
        self.all.append(
            self._stack.enter_context(processes.running([*command, sys.executable, str(self._script)], place))
        )
        return self.all[-1]

    def lines(self, mark: str) -> list[str]:
        return [line for job in self.all for line in job.lines(f"] {mark}")]

    def await_turns(self, size: int) -> dict[int, Turn]:
        """Waits until the newest turns are those of so many members."""

        def turns() -> dict[int, Turn]:
            newest = {turn.pid: turn for turn in map(Turn, self.lines("turn "))}
            alive = {turn.rank: turn for turn in newest.values() if runs(turn.pid)}
            return alive if len(alive) == size and all(turn.size == size for turn in alive.values()) else {}

        return self.all[0].wait_for(turns, f"a turn of {size}")

    def await_steps(self) -> None:
        seen = len(self.lines("step "))
        self.all[0].wait_for(lambda: len(self.lines("step ")) > seen + 2, "some more steps")

    def enough(self) -> None:
        (self._folder / "enough").touch()

    def report(self) -> str:
        return "\n".join(job.report() for job in self.all)


@contextmanager
def training(folder: Path, first: str = "", last: str = "") -> Iterator[Pods]:
    """The script begins and ends with these lines."""
    with controller(folder) as address, ExitStack() as stack:
        yield Pods(folder, address, stack, first, last)


def test_pods_come_and_go(tmp_path: Path) -> None:
    with training(tmp_path) as pods:
        first, second = pods.add(2), pods.add(2)
        before = pods.await_turns(2)
        third = pods.add(2)
        grown = pods.await_turns(3)
        assert {turn.pid for turn in before.values()} == {grown[0].pid, grown[1].pid}, "members keep their processes"
        assert grown[2].history == grown[0].history > 0, "the new one has the state"
        second.process.send_signal(signal.SIGTERM)
        assert second.wait() == RETRIED, second.report()
        assert "asked to end: the processes of this host leave the job at their next commit" in second.stderr
        assert "its place in the job was taken away" in second.stderr
        assert "going back to the last commit" not in first.stderr, "nothing was lost"
        pods.await_turns(2)
        pods.enough()
        assert (first.wait(), third.wait()) == (0, 0), pods.report()
        assert len(pods.lines("done ")) == 2


def test_a_killed_pod_is_missed_at_once(tmp_path: Path) -> None:
    """Nobody tells how its processes ended; that its agent and its worker are both out of reach says enough."""
    with training(tmp_path) as pods:
        for _ in range(3):
            pods.add(3)
        pods.await_turns(3)
        pods.await_steps()
        started = time.monotonic()
        pods.all[1].process.kill()
        pods.await_turns(2)
        took_s = time.monotonic() - started
        print(f"from the end of a pod to the next turn of the others: {took_s:.2f} s")
        assert took_s < 5, "it would take 30 s if only silence told"
        assert "and its workers end with it" in pods.all[0].stderr, pods.report()
        pods.add(3)
        pods.await_turns(3)
        pods.enough()
        assert [job.wait() for job in pods.all] == [0, -signal.SIGKILL, 0, 0], pods.report()


def test_when_a_process_fails_its_pod_leaves(tmp_path: Path) -> None:
    """A pod is what is made anew: one that lacks a process does not stay."""
    with training(tmp_path) as pods:
        pods.add(4, slots=2)
        failing = pods.add(4, slots=2)
        pods.await_turns(4)
        victim = next(int(line.split()[2]) for line in failing.lines("] turn "))
        os.kill(victim, signal.SIGKILL)
        assert failing.wait() == 128 + signal.SIGKILL, failing.report()
        assert f"(pid {victim} on host pod1) failed first: it was killed by signal 9 (SIGKILL)" in failing.stderr
        pods.await_turns(2)
        pods.enough()
        assert pods.all[0].wait() == 0, pods.report()


def test_a_script_that_fails_tells_its_code(tmp_path: Path) -> None:
    with training(tmp_path) as pods:
        pods.add(1)
        pods.await_turns(1)
        assert pods.add(1, extra="exit 3;").wait() == 3
        pods.enough()
        assert pods.all[0].wait() == 0, pods.report()


def test_nobody_joins_a_run_that_is_finished(tmp_path: Path) -> None:
    """A pod that comes after the end has nothing to do. The next run of the job begins anew."""
    with training(tmp_path) as pods:
        member = pods.add(1)
        pods.await_turns(1)
        pods.enough()
        assert member.wait() == 0, pods.report()
        late = pods.add(1)
        assert late.wait() == 0, pods.report()
        assert late.lines("] turn ") == [] and "the job is over: pid " in late.stderr, pods.report()
        assert pods.add(1, run="uid-2").wait() == 0
        assert pods.all[-1].lines("] turn ")[0].split()[3] == "0", "from the beginning"


def test_who_waits_to_join_ends_when_the_others_finish(tmp_path: Path) -> None:
    """There is room for one only."""
    with training(tmp_path) as pods:
        member = pods.add(1, "--max-size", "1")
        pods.await_turns(1)
        waits = pods.add(1, "--max-size", "1")
        waits.wait_for(lambda: "waits" in status(pods), "its init()")
        pods.enough()
        assert (member.wait(), waits.wait()) == (0, 0), pods.report()
        assert waits.lines("] turn ") == [] and "the job is over: pid " in waits.stderr, pods.report()


def status(pods: Pods) -> str:
    """What the controller says of those that wait."""
    command = [locate.find("farandole-controller"), "query", "--controller", pods.address, "--job", JOB]
    done = subprocess.run([*command, "--token-file", str(pods.token)], capture_output=True, text=True)
    waits = [wait["text"] for wait in json.loads(done.stdout or "{}").get("waits", ())]
    return " ".join(waits).replace("has waited in init()", "waits")


def test_a_run_waits_for_the_end_of_the_one_before(tmp_path: Path) -> None:
    """A Job that is deleted and made again: its pods must not be handed the state of the old one."""
    with training(tmp_path) as pods:
        pods.add(1, "--leave-seconds", "4")
        pods.await_turns(1)
        pods.all[0].process.send_signal(signal.SIGTERM)
        again = pods.add(1, run="uid-2")
        again.wait_for(lambda: "of another run of this job" in status(pods), "its init()")
        assert pods.all[0].wait() == RETRIED, pods.report()
        again.wait_for(lambda: again.lines("] turn "), "a turn")
        assert again.lines("] turn ")[0].split()[3] == "0", "from the beginning"
        pods.enough()
        assert again.wait() == 0, pods.report()


def test_who_finishes_after_it_was_asked_to_leave_has_finished(tmp_path: Path) -> None:
    """As when rank 0 writes the model, while its node is drained."""
    with training(tmp_path) as pods:
        member = pods.add(1, after="sleep 1")
        pods.await_turns(1)
        pods.enough()
        member.wait_for(lambda: pods.lines("done "), "the end of the training")
        member.process.send_signal(signal.SIGTERM)
        assert member.wait() == 0, pods.report()
        late = pods.add(1)
        assert late.wait() == 0 and late.lines("] turn ") == [], pods.report()


def test_who_finishes_while_another_one_is_killed_has_finished(tmp_path: Path) -> None:
    """Its leaving has no end, since that of a replay wants all of its ranks."""
    stops = "if hvd.rank() == 0:\n    os.kill(os.getpid(), signal.SIGSTOP)"
    with training(tmp_path, last=f"import signal\n{stops}") as pods:
        for _ in range(2):
            pods.add(2)
        members = pods.await_turns(2)
        pods.await_steps()
        pods.enough()
        pods.all[0].wait_for(lambda: len(pods.lines("done ")) == 2, "the end of the training")
        stopped = Path(f"/proc/{members[0].pid}/stat")
        pods.all[0].wait_for(lambda: stopped.read_text().rpartition(")")[2].split()[0] == "T", "rank 0 to be stopped")
        os.kill(members[0].pid, signal.SIGKILL)
        assert sorted(job.wait() for job in pods.all) == [0, 128 + signal.SIGKILL], pods.report()
        late = pods.add(2)
        assert late.wait() == 0 and late.lines("] turn ") == [], pods.report()


def test_a_shell_whose_end_is_noticed_before_that_of_its_script(tmp_path: Path) -> None:
    """Both end while the agent is stopped, which then collects its own children first."""
    with training(tmp_path, last='hvd.shutdown(); print("left", flush=True); time.sleep(1)') as pods:
        member = pods.add(1, after="true")
        pods.await_turns(1)
        pods.enough()
        member.wait_for(lambda: pods.lines("left"), "the end of the training")
        member.process.send_signal(signal.SIGSTOP)
        time.sleep(2)
        member.process.send_signal(signal.SIGCONT)
        assert member.wait() == 0, pods.report()
        late = pods.add(1)
        assert late.wait() == 0 and late.lines("] turn ") == [], pods.report()


@pytest.mark.parametrize("code", [0, 3])
def test_a_script_that_a_shell_has_started(tmp_path: Path, code: int) -> None:
    """Its processes are not the agent's own: they leave all the same, and the shell's end is what counts."""
    with training(tmp_path) as pods:
        pods.add(2)
        wrapped = pods.add(2, after="true")
        pods.await_turns(2)
        asked = time.monotonic()
        wrapped.process.send_signal(signal.SIGTERM)
        assert wrapped.wait() == RETRIED and time.monotonic() - asked < 10, pods.report()
        last = pods.add(2, after=f"exit {code}")
        pods.await_turns(2)
        pods.all[0].process.send_signal(signal.SIGTERM)
        assert pods.all[0].wait() == RETRIED, pods.report()
        pods.enough()
        assert last.wait() == code, pods.report()
        late = pods.add(1)
        assert late.wait() == 0, pods.report()
        assert (late.lines("] turn ") == []) == (code == 0), "it has finished, or somebody has to try again"


@pytest.mark.parametrize("before", ["", "import signal; signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))"])
def test_pods_that_are_all_asked_to_leave_have_a_bound(tmp_path: Path, before: str) -> None:
    """They keep the state as long as they may, in case others come for it. A script that ends well when it is told to
    end has not finished."""
    with training(tmp_path, before) as pods:
        for _ in range(2):
            pods.add(2, "--leave-seconds", "3")
        pods.await_turns(2)
        for job in pods.all:
            job.process.send_signal(signal.SIGTERM)
        asked = time.monotonic()
        assert [job.wait() for job in pods.all] == [RETRIED, RETRIED], pods.report()
        assert time.monotonic() - asked > 2.5, pods.report()


def test_pods_that_are_all_replaced_hand_their_state_on(tmp_path: Path) -> None:
    with training(tmp_path) as pods:
        pods.add(1)
        before = pods.await_turns(1)
        pods.all[0].process.send_signal(signal.SIGTERM)
        pods.add(1)
        assert pods.all[0].wait() == RETRIED, pods.report()
        after = pods.await_turns(1)
        assert after[0].pid != before[0].pid
        assert after[0].history == after[0].step > 0, "it goes on from the other's state"
        pods.enough()
        assert pods.all[1].wait() == 0, pods.report()


def test_a_second_signal_does_not_wait(tmp_path: Path) -> None:
    with training(tmp_path) as pods:
        job = pods.add(1)
        pods.await_turns(1)
        (worker,) = [pid for pid in processes.marked(job.mark) if "script" in last_words(pid)]
        asked = time.monotonic()
        job.process.send_signal(signal.SIGTERM)
        job.wait_for(lambda: "asked to end" in job.stderr, "its sentence")
        job.process.send_signal(signal.SIGTERM)
        assert job.wait() in (RETRIED, 128 + signal.SIGTERM), job.report()
        assert time.monotonic() - asked < 5, "--leave-seconds is 25"
        assert not os.path.exists(f"/proc/{worker}")
