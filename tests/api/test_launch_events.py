"""What another host may tell the launcher, with a stand-in for ssh that says it."""

from __future__ import annotations

import json
from pathlib import Path

import processes
import pytest
import stand_ins

from farandole.launch.function.remote import RemoteFolders
from farandole.launch.processes.agents import AgentSpec
from farandole.launch.remote.events import EventReader
from farandole.launch.remote.messages import MARK
from farandole.launch.settings.settings import Settings
from farandole.launch.workers.workers import HostJob
from farandole.version import __version__

OUTPUT = {"event": "output", "stream": "stdout", "text": "[1] x\n"}
ENDED = {"event": "ended", "slot": 0, "pid": 1, "code": 0, "killed": False, "how": ""}


def reader(elastic: bool, function: bool = False) -> EventReader:
    spec = AgentSpec("job", "127.0.0.1:1", "", "", 1, (1, 2), 1, "", True, ("true",))
    result = EventReader(HostJob(spec, "there", elastic, {}, "/", function={} if function else None))
    if elastic:
        result.expect(0)
    return result


@pytest.mark.parametrize(
    "said",
    [
        "42",
        "[]",
        "[" * 100_000,
        "{",
        {},
        {"event": "other"},
        {"event": ["output"]},
        {"event": "note"},
        {"event": "note", "text": "\ud800"},
        {"event": "function"},
        {**OUTPUT, "stream": "../../victim"},
        {**OUTPUT, "text": 1},
        {**OUTPUT, "text": "[2] x\r[3] x\n"},
        {**OUTPUT, "text": "[01] x\n"},
        {"event": "finished", "code": "x", "text": ""},
        {"event": "finished", "code": True, "text": ""},
        {"event": "finished", "code": 3.5, "text": ""},
        {"event": "finished", "code": -5, "text": ""},
        {"event": "finished", "code": 256, "text": ""},
        {"event": "started", "slot": 1, "pid": 1},
        {**ENDED, "slot": 99},
        {**ENDED, "killed": 0},
    ],
    ids=lambda said: str(said)[:60],
)
def test_what_no_host_tells_is_refused(said: object) -> None:
    text = (said if isinstance(said, str) else json.dumps(said)).encode()
    for elastic in (False, True):
        with pytest.raises(ValueError):
            reader(elastic).read(text)


def test_what_hosts_tell_is_taken() -> None:
    ranks, slots = reader(False, function=True), reader(True)
    for source, event in (
        (ranks, {"event": "function"}),
        (ranks, {"event": "ready"}),
        (ranks, {"event": "note", "text": "\udcff"}),
        (ranks, {**OUTPUT, "text": "[1] a [9] b\n[2] c\rwithout\n\n"}),
        (ranks, {"event": "finished", "code": 255, "text": ""}),
        (slots, {"event": "started", "slot": 0, "pid": 1}),
        (slots, {**OUTPUT, "text": "[0] a\n"}),
        (slots, ENDED),
    ):
        assert source.read(json.dumps(event).encode()) == event
    for source, event in ((ranks, {"event": "ready"}), (slots, ENDED)):
        with pytest.raises(ValueError):
            source.read(json.dumps(event).encode())


@pytest.mark.parametrize("options", [[], ["--min-np", "1"]], ids=["fixed", "elastic"])
def test_a_host_that_tells_something_else_is_lost(tmp_path: Path, options: list[str]) -> None:
    """And writes no file here."""
    (tmp_path / "said").write_text(MARK + json.dumps({**OUTPUT, "stream": "../../victim", "text": "[0] x\n"}) + "\n")
    program = stand_ins.ssh(tmp_path, f"cat {tmp_path}/said; exec sleep 1000")
    given = ("-H", "host1:1", "--output-filename", "out/put", "--elastic-timeout", "1", *options)
    command = processes.launch_command(1, "true", options=given if options else given[:4])
    with processes.running(command, tmp_path, {"FARANDOLE_SSH": program}) as job:
        assert job.wait() == 1, job.report()
    assert "the connection to host host1 ended (it answers with something else, " in job.stderr, job.report()
    assert "Traceback" not in job.stderr and not (tmp_path / "victim").exists(), job.report()


@pytest.mark.parametrize("options", [[], ["--min-np", "1"]], ids=["fixed", "elastic"])
@pytest.mark.parametrize("greeting", ["Welcome", "42"])
def test_a_login_that_greets_ends_no_job(tmp_path: Path, greeting: str, options: list[str]) -> None:
    program = stand_ins.program(tmp_path, f"echo {greeting}; echo; echo again; {stand_ins.RUN}")
    command = processes.launch_command(1, "echo", "works", options=("-H", "host1:1", *options))
    with processes.running(command, tmp_path, {"FARANDOLE_SSH": program}) as job:
        assert job.wait() == 0, job.report()
    assert len(job.lines("works")) == 1 and greeting not in job.stdout, job.report()
    assert job.stderr.count(f"the login on host host1 prints '{greeting}'; such lines are left out") == 1, job.report()


@pytest.mark.parametrize(
    ("end", "said", "code"),
    [
        ("exit 0", "ssh exited with code 0", 1),
        ("exit 7", "ssh exited with code 7", 7),
        ("kill -TERM $$", "ssh exited with code 143", 143),
    ],
)
def test_a_connection_that_ends(tmp_path: Path, end: str, said: str, code: int) -> None:
    command = processes.launch_command(1, "true", options=("-H", "host1:1"))
    with processes.running(command, tmp_path, {"FARANDOLE_SSH": stand_ins.ssh(tmp_path, end)}) as job:
        assert job.wait() == code, job.report()
    assert f"the connection to host host1 ended ({said}), and its workers with it" in job.stderr, job.report()


@pytest.mark.parametrize(
    "answer",
    [42, {}, {**stand_ins.ANSWER, "version": None}, {**stand_ins.ANSWER, "error": {}}, {"version": __version__}],
    ids=str,
)
def test_an_answer_that_is_none(tmp_path: Path, answer: object) -> None:
    command = processes.launch_command(1, "true", options=("-H", "host1:1"))
    program = stand_ins.ssh(tmp_path, "exit 1", answer)
    with processes.running(command, tmp_path, {"FARANDOLE_SSH": program}) as job:
        assert job.wait() == 1, job.report()
    assert "farandole run: host host1: it answers with something else, " in job.stderr, job.report()


@pytest.mark.parametrize("files", [{"result.0": 1}, {"result.0": "a"}, {"result.0": "\xe9"}], ids=str)
def test_files_that_are_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], files: object
) -> None:
    answer = {"version": __version__, "error": "", "files": files}
    (tmp_path / "files").write_text(f"{MARK}{json.dumps(answer)}\n")
    monkeypatch.setenv("FARANDOLE_SSH", stand_ins.program(tmp_path, f"cat {tmp_path}/files"))
    folders = RemoteFolders(str(tmp_path), Settings(1, ("true",)), 10.0)
    folders.note_made("host1")
    assert not folders.take()
    assert "host host1: it answers with something else than files: " in capfd.readouterr().err
