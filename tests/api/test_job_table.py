"""The list of jobs of `farandole dashboard`, and the pages below it, without a controller."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.request import urlopen

import job_statuses
import pytest
from streams import Stream

from farandole.launch.dashboard import board, commands, job_table, server
from farandole.launch.dashboard.history import History
from farandole.launch.status import jobs, query

WHERE = "of namespace team at h:1"


@dataclass(frozen=True)
class Target(query.Target):
    """Of a controller that has told the job's name, and tells its status."""

    def get(self, timeout_s: float = 3.0) -> dict:
        if self.job == "away":
            raise query.QueryError(query.NO_ANSWER, "the controller does not answer")
        return {**job_statuses.status(2), "job": self.job}


def made(*names: str) -> list[jobs.Job]:
    return [jobs.Job(Target(name, "h:1", token="x"), None) for name in names]


class Watches:
    """In the place of `farandole dashboard`'s own: each goes on until the test ends it."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self._ends: dict[str, threading.Event] = {}

    def __call__(self, job: jobs.Job, history: History) -> None:
        self.begun.append(job.target.job)
        ends = self._ends.setdefault(job.target.job, threading.Event())
        history.heard({**job_statuses.status(2), "job": job.target.job})
        assert ends.wait(30)
        history.over("note", f"job {job.target.job} is over")

    def end(self, *names: str) -> None:
        for name in names or list(self._ends):
            self._ends.setdefault(name, threading.Event()).set()


@pytest.fixture
def watches() -> Iterator[Watches]:
    found = Watches()
    yield found
    found.end()


@pytest.fixture
def table(watches: Watches) -> job_table.JobTable:
    return job_table.JobTable(WHERE, watches)


def rows(table: job_table.JobTable) -> list[dict]:
    told = table.news(board.Cursor(), 0.0)
    assert told is not None
    return json.loads(told)["jobs"]


def until_over(table: job_table.JobTable, name: str) -> None:
    done = threading.Event()
    for _ in range(1000):
        if name not in table._watched:
            return
        done.wait(0.01)
    raise AssertionError(f"{name} is watched still")


def test_rows_say_what_is_wrong(table: job_table.JobTable) -> None:
    listed = {"job": "b", "state": "JOB_STATE_FAILED", "activity": "ACTIVITY_NONE", "size": 4, "bytesPerSecond": "0"}
    told = jobs.Job(Target("b", "h:1"), None, listed={**listed, "unresponsive": 1, "trouble": "rank 3 was killed"})
    table.heard([*made("a", "away"), told])
    assert [(row["job"], row["state"], row["size"], row["trouble"], row["bad"]) for row in rows(table)] == [
        ("a", "replaying", 2, "", False),
        ("away", "unknown", 0, "the controller does not answer", True),
        ("b", "failed", 4, "1 rank unresponsive; rank 3 was killed", True),
    ]


def test_a_browser_is_told_what_is_new_and_of_an_outage(table: job_table.JobTable) -> None:
    table.heard(made("a"))
    cursor = board.Cursor()
    assert json.loads(table.news(cursor, 0.0))["where"] == WHERE
    assert json.loads(table.news(cursor, 0.0))["jobs"] is None, "it lives, and nothing is new"
    table.lost("nobody answers")
    told = json.loads(table.news(cursor, 0.0))
    assert told["outage"]["text"] == "nobody answers" and [row["job"] for row in told["jobs"]] == ["a"]
    table.heard([])
    assert json.loads(table.news(cursor, 0.0))["outage"] is None
    table.close()
    assert table.news(cursor, 0.0) is None


def test_a_job_is_watched_once_somebody_looks_and_until_it_is_over(table: job_table.JobTable, watches: Watches) -> None:
    table.heard(made("a", "b"))
    assert table.has("a") and not table.has("c") and watches.begun == []
    with table.looking("a") as first, table.looking("a") as second, table.looking("c") as none:
        assert first is second and first is not None and none is None
    with table.looking("a") as third:
        assert third is first, "what was seen of it stays"
        watches.end("a")
        until_over(table, "a")
    assert watches.begun == ["a"]
    table.heard(made("b"))
    assert not table.has("a")


def test_so_many_are_watched_and_who_is_not_looked_at_makes_room(
    table: job_table.JobTable, watches: Watches, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_table, "WATCHED_MAX", 2)
    table.heard(made("a", "b", "c", "d"))
    with table.looking("a") as a, table.looking("b") as b, table.looking("c") as none:
        assert a is not None and b is not None and none is None, "two are looked at"
    with table.looking("a"):
        pass
    with table.looking("c") as c:
        assert c is not None and b.closed and not a.closed, "nobody has looked at b for longest"
        with table.looking("d") as d:
            assert d is not None and a.closed
            # Of b and a the threads are there still: no more than twice as many as may be watched.
            assert table._threads == 4
    with table.looking("a") as none:
        assert none is None
    watches.end("b")
    for _ in range(1000):
        if table._threads == 3:
            break
        threading.Event().wait(0.01)
    with table.looking("a") as again:
        assert again is not None and again is not a


@pytest.fixture
def served(table: job_table.JobTable) -> Iterator[server.Server]:
    table.heard(made("team.a", "team.b"))
    serving = server.Server(("127.0.0.1", 0), table)
    end = server.serving(serving)
    yield serving
    end()


def test_pages_below_the_list(served: server.Server, watches: Watches) -> None:
    assert b"jobs.js" in urlopen(served.url, timeout=10).read()
    for name, words in (("", b"page.js"), ("page.js", b"listen"), ("icon.svg", b"svg")):
        assert words in urlopen(f"{served.url}team.a/{name}", timeout=10).read()
    assert watches.begun == [], "a page alone asks for nothing"
    listing, page = Stream(served.url), Stream(f"{served.url}team.a/")
    assert [row["job"] for row in listing.until(lambda told: told["jobs"])["jobs"]] == ["team.a", "team.b"]
    told = page.until(lambda told: told["status"])
    assert told["job"] == "team.a" and told["amongOthers"] and watches.begun == ["team.a"]
    assert served.browsers == 2
    for path in ("team.c/", "team.c/events", "team.a/x/", "team.a/x/events", "team.a/nothing", "../team.a/"):
        with pytest.raises(OSError, match="404|403"):
            urlopen(served.url + path, timeout=10)
    watches.end("team.a")
    assert page.until(lambda told: told["end"])["end"] == "job team.a is over"
    listing.close()
    page.close()


def test_a_list_is_made_again_or_lost(table: job_table.JobTable) -> None:
    commands._list_again(table, lambda: made("x"))
    assert [row["job"] for row in rows(table)] == ["x"]

    def gone() -> list[jobs.Job]:
        raise query.QueryError(query.NO_ANSWER, "the controller at h:1 does not answer")

    commands._list_again(table, gone)
    told = json.loads(table.news(board.Cursor(), 0.0))
    assert told["outage"]["text"] == "the controller at h:1 does not answer" and len(told["jobs"]) == 1
