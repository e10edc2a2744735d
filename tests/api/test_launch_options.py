"""What `farandole run` does for somebody at a terminal, and for jobs that fail. No process here calls init()."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import processes
import pytest

from farandole.launch import cli
from farandole.launch.job import run
from farandole.launch.job.ranks import RankJob
from farandole.launch.job.signals import Signals

PLAIN = [sys.executable, "-S", "-c"]


def test_a_python_file_is_run_by_python(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import sys; print('ran', sys.executable, sys.argv[1:])")
    with processes.running(processes.launch_command(1, "train.py", "--lr", "1"), tmp_path) as job:
        assert job.wait() == 0, job.report()
    assert job.lines("ran ") == [f"{sys.executable} ['--lr', '1']"]


def test_an_executable_file_is_run_by_itself(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("#!/bin/sh\necho ran by sh\n")
    (tmp_path / "train.py").chmod(0o755)
    with processes.running(processes.launch_command(1, "./train.py"), tmp_path) as job:
        assert job.wait() == 0, job.report()
    assert job.lines("ran ") == ["by sh"]


def test_stdin_of_one_rank(tmp_path: Path) -> None:
    body = "import os, sys; print('read', os.environ['FARANDOLE_RANK'], repr(sys.stdin.read()))"
    command = processes.launch_command(3, *PLAIN, body, options=("--stdin", "1"))
    with processes.running(["sh", "-c", 'echo text | "$@"', "sh", *command], tmp_path) as job:
        assert job.wait() == 0, job.report()
    assert sorted(job.lines("read ")) == ["0 ''", r"1 'text\n'", "2 ''"], job.report()


def at_a_terminal(command: list[str], answers: list[tuple[str, str]]) -> str:
    """What a command has shown on a terminal of 24 lines of 90 columns, where each of the prompts is answered."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(command[0], command, processes.environment())
    os.set_blocking(terminal, False)
    import fcntl
    import struct
    import termios

    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 90, 0, 0))
    shown, deadline = "", time.monotonic() + processes.TIMEOUT_S
    try:
        while time.monotonic() < deadline:
            if not select.select([terminal], [], [], 0.2)[0]:
                continue
            try:
                chunk = os.read(terminal, 4096)
            except OSError:  # nobody has it open any more
                break
            shown += chunk.decode()
            if answers and answers[0][0] in shown:
                os.write(terminal, answers.pop(0)[1].encode())
        else:
            raise AssertionError(f"still running: {shown}")
    finally:
        os.close(terminal)
        os.waitpid(pid, 0)
    return shown


def test_breakpoint_at_a_terminal(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("import os\nvalue = 41 + int(os.environ['FARANDOLE_RANK'])\nif not value % 41: breakpoint()\n")
    command = processes.launch_command(2, str(script), options=("--stdin", "0"))
    shown = at_a_terminal(command, [("(Pdb) ", "value + 1000\n"), ("1041", "continue\n")])
    assert "1041" in shown, shown


def test_lines_fit_the_terminal(tmp_path: Path) -> None:
    body = "import os, shutil; print('size', *shutil.get_terminal_size())"
    shown = at_a_terminal(processes.launch_command(2, *PLAIN, body), [])
    # "[0] " stands before each line.
    assert shown.count("size 86 24") == 2, shown


@pytest.mark.parametrize(
    ("options", "columns"),
    [
        ([], 96),
        (["--min-np", "1", "-H", "node-17:12"], 100 - len("[node-17:11] ")),
        (["-prefix-timestamp"], 96 - len("Mon Nov 23 16:27:01 2026 ")),
        (["--no-prefix-output"], None),
    ],
)
def test_columns_of_workers(options: list[str], columns: int | None) -> None:
    settings = cli.parse(["run", "-np", "12" if "-H" in options else "2", *options, "true"])
    environment = settings.environment({}, 4, os.terminal_size((100, 30)))
    assert environment.get("COLUMNS") == (None if columns is None else str(columns))
    narrow = settings.environment({}, 4, os.terminal_size((3, 30)))
    assert columns is None or (narrow["COLUMNS"], narrow["LINES"]) == ("20", "30")


@pytest.mark.parametrize("elastic", [[], ["--min-np", "2"]])
def test_a_job_that_fails_is_started_again(tmp_path: Path, elastic: list[str]) -> None:
    body = "import os; n = int(os.environ['FARANDOLE_RESTARTS']); os.write(1, b'start %d\\n' % n); exit = n < 2 and 3"
    body += "; raise SystemExit(exit)"
    options = ("--max-restarts", "3", "--output-filename", "out", *elastic)
    with processes.running(processes.launch_command(2, *PLAIN, body, options=options), tmp_path) as job:
        assert job.wait() == 0, job.report()
    # The other may be ended before it says so, once one has failed.
    assert sorted({*job.lines("start ")}) == ["0", "1", "2"], job.report()
    assert job.stderr.count("the job has failed with exit code 3: restart ") == 2, job.report()
    written = "".join(path.read_text() for path in (tmp_path / "out").glob("*/stdout"))
    assert sorted(set(written.split("\n"))) == ["", "start 0", "start 1", "start 2"]


def test_restarts_are_counted(tmp_path: Path) -> None:
    options = ("--max-restarts", "1")
    with processes.running(
        processes.launch_command(1, *PLAIN, "raise SystemExit(5)", options=options), tmp_path
    ) as job:
        assert job.wait() == 5, job.report()
    assert job.stderr.count("restart 1 of 1") == 1


def test_who_ends_a_job_does_not_want_it_again(tmp_path: Path) -> None:
    options = ("--max-restarts", "5")
    with processes.running(processes.launch_command(1, "sleep", "1000", options=options), tmp_path) as job:
        job.wait_for(lambda: "sleep 1000 " in map(processes.command_line, processes.marked(job.mark)), "the worker")
        job.process.terminate()
        assert job.wait() == 143, job.report()
    assert "restart" not in job.stderr


def test_a_name(tmp_path: Path) -> None:
    body = "import os; print('job', os.environ['FARANDOLE_JOB'])"
    with processes.running(processes.launch_command(1, *PLAIN, body, options=("--name", "resnet")), tmp_path) as job:
        assert job.wait() == 0, job.report()
    assert job.lines("job ")[0].startswith("resnet-")


@pytest.mark.parametrize("elastic", [[], ["--min-np", "1"]])
@pytest.mark.parametrize(("name", "hint"), [("SEGV", "PYTHONFAULTHANDLER=1"), ("KILL", "out of memory")])
def test_what_is_behind_a_signal(tmp_path: Path, elastic: list[str], name: str, hint: str) -> None:
    command = processes.launch_command(1, "sh", "-c", f"kill -{name} $$", options=tuple(elastic))
    with processes.running(command, tmp_path) as job:
        assert job.wait() > 128, job.report()
    (line,) = [line for line in job.stderr.splitlines() if "docs/troubleshooting.md" in line]
    cause = f"SIG{name}" if elastic else f"exit code {job.wait()} is that of SIG{name}, if nothing else ended it"
    assert line.startswith(f"farandole run: {cause}: ") and hint in line


def test_a_worker_that_ends_with_the_code_of_a_signal(tmp_path: Path) -> None:
    """In an elastic job it is known that no signal came."""
    for options, causes in (((), 1), (("--min-np", "1"), 0)):
        command = processes.launch_command(1, "sh", "-c", "exit 137", options=options)
        with processes.running(command, tmp_path) as job:
            assert job.wait() == 137, job.report()
        assert job.stderr.count("is that of SIGKILL, if nothing else ended it") == causes, job.report()
        assert "farandole run: SIGKILL" not in job.stderr, job.report()


@pytest.mark.parametrize("elastic", [[], ["--min-np", "1"]])
def test_a_signal_without_a_name_is_named_by_its_number(tmp_path: Path, elastic: list[str]) -> None:
    command = processes.launch_command(1, "sh", "-c", "kill -40 $$", options=tuple(elastic))
    with processes.running(command, tmp_path) as job:
        assert job.wait() == 128 + 40, job.report()
    assert "was killed by signal 40" in job.stderr, job.report()


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (["--stdin", "2"], "--stdin 2: the last rank is 1"),
        (["--stdin", "0", "--min-np", "1"], "--stdin 0: an elastic job has no fixed ranks"),
        (["--stdin", "1", "-H", "localhost:1,other:1"], "--stdin 1: this rank runs on other, not on this host"),
        (["--name", "a/b"], "'a/b' is not a name"),
        (["--max-restarts", "-1"], "'-1' is not a number of restarts"),
    ],
)
def test_what_makes_no_sense(capsys: pytest.CaptureFixture, given: list[str], sentence: str) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.parse(["run", "-np", "2", *given, "true"])
    assert ended.value.code == 2 and sentence in capsys.readouterr().err


SAYS = """
import os, time
from farandole.launch.settings.settings import Settings
os.set_blocking(2, False)
try:
    while True:
        os.write(2, b"x" * 512)
except BlockingIOError:
    os.set_blocking(2, True)
begun = time.monotonic()
Settings(1, ("true",), name="run").say("nobody reads this")
print(time.monotonic() - begun)
"""


def test_the_launcher_does_not_wait_for_who_reads_its_stderr() -> None:
    with subprocess.Popen([sys.executable, "-c", SAYS], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.wait(60) == 0
        assert 0.5 < float(process.stdout.read()) < 30


def test_an_ignored_signal_stays_ignored() -> None:
    """As nohup wants it."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Signals() as signals:
            os.kill(os.getpid(), signal.SIGHUP)
            os.kill(os.getpid(), signal.SIGUSR1)
            assert signals.pending == [signal.SIGUSR1]
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_only_a_signal_that_ends_ends_an_attempt_that_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = cli.parse(["run", "-np", "1", "true"])
    for number, code in ((signal.SIGUSR1, 1), (signal.SIGTERM, 128 + signal.SIGTERM)):
        with Signals() as signals:
            signals.take(number)
            job = RankJob(settings, dict(os.environ), None, signals, False)
            monkeypatch.setattr(job._control, "start", lambda *where: False)  # so that it ends here
            assert job.run() == code


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_a_signal_between_two_attempts_is_for_the_job(monkeypatch: pytest.MonkeyPatch, number: signal.Signals) -> None:
    """One that does not end the job is for workers of which there is none."""
    codes, missed, found = [3, 0], [], []

    class Attempt:
        """A driver that fails once."""

        began = True

        def __init__(self, signals: Signals) -> None:
            found.append(list(signals.pending))

        def run(self, lifeline: int | None) -> int:
            return codes.pop(0)

    monkeypatch.setattr(run, "_driver", lambda settings, environment, folders, signals, again: Attempt(signals))
    settings = cli.parse(["run", "-np", "1", "--max-restarts", "5", "true"])
    monkeypatch.setattr(type(settings), "say", lambda self, text: "restart" in text and os.kill(os.getpid(), number))
    before = signal.signal(number, lambda *given: missed.append(given))
    try:
        assert run.run(settings) == (128 + number if number == signal.SIGTERM else 0)
    finally:
        signal.signal(number, before)
    assert not missed
    assert found == ([[]] if number == signal.SIGTERM else [[], []])
