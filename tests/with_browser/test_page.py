"""The page of `farandole dashboard` in a browser: whether it names who is late, who is stopped, and what is old.

Pictures of it are left in build/test, for docs/dashboard.md and for whoever changes the page.
"""

from __future__ import annotations

import json
import os
import signal
import statistics
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import job_statuses
import processes
import pytest
from browser import Page, browser
from job_parts import part, pids, wait_for_another
from streams import url_of

from farandole.launch.dashboard import history, job_table, server
from farandole.launch.status import jobs, query

COMMAND = [sys.executable, "-m", "farandole", "dashboard"]
PICTURES = processes.ROOT / "build" / "test"
# Rank 2 is late by 150 ms in every step: more than a busy machine makes of the others.
TRAINS = """
        hvd.init()
        hvd.allreduce(tensor([0.0]), op=hvd.Sum, name="go")
        print("pid", hvd.rank(), os.getpid(), flush=True)
        gradient = ones(1 << 18)
        while gradient[0] < 4:
            time.sleep(0.16 if hvd.rank() == 2 else 0.01)
            gradient[0] = float(os.path.exists("go"))
            gradient = hvd.allreduce(gradient, op=hvd.Sum, name="conv1.weight")
        """


@pytest.fixture
def page() -> Iterator[Page]:
    with browser() as made:
        made.resize(1280, 1320)
        yield made
        # Neither scripts nor the policy for contents have complained.
        assert made.complaints == []


@pytest.fixture
def served() -> Iterator[server.Server]:
    serving = server.Server(("127.0.0.1", 0), history.History("run-1", ("train",), "127.0.0.1:5"))
    end = server.serving(serving)
    yield serving
    end()


def picture(page: Page, name: str) -> None:
    """In both themes."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    for scheme in ("dark", "light"):
        page.scheme(scheme)
        page.ask("new Promise((done) => setTimeout(done, 700))")
        page.picture(PICTURES / f"dashboard-{name}-{scheme}.webp", quality=70)


def trace_of(page: Page, folder: Path) -> dict:
    """What the page hands out as a file."""
    page.downloads_go_to(folder)
    page.ask("document.querySelector('#download').click()")
    done = page.ask("new Promise((done) => setTimeout(done, 1000))")
    assert done is None
    (file,) = folder.glob("farandole-*.json")
    return json.loads(file.read_text())


def tracks(trace: dict) -> dict[tuple[str, str], list[dict]]:
    """The slices of each track, by the names of its process and its thread."""
    names = {(e["pid"], e.get("tid")): e["args"]["name"] for e in trace["traceEvents"] if e["name"].endswith("_name")}
    found: dict[tuple[str, str], list[dict]] = {}
    for event in trace["traceEvents"]:
        if event["ph"] == "X":
            track = names[event["pid"], None], names[event["pid"], event["tid"]]
            found.setdefault(track, []).append(event)
    return found


def check_trace(trace: dict) -> None:
    """Rank 3 was waited for, by all others, while it was stopped; slices of a track follow each other."""
    found = tracks(trace)
    (awaited,) = [found[track] for track in found if track[0] == "waited for" and track[1].startswith("rank 3 on ")]
    longest = max(awaited, key=lambda event: event["dur"])
    assert longest["name"].startswith("rank 3 is waited for: ") and longest["dur"] > 2e6, awaited
    assert "rank 3" in longest["args"]["sentence"]
    for rank in range(3):
        (waits,) = [found[track] for track in found if track[0] == "waits" and track[1].startswith(f"rank {rank} on ")]
        assert any(event["name"].startswith("waits for rank 3: ") for event in waits), waits
    for slices in found.values():
        for first, second in zip(slices, slices[1:]):
            assert first["ts"] + first["dur"] <= second["ts"], (first, second)
    counters = {event["name"]: event["args"] for event in trace["traceEvents"] if event["ph"] == "C"}
    assert {"bytes/s", "batches/s", "ms late: rank 2"} <= set(counters)
    marks = [event["name"] for event in trace["traceEvents"] if event["ph"] == "i"]
    assert any("rank 3 on host" in mark for mark in marks), marks


def test_a_job_with_a_late_and_a_stopped_rank_and_a_killed_controller(
    page: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = tmp_path / "runtime"
    runtime.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    processes.script_file(tmp_path, TRAINS).rename(tmp_path / "train.py")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    train = processes.launch_command(4, "python", "train.py")
    with processes.running(train, tmp_path, {"PATH": path}) as job:
        pid = pids(job, 4)
        with processes.running(COMMAND, tmp_path) as dashboard:
            page.go(url_of(dashboard))
            see_the_late_rank(page)
            see_the_stopped_rank(page, pid[3], tmp_path)
            see_the_controller_go_and_come(page, job)
            (tmp_path / "go").touch()
            assert job.wait() == 0, job.report()
            page.wait_for_text("#banner", "is over; shown is what was seen last")
            dashboard.process.send_signal(signal.SIGTERM)
            assert dashboard.wait() == 130, dashboard.report()
            page.wait_for_text("#banner", "farandole dashboard does not answer")
    # That the stream broke is the browser's to say.
    page.complaints = [text for text in page.complaints if "net::ERR_" not in text]


def see_the_late_rank(page: Page) -> None:
    page.wait_for_text("#figures", "rank 2 (mean)")
    # What the first steps took is forgotten after some more.
    page.wait_for("document.querySelector('#hosts button:nth-child(3).late3')")
    page.wait_for("document.querySelectorAll('#hosts .late3').length === 1")
    page.wait_for_text("#figures", "repeated")
    assert page.ask("document.querySelector('#banner').hidden") and page.text("#waits") == "nobody waits for anybody"
    # Half a minute of curves for the pictures.
    page.wait_for("performance.now() > 25000", 60)


def see_the_stopped_rank(page: Page, pid: int, folder: Path) -> None:
    page.ask("document.querySelector('#record').click()")
    page.wait_for_text("#recorded", "records for")
    os.kill(pid, signal.SIGSTOP)
    page.wait_for_text("#events", "rank 3 on host")
    page.wait_for_text("#rows tr.silent", "does not answer: is stopped by a signal")
    assert page.text("#rows tr.silent").split()[0] == "3"
    assert "rank 3 on host" in page.text("#newest")
    page.wait_for_text("#waits", "; rank 3 is stopped by a signal")
    page.wait_for_text("#figures .warn", "waited for\n1")
    assert page.ask("document.querySelectorAll('#hosts button')[3].className") == "silent"
    assert page.ask("document.title").startswith("! ")
    page.wait_for("Number(/for ([0-9]+)/.exec(document.querySelector('#waits').innerText)[1]) >= 4")
    picture(page, "stopped")
    os.kill(pid, signal.SIGCONT)
    page.wait_for_text("#events", "rank 3 answers again")
    page.wait_for_text("#waits", "nobody waits for anybody")
    page.ask("document.querySelector('#record').click()")
    page.wait_for_text("#recorded", "recorded ")
    check_trace(trace_of(page, folder))


def see_the_controller_go_and_come(page: Page, job: processes.Job) -> None:
    old = part(job, "controller")
    os.kill(old, signal.SIGSTOP)
    # Before gRPC notices, after 15 s, that nobody answers.
    page.wait_for_text("#banner", "no status from the controller at 127.0.0.1:", 13)
    os.kill(old, signal.SIGCONT)
    page.wait_for("document.querySelector('#banner').hidden")
    job.process.send_signal(signal.SIGSTOP)
    os.kill(old, signal.SIGKILL)
    page.wait_for_text("#banner", "no status from the controller at 127.0.0.1:")
    page.wait_for("/for [3-9][.][0-9] s; shown: state of [3-9][.]/.test(document.querySelector('#banner').innerText)")
    picture(page, "lost")
    job.process.send_signal(signal.SIGCONT)
    wait_for_another(job, "controller", old)
    page.wait_for("document.querySelector('#banner').hidden")
    page.wait_for_text("#events", "there is a status again")
    page.wait_for_text("#events", "the controller was started again")
    page.wait_for("document.querySelectorAll('#hosts .silent').length === 0")


def large_job(ranks: int) -> dict:
    """Ranks 7 and 500 do not answer, half a host is waited for."""
    made = job_statuses.status(ranks, 8, waits=[job_statuses.wait(12_000, list(range(64)), [16, 17, 18, 19])])
    for rank, member in enumerate(made["members"]):
        # Few are late, as it is with ranks.
        member["lateness"]["meanUs"] = str(200 + rank % 97 * 10 + (rank % 101 == 0) * 40 * rank)
        if rank in (7, 500):
            member.update(responsive=False, cause="is stopped by a signal")
    return made


def test_several_jobs_are_listed_and_each_has_its_page(page: Page) -> None:
    calm, late = job_statuses.status(4), job_statuses.wait(72_000, [0, 1, 3], [2])
    statuses = {
        "vision.bert-large": {**job_statuses.status(64, 8), "bytesPerSecond": "48200000000"},
        "vision.digits": {**calm, "waits": [late]},
        "vision.resnet50": {
            **calm,
            "state": "JOB_STATE_FAILED",
            "reason": "rank 3 (pid 812 on host node-7) was killed",
        },
    }

    class Target(query.Target):
        def get(self, timeout_s: float = 3.0) -> dict:
            return {**statuses[self.job], "job": self.job}

    def watch(job: jobs.Job, shown: history.History) -> None:
        shown.heard(job.get())
        over.wait(60)

    over = threading.Event()
    table = job_table.JobTable("of namespace vision at controller.farandole:7000", watch)
    table.heard([jobs.Job(Target(name, "controller.farandole:7000", token="x"), None) for name in statuses])
    serving = server.Server(("127.0.0.1", 0), table)
    end = server.serving(serving)
    page.resize(1280, 330)
    page.go(serving.url)
    page.wait_for_text("#where", "3 jobs of namespace vision at controller.farandole:7000")
    assert page.ask("[...document.querySelectorAll('#jobs tr')].map((row) => row.className)") == ["", "", "bad"]
    assert page.text("#jobs tr:nth-child(1)").split("\t")[:4] == ["vision.bert-large", "replaying", "64", "48.2 GB/s"]
    assert late["text"] in page.text("#jobs tr:nth-child(2)") and "was killed" in page.text("#jobs tr:nth-child(3)")
    picture(page, "jobs")
    page.ask("document.querySelector('#jobs tr:nth-child(2) a').click()")
    page.wait_for_text("#job", "job vision.digits")
    page.wait_for_text("#waits", late["text"])
    page.ask("document.querySelector('#all').click()")
    page.wait_for_text("#where", "3 jobs of namespace vision")
    table.lost("the controller at controller.farandole:7000 does not answer")
    page.wait_for_text("#banner", "the controller at controller.farandole:7000 does not answer shown: what there was ")
    table.heard([])
    page.wait_for_text("#none", "no job runs there")
    assert page.ask("document.querySelector('#banner').hidden")
    over.set()
    end()
    # That the stream broke is the browser's to say.
    page.complaints = [text for text in page.complaints if "net::ERR_" not in text]


def test_a_thousand_ranks_are_there_within_a_second(page: Page, served: server.Server) -> None:
    served.board.heard(large_job(1000))
    times = []
    for _ in range(5):
        page.go(served.url)
        page.wait_for("performance.getEntriesByName('first picture').length")
        times.append(page.ask("performance.getEntriesByName('first picture')[0].startTime"))
    print(f"1,000 ranks: first picture after {statistics.median(times):.0f} ms ({min(times):.0f} to {max(times):.0f})")
    assert statistics.median(times) < 1000
    assert page.ask("document.querySelectorAll('#hosts button').length") == 1000
    assert page.ask("document.querySelectorAll('.host').length") == 125
    kinds = page.ask("[7, 16, 19, 20, 500].map((rank) => document.querySelectorAll('#hosts button')[rank].className)")
    assert kinds == ["silent", "missing", "missing", "late0", "silent"]
    shown = page.ask("[...document.querySelectorAll('#rows tr')].map((row) => row.firstChild.innerText)")
    assert {"7", "500", "16", "17", "18", "19", "909"} <= set(shown) and len(shown) <= 3 * 16
    assert page.text("#more") == f"{1000 - len(shown)} more ranks, less late than these"
    picture(page, "large")


def test_drawing_a_thousand_ranks_again_takes_little(page: Page, served: server.Server) -> None:
    page.go(served.url)
    served.board.heard(large_job(1000))
    page.wait_for("performance.getEntriesByName('first picture').length")
    spent = "performance.getEntriesByName('picture')[0].duration"
    times = []
    for step in range(10):
        made = job_statuses.status(1000, 8, communicatesBy=f"step {step}")
        for rank, member in enumerate(made["members"]):
            # Every rank is late by something else than before, and every third one by another colour.
            member["lateness"]["meanUs"] = str((rank * 37 + step * 101) % 300 * 10 ** (rank % 3))
        served.board.heard(made)
        page.wait_for_text("#carried", f"step {step}")
        times.append(page.ask(spent))
    print(f"1,000 ranks: drawing again takes {statistics.median(times):.1f} ms, at most {max(times):.1f}")
    assert statistics.median(times) < 100


def test_what_happened_while_the_stream_was_broken_is_recorded_once(
    page: Page, served: server.Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def tell(rank: int, answers: bool) -> None:
        made = job_statuses.status(4)
        made["members"][rank]["responsive"] = answers
        served.board.heard(made)

    tell(0, False)
    page.go(served.url)
    page.wait_for_text("#events", "rank 0 on host")
    page.ask("document.querySelector('#record').click()")
    tell(1, False)
    page.wait_for_text("#events", "rank 1 on host")
    news = served.board.news

    def broken(cursor: history.Cursor, timeout_s: float) -> str | None:
        monkeypatch.setattr(served.board, "news", news)
        tell(2, False)
        return None

    monkeypatch.setattr(served.board, "news", broken)
    page.wait_for_text("#events", "rank 2 on host")
    marks = [event["name"] for event in trace_of(page, tmp_path)["traceEvents"] if event["ph"] == "i"]
    assert [sum(f"rank {rank} on host" in mark for mark in marks) for rank in range(3)] == [0, 1, 1], marks


def recorded(page: Page, steps: list[tuple[int, list[dict]]], times: int = 1) -> dict:
    """The trace of a page that has seen these waits, each so many ms after its recording began, so many times."""
    statuses = [(at, job_statuses.status(4, waits=waits)) for at, waits in steps]
    return page.ask(f"""import("./recording.js").then((part) => {{
        const recording = new part.Recording("run-1", 1e12);
        for (let time = 0; time < {times}; ++time)
            for (const [at, status] of {json.dumps(statuses)}) recording.add(status, 1e12 + at);
        return {{...recording.trace(1e12 + 9000), full: recording.full}};
    }})""")


def test_slices_of_a_recording_follow_each_other(page: Page, served: server.Server) -> None:
    page.go(served.url)
    page.wait_for_text("#job", "job run-1")
    first, again = job_statuses.wait(600, [0, 1], [3], "a"), job_statuses.wait(500, [0], [3], "b")
    # Seen at 1,000 and not at 2,000; then one that began before, at 1,900, and another one at the same time.
    steps = [(1000, [first]), (2000, []), (2400, [again]), (3000, [job_statuses.wait(1100, [0], [3], "b"), first])]
    found = tracks(recorded(page, steps))
    slices = {track: [(e["name"], e["ts"], e["dur"]) for e in events] for track, events in found.items()}
    assert slices == {
        ("waited for", "rank 3 on h"): [
            ("rank 3 is waited for: a", 400_000, 1_600_000),
            ("rank 3 is waited for: b", 2_000_000, 7_000_000),
        ],
        ("waited for", "rank 3 on h (2)"): [("rank 3 is waited for: a", 2_400_000, 6_600_000)],
        ("waits", "rank 0 on h"): [
            ("waits for rank 3: a", 400_000, 1_600_000),
            ("waits for rank 3: b", 2_000_000, 7_000_000),
        ],
        ("waits", "rank 0 on h (2)"): [("waits for rank 3: a", 2_400_000, 6_600_000)],
        ("waits", "rank 1 on h"): [
            ("waits for rank 3: a", 400_000, 1_600_000),
            ("waits for rank 3: a", 2_400_000, 6_600_000),
        ],
    }


def test_a_recording_is_bounded(page: Page, served: server.Server) -> None:
    page.go(served.url)
    page.wait_for_text("#job", "job run-1")
    # Six counters each.
    trace = recorded(page, [(1000, [])], 40_000)
    assert trace["full"] and 199_000 < len(trace["traceEvents"]) <= 200_000


def test_with_the_keyboard_alone(page: Page, served: server.Server) -> None:
    served.board.heard(large_job(16))
    page.go(served.url)
    page.wait_for("document.querySelectorAll('#hosts button').length === 16")
    focused = "document.activeElement.id || document.activeElement.ariaLabel"
    page.press("Tab")
    assert page.ask(focused) == "record"
    page.press("Tab")
    # Download waits for a recording; then the ranks are one stop.
    assert page.ask(focused) == "rank 0: ok"
    for key, label in (("ArrowRight", "rank 1: ok"), ("ArrowDown", "rank 8: ok"), ("End", "rank 15: ok")):
        page.press(key)
        assert page.ask(focused) == label
    page.wait_for_text("#detail", "rank 15 on host host1: ok")
    page.ask("document.querySelectorAll('#hosts button')[7].focus()")
    page.wait_for_text("#detail", "rank 7 on host host0: does not answer: is stopped by a signal")
    assert page.ask(focused) == "rank 7: does not answer"
    assert "is stopped by a signal" in page.ask("document.activeElement.ariaDescription")


def test_what_a_job_says_is_text(page: Page) -> None:
    evil = "<img src=x onerror=document.title='evil'>"
    made = job_statuses.status(2, waits=[{**job_statuses.wait(2000, [0], [1], evil), "text": evil}], divergence=evil)
    made["members"][0]["member"]["host"] = made["members"][1]["cause"] = evil
    made["members"][1]["responsive"] = False
    seen = history.History(evil, (evil,), "127.0.0.1:5")
    serving = server.Server(("127.0.0.1", 0), seen)
    end = server.serving(serving)
    seen.heard(made)
    page.go(serving.url)
    for selector in ("#job", "#command", "#waits", "#hosts", "#rows", "#events"):
        page.wait_for_text(selector, evil)
    assert page.ask("document.querySelectorAll('img').length") == 0
    end()
    page.wait_for_text("#banner", "farandole dashboard does not answer")
    page.complaints = [text for text in page.complaints if "net::ERR_" not in text]
