"""What `farandole dashboard` tells a browser, and whom it refuses, without a job."""

from __future__ import annotations

import json
import re
import select
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path

import job_statuses
import processes
import pytest
from streams import Stream

from farandole.launch.dashboard import board, commands, events, history, server
from farandole.launch.status import jobs, query

COMMAND = [sys.executable, "-m", "farandole", "dashboard"]


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def news(seen: history.History, cursor: board.Cursor) -> dict:
    return json.loads(seen.news(cursor, 0.0))


def changed(status: dict, rank: int, **fields: object) -> dict:
    members = [{**m, **fields} if m["member"]["rank"] == rank else m for m in status["members"]]
    return {**status, "members": members}


@pytest.mark.parametrize(
    ("ranks", "text"),
    [
        ([3], "rank 3"),
        ([2, 0, 1], "ranks 0 to 2"),
        ([0, 2], "ranks 0 and 2"),
        ([0, 1, 5], "ranks 0, 1 and 5"),
        (range(0, 2000, 2), "ranks 0, 2, 4, 6 and 996 more"),
    ],
)
def test_ranks_are_named_in_runs(ranks: list[int], text: str) -> None:
    assert events.ranks_text(ranks) == text


def test_events_of_ranks() -> None:
    calm = job_statuses.status(16, 8)
    assert events.first(calm) == [("note", "replaying, 16 ranks on 2 hosts, generation 1")]
    assert events.between(calm, calm) == []
    bad = calm
    for rank in (6, 7, 8):
        bad = changed(bad, rank, responsive=False, cause="the agent is silent")
    told = [
        ("bad", "ranks 6 and 7 on host host0 do not answer: the agent is silent"),
        ("bad", "rank 8 on host host1 does not answer: the agent is silent"),
    ]
    assert events.between(calm, bad) == told
    assert events.first(bad)[1:] == told
    assert events.between(bad, calm) == [("good", "ranks 6 to 8 answer again")]
    assert events.between(calm, changed(calm, 3, left=True)) == [("note", "rank 3 has left")]


def test_events_of_the_job() -> None:
    calm = job_statuses.status(4)
    again = {**calm, "controllerIncarnation": "8", "state": "JOB_STATE_RECOVERING"}
    assert events.between(calm, again) == [
        ("note", "the controller was started again"),
        ("note", "the job is recovering"),
    ]
    failed = {**calm, "state": "JOB_STATE_FAILED", "reason": "rank 1 was killed"}
    assert events.between(calm, failed) == [("bad", "the job has failed: rank 1 was killed")]
    smaller = {**changed(job_statuses.status(3), 1, responsive=False), "generation": {"number": "2"}}
    assert events.between(calm, smaller) == [("note", "generation 2: 3 ranks on 1 host, before 4 ranks")]
    gathering = {**job_statuses.status(4), "state": "JOB_STATE_GATHERING", "generation": {"number": "0"}}
    assert events.between(gathering, calm) == [
        ("note", "generation 1: 4 ranks on 1 host"),
        ("good", "the job is running"),
    ]
    diverged = {**calm, "divergence": "ranks 0 to 2 have diverged"}
    assert events.between(calm, diverged) == [("bad", "ranks 0 to 2 have diverged")]
    assert events.between(diverged, diverged) == []


def test_a_wait_is_an_event_when_it_is_long_and_when_it_ends() -> None:
    def waiting(age_ms: int) -> dict:
        return job_statuses.status(3, waits=[job_statuses.wait(age_ms, [0, 1], [2])])

    calm = job_statuses.status(3)
    assert events.between(calm, waiting(9_999)) == []
    ((kind, text),) = events.between(waiting(9_999), waiting(10_000))
    assert kind == "bad" and text == waiting(10_000)["waits"][0]["text"]
    assert events.between(waiting(10_000), waiting(11_000)) == []
    assert events.between(waiting(75_000), calm) == [("good", "rank 2 is not waited for any more, after 1 min 15 s")]

    # One for nobody is no bad news, and its end none at all; other kinds have no missing ranks, too.
    def for_nobody(kind: str) -> dict:
        return job_statuses.status(3, waits=[{**job_statuses.wait(12_000, [0], [2]), "missingRanks": [], "kind": kind}])

    slow, init = for_nobody("WAIT_KIND_COLLECTIVE"), for_nobody("WAIT_KIND_INIT")
    assert [kind for kind, _ in events.between(calm, slow)] == ["note"] and events.between(slow, calm) == []
    assert [kind for kind, _ in events.between(calm, init)] == ["bad"]
    assert [kind for kind, _ in events.between(init, calm)] == ["good"]
    # A controller that recovers knows of waits for registration only.
    assert events.between(calm, {**waiting(20_000), "state": "JOB_STATE_RECOVERING"}) == [
        ("note", "the job is recovering")
    ]


def test_a_browser_is_told_once_and_a_slow_one_the_newest() -> None:
    clock = Clock()
    seen = history.History("run-1", ("python", "train.py"), "127.0.0.1:5", clock)
    slow, quick = board.Cursor(), board.Cursor()
    assert news(seen, quick)["status"] is None
    for step in range(1, 4):
        clock.now += 1
        seen.heard(job_statuses.status(2, phase=step))
        told = news(seen, quick)
        assert told["status"]["phase"] == step and len(told["samples"]) == 1 and not told["fresh"]
    assert news(seen, quick) == {
        **{"job": "run-1", "command": "python train.py", "controller": "127.0.0.1:5", "now": 1003.0, "heard": 1003.0},
        "amongOthers": False,
        **{"outage": None, "end": "", "fresh": False, "samples": [], "events": [], "status": None},
    }
    told = news(seen, slow)
    assert told["fresh"] and told["status"]["phase"] == 3 and len(told["samples"]) == 3 and len(told["events"]) == 1


def test_what_is_kept_is_bounded() -> None:
    clock = Clock()
    seen = history.History("run-1", (), "127.0.0.1:5", clock)
    calm, bad = job_statuses.status(1), changed(job_statuses.status(1), 0, responsive=False)
    behind = board.Cursor()
    news(seen, behind)
    for step in range(2 * history.SAMPLES_MAX):
        clock.now += 1
        seen.heard(bad if step % 2 else calm)
    for cursor in (behind, board.Cursor()):
        told = news(seen, cursor)
        assert len(told["samples"]) == history.SAMPLES_MAX and len(told["events"]) == history.EVENTS_MAX
        assert told["samples"][-1][0] == told["events"][-1]["at"] == clock.now


def test_samples() -> None:
    clock = Clock()
    seen = history.History("run-1", (), "127.0.0.1:5", clock)
    for step in range(5):
        replay = {"index": "9", "batches": 5, "tensors": 1, "repetitions": str(10 * step), "ageMs": str(2000 * step)}
        waits = [job_statuses.wait(700, [0], [1])]
        seen.heard(job_statuses.status(2, replay=replay, waits=waits, bytesPerSecond="1000", batchesPerSecond="4"))
        # Too soon for another sample.
        clock.now += 0.5
        seen.heard(job_statuses.status(2, replay=replay))
        clock.now += 1.5
    told = news(seen, board.Cursor())["samples"]
    assert len(told) == 5
    assert told[0] == [1000.0, 1000, 4, None, 1.5, 1, 700]
    assert told[-1] == [1008.0, 1000, 4, 5.0, 1.5, 1, 700]
    seen.heard(job_statuses.status(2, state="JOB_STATE_FAILED", replay={**replay, "index": "0"}))
    assert news(seen, board.Cursor())["samples"][-1][1:4] == [0, 0, None]


def test_an_outage_and_the_end_are_told() -> None:
    clock = Clock()
    seen, cursor = history.History("run-1", (), "127.0.0.1:5", clock), board.Cursor()
    seen.heard(job_statuses.status(2))
    clock.now += 4
    seen.lost("it does not answer")
    told = news(seen, cursor)
    assert (
        told["outage"] == {"since": 1000.0, "text": "it does not answer", "answered": False}
        and told["status"]["size"] == 2
    )
    assert told["events"][-1]["kind"] == "bad"
    clock.now += 8
    seen.heard(job_statuses.status(2))
    told = news(seen, cursor)
    assert told["outage"] is None
    assert [event["text"] for event in told["events"]] == ["there is a status again, after 12 s"]
    seen.over("note", "job run-1 is over")
    told = news(seen, cursor)
    assert told["end"] == "job run-1 is over" and told["events"][0]["text"] == "job run-1 is over"
    seen.close()
    assert seen.news(cursor, 0.0) is None


@pytest.fixture
def served() -> Iterator[server.Server]:
    serving = server.Server(("127.0.0.1", 0), history.History("run-1", ("train",), "127.0.0.1:5"))
    end = server.serving(serving)
    yield serving
    end()


def ask(
    serving: server.Server, path: str = "", method: str = "GET", host: str | None = None, secret: str | None = None
) -> tuple[HTTPResponse, bytes]:
    connection = HTTPConnection("127.0.0.1", serving.server_address[1], timeout=10)
    connection.putrequest(method, f"/{serving.secret if secret is None else secret}/{path}", skip_host=host is not None)
    if host is not None:
        connection.putheader("Host", host)
    connection.endheaders()
    response = connection.getresponse()
    try:
        return response, response.read()
    finally:
        connection.close()


def test_the_page_and_its_parts_are_served_with_headers_that_keep_others_out(served: server.Server) -> None:
    response, body = ask(served)
    assert response.status == 200 and response.getheader("Content-Type") == "text/html; charset=utf-8"
    policy = response.getheader("Content-Security-Policy")
    assert policy.startswith("default-src 'self'") and "unsafe" not in policy
    assert response.getheader("X-Content-Type-Options") == "nosniff"
    assert response.getheader("Referrer-Policy") == "no-referrer" and response.getheader("Cache-Control") == "no-store"
    parts = set(re.findall(r'(?:src|href)="([\w.]+)"', body.decode()))
    scripts = b"".join(ask(served, name)[1] for name in parts if name.endswith(".js"))
    parts |= set(re.findall(r'from "\./([\w.]+)"', scripts.decode()))
    assert {"page.css", "page.js", "chart.js", "ranks.js", "recording.js"} <= parts
    for name in parts:
        response, body = ask(served, name)
        assert response.status == 200 and body, name
        assert response.getheader("Content-Type").split(";")[0] == server.TYPES[Path(name).suffix]
    # The library names where it comes from, in comments; the policy for contents lets the page ask nobody else.
    own = b"".join(text for name, text in served.files.items() if name != server.CHART)
    assert not re.search(rb"https?://(?!www\.w3\.org)", own)


@pytest.mark.parametrize("secret", ["", "wrong", "events", "%C3%A9"])
def test_who_does_not_know_the_url_is_told_nothing(served: server.Server, secret: str) -> None:
    for path in ("", "events", "page.js"):
        response, body = ask(served, path, secret=secret)
        assert response.status == 403 and b"the whole URL" in body and b"run-1" not in body


@pytest.mark.parametrize(
    ("host", "code"),
    [
        ("127.0.0.1", 200),
        ("127.0.0.1:9", 200),
        ("LOCALHOST:9", 200),
        ("[::1]:9", 200),
        ("[::1]", 200),
        ("evil.example", 403),
        ("evil.example:80", 403),
        ("localhost.evil.example", 403),
        ("127.0.0.1.evil.example:9", 403),
        ("192.168.0.1:9", 403),
        ("", 403),
    ],
)
def test_a_name_that_was_made_to_lead_here_is_refused(served: server.Server, host: str, code: int) -> None:
    response, body = ask(served, host=host)
    assert response.status == code and (b"for browsers of its own host" in body) == (code == 403)


def test_without_loopback_every_name_may_lead_here() -> None:
    serving = server.Server(("0.0.0.0", 0), history.History("run-1", (), "127.0.0.1:5"))
    end = server.serving(serving)
    try:
        assert ask(serving, host="node7.cluster:9")[0].status == 200
        assert ask(serving, host="node7.cluster:9", secret="wrong")[0].status == 403
    finally:
        end()


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD"])
def test_it_only_reads(served: server.Server, method: str) -> None:
    response, _ = ask(served, method=method)
    assert response.status == 405 and response.getheader("Allow") == "GET"


@pytest.mark.parametrize("path", ["../server.py", "%2e%2e/server.py", "x/page.js", "/etc/passwd", "page", "page.css/"])
def test_nothing_else_is_served(served: server.Server, path: str) -> None:
    assert ask(served, path)[0].status == 404


def test_a_stream_tells_now_and_on_change_and_ends_with_the_server() -> None:
    seen = history.History("run-1", (), "127.0.0.1:5")
    serving = server.Server(("127.0.0.1", 0), seen)
    end = server.serving(serving)
    stream = Stream(serving.url)
    assert stream.code == 200 and stream.news()["fresh"]
    seen.heard(job_statuses.status(2))
    assert stream.until(lambda told: told["status"])["status"]["size"] == 2
    end()
    assert stream.news() is None
    stream.close()


def test_a_page_learns_that_its_server_lives(served: server.Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "BEAT_S", 0.01)
    stream = Stream(served.url)
    times = [stream.news()["now"] for _ in range(3)]
    assert times == sorted(set(times))
    stream.close()


def test_browsers_are_bounded(served: server.Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "BEAT_S", 0.01)
    streams = [Stream(served.url) for _ in range(server.BROWSERS_MAX)]
    assert [stream.code for stream in streams] == server.BROWSERS_MAX * [200]
    response, body = ask(served, "events")
    assert response.status == 503 and b"browsers look already" in body
    assert ask(served)[0].status == 200
    streams.pop().close()
    wait_until(lambda: served.browsers < server.BROWSERS_MAX)
    last = Stream(served.url)
    assert last.code == 200
    for stream in (*streams, last):
        stream.close()
    wait_until(lambda: served.browsers == 0)


def wait_until(condition: Callable[[], object]) -> None:
    done = threading.Event()
    for _ in range(1000):
        if condition():
            return
        done.wait(0.01)
    raise AssertionError("not within 10 s")


def test_connections_are_bounded(served: server.Server) -> None:
    silent = [socket.create_connection(served.server_address[:2], timeout=10) for _ in range(server.CONNECTIONS_MAX)]
    refused = socket.create_connection(served.server_address[:2], timeout=10)
    assert refused.recv(1000).startswith(b"HTTP/1.0 503 ")
    refused.close()
    for one in silent:
        one.close()
    wait_until(lambda: ask(served)[0].status == 200)


def test_who_asks_for_nothing_is_let_go(served: server.Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "TIMEOUT_S", 0.05)
    with socket.create_connection(served.server_address[:2], timeout=10) as silent:
        silent.sendall(b"GET / HTTP/1.1\r\n")
        assert silent.recv(1000) == b""


def test_who_sends_a_byte_now_and_then_keeps_nobody_out(served: server.Server, monkeypatch: pytest.MonkeyPatch) -> None:
    def served_page() -> bool:
        try:
            return ask(served)[0].status == 200
        except OSError:
            return False  # refused

    def drip() -> None:
        while not done.wait(0.05):
            for one in slow:
                try:
                    one.send(b"x")
                except OSError:
                    pass  # let go

    monkeypatch.setattr(server, "TIMEOUT_S", 1.0)
    slow = [socket.create_connection(served.server_address[:2], timeout=10) for _ in range(server.CONNECTIONS_MAX)]
    done = threading.Event()
    dripping = threading.Thread(target=drip)
    dripping.start()
    try:
        assert not served_page()
        wait_until(served_page)
    finally:
        done.set()
        dripping.join()
        for one in slow:
            one.close()


def test_no_deadline_outlives_its_request(served: server.Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "TIMEOUT_S", 60.0)
    stream = Stream(served.url)
    assert [ask(served)[0].status, ask(served, method="POST")[0].status, ask(served, secret="")[0].status] == [
        *(200, 405, 403),
    ]
    with socket.create_connection(served.server_address[:2], timeout=10) as cut:
        cut.sendall(b"GET ")
    wait_until(lambda: not any(isinstance(thread, threading.Timer) for thread in threading.enumerate()))
    assert stream.news() is not None
    stream.close()


def test_a_browser_that_does_not_read_holds_nobody_up_and_is_let_go(
    served: server.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "TIMEOUT_S", 0.2)
    slow, quick = Stream(served.url), Stream(served.url)
    for step in range(100):
        served.board.heard(job_statuses.status(200, phase=step))
        assert quick.until(lambda told: told["status"])["status"]["phase"] == step
        if served.browsers == 1:
            break
    wait_until(lambda: served.browsers == 1)
    readable, _, _ = select.select([slow.socket], [], [], 0)
    assert readable, "it was told something before"
    for stream in (slow, quick):
        stream.close()


class Controller(query.Target):
    """One that says what a script has: statuses, and errors in place of the rest; each error takes a second."""

    script: list = []
    clock = Clock()

    def get(self, timeout_s: float = 3.0) -> dict:
        return job_statuses.status(2)

    def watch(self, per_second: int, timeout_s: float = 3.0) -> Iterator[dict]:
        while True:
            part = self.script.pop(0)
            if isinstance(part, Exception):
                self.clock.now += 1
                raise part
            yield part


GONE = query.QueryError(query.NO_ANSWER, "the controller at 127.0.0.1:5 does not answer")
NO_AGENT = query.QueryError(query.NO_JOB, "no agent of job run-1 has connected")


@pytest.mark.parametrize(
    ("last", "ends"),
    [
        (
            # Longer than the controller waits for an agent, and no longer.
            47 * [NO_AGENT],
            [
                ("note", "no agent of job run-1 is connected; it counts as over after 45 s without one"),
                ("note", "job run-1 is over"),
            ],
        ),
        (
            [query.QueryError(query.REFUSED, "the token has expired")],
            [("bad", "the controller tells no more: the token has expired; start farandole dashboard again")],
        ),
    ],
)
def test_a_controller_goes_away_comes_back_and_tells_no_more(
    monkeypatch: pytest.MonkeyPatch, last: list[query.QueryError], ends: list[tuple[str, str]]
) -> None:
    for name in ("AGAIN_S", "WITHOUT_AGENT_AGAIN_S"):
        monkeypatch.setattr(jobs, name, 0)
    calm = job_statuses.status(2)
    again = {**calm, "controllerIncarnation": "8"}
    monkeypatch.setattr(Controller, "script", [calm, GONE, GONE, GONE, again, *last])
    seen = history.History("run-1", (), "127.0.0.1:5")
    commands._watch(jobs.Job(Controller("run-1", "127.0.0.1:5", token="x"), None, Controller.clock), seen)
    assert not Controller.script
    told = news(seen, board.Cursor())
    texts = [event["text"] for event in told["events"]]
    assert texts[:2] == ["replaying, 2 ranks on 1 host, generation 1", str(GONE)]
    assert texts[2].startswith("there is a status again, after ") and texts[3] == "the controller was started again"
    assert [(event["kind"], event["text"]) for event in told["events"][4:]] == ends and told["end"] == ends[-1][1]


def test_a_job_without_an_agent_for_a_while_is_not_over(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AGAIN_S", "WITHOUT_AGENT_AGAIN_S"):
        monkeypatch.setattr(jobs, name, 0)
    calm = job_statuses.status(2)
    # An elastic job between two pods; a controller that was started again, twice, before its agents were back.
    script = [calm, *40 * [NO_AGENT], calm, GONE, *40 * [NO_AGENT], GONE, *40 * [NO_AGENT], calm, *47 * [NO_AGENT]]
    monkeypatch.setattr(Controller, "script", script)
    watched = jobs.Job(Controller("run-1", "127.0.0.1:5", token="x"), None, Controller.clock).watch(2)
    codes = [answer.code if isinstance(answer, query.QueryError) else 0 for answer in watched]
    assert codes == [0, query.NO_JOB, 0, query.NO_ANSWER, query.NO_JOB, 0, query.NO_JOB] and not script


def test_a_job_that_no_agent_has_begun_is_an_error_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Controller, "script", [NO_AGENT])
    with pytest.raises(query.QueryError, match="has connected"):
        next(jobs.Job(Controller("run-1", "127.0.0.1:5", token="x"), None).watch(2))


def test_after_the_job_it_stays_while_somebody_looks(served: server.Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "BEAT_S", 0.01)
    monkeypatch.setattr(commands, "LINGER_S", 0.05)
    monkeypatch.setattr(commands, "LOOK_S", 0.001)
    stream = Stream(served.url)
    lingering = threading.Thread(target=commands._linger, args=(served,))
    lingering.start()
    lingering.join(0.3)
    assert lingering.is_alive()
    stream.close()
    lingering.join(10)
    assert not lingering.is_alive()


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        ([], 1, "no job of this user runs on this host"),
        (["run-7"], 1, "no job of this user on this host begins with 'run-7'"),
        (["--controller", "127.0.0.1:1"], 2, "go together"),
        (["--listen", "nonsense"], 2, "--listen: nonsense is not HOST:PORT"),
        (["--listen", "127.0.0.1:99999"], 2, "is not HOST:PORT"),
        (["--listen", "0.0.0.0:0"], 2, "0.0.0.0 is beyond loopback"),
        (["--controller", "127.0.0.1:1", "--job", "a", "--token-file", "/no/such/file"], 2, "/no/such/file"),
        (["--controller", "h:1", "--job", "a", "--token-file", "f", "--tls-pinned", "/none"], 2, "--tls-pinned: "),
        (
            ["--controller", "h:1", "--job", "a", "--token-file", "f", "--tls-pinned", "x", "--tls-ca", "y"],
            2,
            "exclude",
        ),
    ],
)
def test_command_line(tmp_path: Path, arguments: list[str], code: int, sentence: str) -> None:
    with processes.running([*COMMAND, *arguments], tmp_path, {"XDG_RUNTIME_DIR": str(tmp_path)}) as job:
        assert job.wait() == code, job.report()
    assert sentence in job.stderr and job.stdout == ""


def test_addresses() -> None:
    assert server.split_address("[::1]:80") == ("::1", 80)
    assert server.split_address("localhost:0") == ("localhost", 0)
