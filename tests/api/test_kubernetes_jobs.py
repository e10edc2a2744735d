"""What `farandole kubernetes run` makes of what a cluster says, without one; tests/with_kubernetes has one."""

from __future__ import annotations

import argparse
import threading
import time
from collections.abc import Iterator
from datetime import datetime, timezone
from types import SimpleNamespace as Object
from typing import Any

import pytest

from farandole.launch.kubernetes import commands, output, run
from farandole.launch.kubernetes.cluster import INDEX, ClusterError, End, Lines
from farandole.launch.kubernetes.manifests import JobSpec, job
from farandole.launch.status import jobs, query

SPEC = JobSpec(name="j", image="i", command=("a",), processes=2)
ELASTIC = JobSpec(name="j", image="i", command=("a",), processes=4, slots=2, least=4, most=8)


def pod(name: str, index: int, phase: str, *ends: tuple[str, int, int]) -> Any:
    """With containers that ended: name, exit code, second."""
    states = []
    for container, code, second in ends:
        end = Object(exit_code=code, finished_at=datetime.fromtimestamp(second, timezone.utc), reason="", message="")
        states.append(Object(name=container, state=Object(terminated=end, waiting=None)))
    about = Object(name=name, annotations={INDEX: str(index)}, labels={})
    return Object(metadata=about, status=Object(phase=phase, conditions=[], container_statuses=states))


class Stand:
    """A cluster that says what it is told to: each look the next of `looks`, an error or pods, the last one for
    ever."""

    def __init__(self, *looks: Any) -> None:
        self.looks = list(looks)
        self.asked = 0
        self.ended = ""
        self.controller = [pod("c", 0, "Running")]
        self.logs: list[Any] = []
        self.since: list[int | None] = []

    def job(self, name: str) -> Any:
        self.asked += 1
        assert self.asked < 500, "the job is watched for ever"
        look = self.looks[0]
        if isinstance(look, ClusterError):
            self.looks.pop(0)
            raise look
        over = [Object(type=self.ended, status="True", reason="r", message="m")] if self.ended else []
        return Object(status=Object(conditions=over if len(self.looks) == 1 else []))

    def pods(self, name: str, role: str) -> list[Any]:
        if role == "controller":
            return self.controller
        return self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]

    def complaints(self, name: str, kind: str) -> list[str]:
        return []

    def log(self, name: str, follow: bool, since: int | None) -> Iterator[tuple[str, bytes]]:
        self.since.append(since)
        lines = self.logs.pop(0) if self.logs else []
        if isinstance(lines, ClusterError):
            raise lines
        yield from lines


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in ((run, "START_LOOK_S"), (run, "LOOK_S"), (output, "AGAIN_S")):
        monkeypatch.setattr(module, name, 0.01)


def watch(cluster: Stand, timeout_s: float = 5.0, spec: JobSpec = SPEC) -> int:
    return run.Run(cluster, spec, timeout_s).watch()  # type: ignore[arg-type]


RUNNING = [pod("j-0", 0, "Running"), pod("j-1", 1, "Running")]


def test_a_cluster_that_is_away_for_a_moment_is_asked_on(capsys: pytest.CaptureFixture[str]) -> None:
    away = ClusterError("Service Unavailable", 503)
    cluster = Stand(RUNNING, away, away, RUNNING)
    cluster.ended = "Complete"
    assert watch(cluster) == 0
    assert capsys.readouterr().err.count("the cluster does not answer, asking on: Service Unavailable") == 1


def test_who_may_not_ask_any_more_learns_so() -> None:
    with pytest.raises(ClusterError):
        watch(Stand(RUNNING, ClusterError("Unauthorized", 401), RUNNING))


@pytest.mark.parametrize("others", [[pod("j-0-b", 0, "Running"), pod("j-1", 1, "Pending")], [pod("j-1", 1, "Running")]])
def test_a_failed_pod_and_its_successor_are_no_two_that_run(
    others: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert watch(Stand([pod("j-0-a", 0, "Failed"), *others]), 0.1) == 1
    assert "1 of 2 pods run" in capsys.readouterr().err


def test_more_pods_than_ranks_need_are_enough() -> None:
    cluster = Stand([pod("j-0-a", 0, "Failed"), pod("j-0-b", 0, "Running"), pod("j-1", 1, "Running")], RUNNING)
    cluster.ended = "Complete"
    assert watch(cluster) == 0


def test_the_controller_is_waited_for() -> None:
    cluster = Stand(RUNNING)
    cluster.controller = [pod("c", 0, "Pending")]
    assert watch(cluster, 0.1) == 1


@pytest.mark.parametrize(
    ("ends", "name", "code"),
    [
        # A script's own code, whoever was first; the first of two; a killed one before those that end because of it.
        ([("script", 75, 1), ("script", 7, 2)], "j-1", 7),
        ([("script", 3, 2), ("script", 4, 1)], "j-1", 4),
        ([("script", 75, 1), ("script", 137, 2)], "j-1", 137),
        # What stands beside the script says nothing of it.
        ([("sidecar", 9, 1), ("script", 5, 2)], "j-1", 5),
    ],
)
def test_who_is_at_fault(
    ends: list[tuple[str, int, int]], name: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = Stand(RUNNING, [pod(f"j-{i}", i, "Failed", end) for i, end in enumerate(ends)])
    cluster.ended = "Failed"
    assert watch(cluster) == code
    assert f"pod {name} ended with code {code}" in capsys.readouterr().err


@pytest.mark.parametrize("least, code", [(1, 0), (2, 1)])
def test_an_elastic_job_begins_with_as_many_as_it_needs(
    least: int, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    some = [pod("j-0", 0, "Running"), pod("j-1", 1, "Pending"), pod("j-2", 2, "Pending")]
    cluster = Stand(*[some] * 50, some)
    cluster.ended = "Complete"
    assert watch(cluster, 0.1, JobSpec(name="j", image="i", command=("a",), processes=3, least=least)) == code
    assert ("not enough pods ran within 0.1 s" in capsys.readouterr().err) == bool(code)


def test_lines_that_break_off_are_taken_up_where_they_were(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    cluster = Stand(RUNNING)
    cluster.logs = [
        [("1", b"a\n"), ("1", b"b\n")],
        ClusterError("not now", 500),
        [("1", b"b\n"), ("2", b"c\n")],
    ]
    shown = output.Output(cluster, follow=True)  # type: ignore[arg-type]
    shown.follow("j-0", over=False)
    end = time.monotonic() + 5
    while cluster.logs and time.monotonic() < end:
        time.sleep(0.01)
    shown.follow("j-0", over=True)
    shown.end(5.0)
    printed = capfdbinary.readouterr()
    assert printed.out == b"a\nb\nc\n"
    assert printed.err.count(b"the lines of pod j-0 broke off") == 1
    assert cluster.since[0] is None and all(since is not None for since in cluster.since[1:])


class Logs(Stand):
    """Each pod prints its name; those that are `held` go on until they are let go."""

    def __init__(self) -> None:
        super().__init__(RUNNING)
        self.held: dict[str, threading.Event] = {}

    def log(self, name: str, follow: bool, since: int | None) -> Iterator[tuple[str, bytes]]:
        yield "1", f"{name}\n".encode()
        if name in self.held:
            assert self.held[name].wait(10)


def test_a_job_that_has_had_many_pods_is_read_on(
    monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.setattr(output, "FOLLOWED_MAX", 2)
    cluster = Logs()
    shown = output.Output(cluster, follow=True)  # type: ignore[arg-type]
    for number in range(10):
        shown.follow(f"j-{number}", over=True)
        shown.end(5.0)
        shown.forget({f"j-{number}"})
        # That it is still there is no reason to show it again, or to keep others.
        shown.follow(f"j-{number}", over=True)
        assert set(shown._threads) == shown._over == {f"j-{number}"}
    cluster.held = {"a": threading.Event(), "b": threading.Event()}
    for pod in ("a", "b", "late", "later"):
        shown.follow(pod, over=True)
    cluster.held["a"].set()
    shown._threads["a"].join(10)
    shown.forget({"b", "late"})
    shown.follow("late", over=True)
    cluster.held["b"].set()
    shown.end(5.0)
    shown.forget(set())
    assert not shown._threads and not shown._over
    printed = capfdbinary.readouterr()
    assert sorted(printed.out.split()) == sorted([b"a", b"b", b"late", *(f"j-{n}".encode() for n in range(10))])
    assert printed.err.count(b"2 pods are read at a time") == 1


@pytest.mark.parametrize(
    ("ends", "code"),
    [
        # While it writes the model after others had ended; not long before the first of them.
        ([("j-0", 0, 200), ("j-1", 7, 230)], 7),
        ([("j-1", 7, 141), ("j-0", 0, 200)], 7),
        # Made good by others, also if that of another one was not.
        ([("j-1", 7, 140), ("j-0", 0, 200)], 0),
        ([("j-1", 7, 100), ("j-2", 9, 190), ("j-0", 0, 200), ("j-3", 0, 300)], 9),
        # Left, or killed when the job was over.
        ([("j-0", 0, 200), ("j-1", 75, 201), ("j-2", 137, 202), ("j-3", 143, 203)], 0),
    ],
)
def test_an_elastic_job_whose_script_failed_at_the_end_has_failed(
    ends: list[tuple[str, int, int]], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    # Each pod is gone at the next look.
    looks = [[*RUNNING, pod(name, 0, "Failed" if c else "Succeeded", ("script", c, at))] for name, c, at in ends]
    cluster = Stand(RUNNING, *looks, RUNNING)
    cluster.ended = "Complete"
    assert watch(cluster, spec=ELASTIC) == code
    said = [line for line in capsys.readouterr().err.splitlines() if "is complete, but" in line]
    assert [f"ended with code {code}" in line for line in said] == [True] * bool(code)


def test_what_is_kept_of_pods_that_ended_does_not_grow() -> None:
    ends = run.Ends()
    for number in range(1000):
        ends.add(f"j-{number}", End(number, (75, 137, 7, 0)[number % 4], ""))
    assert [one and one.pod for one in vars(ends).values()] == ["j-2", "j-998", "j-3"]


def test_an_elastic_job_says_why_it_waits_and_that_it_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    def pending(why: str) -> Any:
        found = pod("j-2", 1, "Pending")
        found.status.conditions = [Object(type="PodScheduled", status="False", reason="Unschedulable", message=why)]
        return found

    few, fewer = [RUNNING[0], pending("no GPU")], [RUNNING[0], pending("no memory")]
    done = [pod("j-0", 0, "Succeeded", ("script", 0, 1))]
    cluster = Stand(RUNNING, few, few, few, fewer, RUNNING, RUNNING, few, RUNNING, done, done)
    cluster.ended = "Complete"
    assert watch(cluster, spec=ELASTIC) == 0
    waits = "farandole kubernetes: 2 processes run, the job waits until --min-np 4 do; j-2: Unschedulable: "
    again = "farandole kubernetes: 4 processes run again"
    said = capsys.readouterr().err.splitlines()
    assert said[0].endswith("2 of 2 pods run")
    assert said[1:] == [waits + "no GPU", waits + "no memory", again, waits + "no GPU", again]


@pytest.mark.parametrize(
    ("processes", "complaint"),
    [
        (2, "-np 2 is below --min-np 4, with which job j was started"),
        (10, "-np 10 is above --max-np 8, with which job j was started"),
        (5, "-np 5 processes cannot be divided into the job's pods of 2"),
        (4, ""),
        (8, ""),
    ],
)
def test_a_job_is_scaled_within_its_bounds(
    processes: int, complaint: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = job(ELASTIC)
    scaled: list[tuple[str, int]] = []
    found = Object(spec=Object(completions=None), metadata=Object(annotations=made["metadata"]["annotations"]))
    cluster = Object(job=lambda name: found, scale=lambda name, pods: scaled.append((name, pods)))
    monkeypatch.setattr(commands, "Cluster", lambda namespace, context: cluster)
    asked = argparse.Namespace(action="scale", namespace="", context="", name="j", processes=processes)
    assert commands.start(asked) == (2 if complaint else 0)
    assert complaint in capsys.readouterr().err and scaled == ([] if complaint else [("j", processes // 2)])


def test_lines_of_a_log() -> None:
    lines = Lines()
    first = list(lines.take(b"2026-11-25T10:00:00.5Z one\nrpc error: not found\n2026-11-25T10:00:00.51Z t"))
    second = list(lines.take(b"wo\n"))
    assert [text for _, text in first + second] == [b"one\n", b"two\n"]
    assert first[0][0] < second[0][0]
    long = list(lines.take(b"2026-11-25T10:00:01+01:00 " + b"x" * (65 << 10)))
    rest = list(lines.take(b"rpc error\n"))
    assert b"".join(text for _, text in long + rest) == b"x" * (65 << 10) + b"rpc error\n"
    assert long[0][0] == rest[0][0] > second[0][0]


class Printing(Stand):
    """Each pod prints its name, once."""

    def log(self, name: str, follow: bool, since: int | None) -> Iterator[tuple[str, bytes]]:
        yield "1", f"{name}\n".encode()


def test_logs_follow_pods_that_come_later(
    monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    later = [*RUNNING, pod("j-2", 2, "Running"), pod("j-3", 3, "Pending")]
    cluster = Printing(RUNNING, ClusterError("not now", 503), later, [pod("j-2", 2, "Succeeded")])
    cluster.ended = "Complete"
    monkeypatch.setattr(commands, "Cluster", lambda *_: cluster)
    monkeypatch.setattr(commands, "LOOK_S", 0.01)
    asked = argparse.Namespace(action="logs", namespace="", context="", name="j", follow=True)
    assert commands.start(asked) == 0
    printed = capfdbinary.readouterr().out.decode().split()
    assert set(printed) == {"j-0", "j-1", "j-2"} and printed.count("j-2") == 1


class Asked(jobs.Job):
    """Its controller answers what it is told to: errors, then statuses."""

    def __init__(self, *errors: query.QueryError) -> None:
        super().__init__(query.Target("j", "h:1"), None)
        self.errors = list(errors)

    def get(self) -> dict[str, Any]:
        if self.errors:
            raise self.errors.pop(0)
        return {}


def test_a_page_waits_for_the_first_pod(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(commands, "LOOK_S", 0.001)
    absent = query.QueryError(query.NO_JOB, "no agent of job j has connected")
    silent = query.QueryError(query.NO_ANSWER, "it does not answer")
    asked = Asked(silent, absent, absent)
    assert commands._begun(Stand(RUNNING), "j", asked) is asked and not asked.errors
    waits = "job j: waits for its first pod, as long as Kubernetes does; `status j` says why"
    assert capsys.readouterr().err == f"farandole kubernetes: {waits}\n"
    ended = Stand(RUNNING)
    ended.ended = "Failed"
    with pytest.raises(query.QueryError, match="no agent"):
        commands._begun(ended, "j", Asked(absent, absent))
    with pytest.raises(query.QueryError, match="token"):
        commands._begun(Stand(RUNNING), "j", Asked(query.QueryError(query.REFUSED, "the token is wrong")))
