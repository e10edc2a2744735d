"""The list of jobs of `farandole dashboard`, and the pages below it, without a controller."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.request import urlopen

import job_statuses
import pytest
from streams import Stream

from farandole.launch.dashboard import board, commands, job_table, server
from farandole.launch.dashboard.history import History
from farandole.launch.status import job_files, jobs, query

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
    thread = table._watched[name].thread
    assert thread is not None
    thread.join(30)
    assert not thread.is_alive(), f"{name} is watched still"


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
    watches.end("a")
    until_over(table, "a")
    table.heard(made("b"))
    with table.looking("a") as third:
        assert third is first, "what was seen of it stays"
    assert table.has("a") and watches.begun == ["a"]


def test_a_job_that_runs_again_is_watched_again(table: job_table.JobTable, watches: Watches) -> None:
    table.heard(made("a"))
    with table.looking("a") as first:
        pass
    watches.end("a")
    until_over(table, "a")
    # The list may have been asked for before the end.
    table.heard(made("a"))
    with table.looking("a") as still:
        assert still is first
    table.heard(made("a"))
    with table.looking("a") as again:
        assert again is not first and again is not None and first.closed
    assert watches.begun == ["a", "a"]


@pytest.mark.parametrize("code", [query.NO_ANSWER, query.NO_JOB])
def test_nobody_is_asked_for_a_board_that_is_closed(code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also while the controller does not answer, or knows nothing of the job."""
    asked = threading.Event()

    @dataclass(frozen=True)
    class Away(Target):
        def watch(self, per_second: int, timeout_s: float = 3.0) -> Iterator[dict]:
            asked.set()
            raise query.QueryError(code, "not there")
            yield

    for name in ("AGAIN_S", "WITHOUT_AGENT_AGAIN_S"):
        monkeypatch.setattr(jobs, name, 0.01)
    file = job_files.JobFile("a", "h:1", "x", os.getpid(), job_files.start_of(os.getpid()), 1, ())
    monkeypatch.setattr(job_files.JobFile, "over", lambda self: False)
    table = job_table.JobTable(WHERE, commands._watch)
    table.heard([jobs.Job(Away("a", "h:1", token="x"), file)])
    with table.looking("a"):
        assert asked.wait(30)
    table.close()
    assert table._threads == 0


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
    watches.end("c")
    until_over(table, "c")
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
    assert urlopen(f"{served.url}team.a", timeout=10).url == f"{served.url}team.a/"
    for path in ("team.c/", "team.c/events", "team.a/x/", "team.a/x/events", "team.a/nothing", "../team.a/"):
        with pytest.raises(OSError, match="404|403"):
            urlopen(served.url + path, timeout=10)
    watches.end("team.a")
    assert page.until(lambda told: told["end"])["end"] == "job team.a is over"
    listing.close()
    page.close()


def test_who_comes_after_a_while_does_not_read_that_the_list_is_old(table: job_table.JobTable) -> None:
    asked = []

    def find() -> list[jobs.Job]:
        asked.append(json.loads(table.news(board.Cursor(), 0.0))["asked"])
        return made("a")

    table.fill(lambda: made("b"))
    # A browser looks, and that is a reason to ask at once.
    assert [row["job"] for row in rows(table)] == ["b"]
    table.wait(30)
    table.fill(find)
    (since,) = asked
    told = json.loads(table.news(board.Cursor(), 0.0))
    assert since is not None and told["asked"] is None and [row["job"] for row in told["jobs"]] == ["a"]


def test_a_browser_too_many_begins_nothing(
    served: server.Server, watches: Watches, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "BROWSERS_MAX", 1)
    listing = Stream(served.url)
    listing.until(lambda told: told["jobs"])
    assert Stream(f"{served.url}team.a/").code == 503 and watches.begun == []
    listing.close()


def test_a_list_is_made_again_or_lost(table: job_table.JobTable) -> None:
    table.fill(lambda: made("x"))
    assert [row["job"] for row in rows(table)] == ["x"]

    def gone() -> list[jobs.Job]:
        raise query.QueryError(query.NO_ANSWER, "the controller at h:1 does not answer")

    table.fill(gone)
    told = json.loads(table.news(board.Cursor(), 0.0))
    assert told["outage"]["text"] == "the controller at h:1 does not answer" and len(told["jobs"]) == 1
