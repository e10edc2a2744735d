"""`farandole status --watch` in terminals: with rich and without, narrow, without colours, without a cursor."""

from __future__ import annotations

import fcntl
import os
import re
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import processes
import pytest

PLAIN = "import sys; sys.modules['rich'] = None; from farandole.launch.cli import main; sys.exit(main())"
WITH_RICH = ["-m", "farandole", "status", "--watch"]
WITHOUT_RICH = ["-c", PLAIN, "status", "--watch"]
WAITS = """
        hvd.init()
        if hvd.rank() == 1:
            while not os.path.exists("go"):
                time.sleep(0.01)
        hvd.allreduce(ones(1), name="[bold]late[/bold]")
        """
ESCAPE = re.compile(r"\x1b\[[?0-9;]*[A-Za-z]")
COLOUR = re.compile(r"\x1b\[[0-9;]*3[0-7]m")
SENTENCE = r"rank 0 has waited for rank 1 with `\S*\[bold\]late\[/bold\]`; rank 1 has submitted nothing else"


@pytest.fixture(autouse=True)
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only this test's job is shown."""
    (tmp_path / "runtime").mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "runtime"))


class Terminal:
    """What a program has written to a terminal so far."""

    def __init__(self, descriptor: int) -> None:
        self._parts: list[bytes] = []
        self._reader = threading.Thread(target=self._read, args=(descriptor,))
        self._reader.start()

    def _read(self, descriptor: int) -> None:
        while True:
            try:
                part = os.read(descriptor, 65536)
            except OSError:  # nobody has the other end any more
                return
            self._parts.append(part)

    def join(self) -> None:
        self._reader.join(processes.TIMEOUT_S)

    @property
    def written(self) -> str:
        return b"".join(self._parts).decode(errors="replace")

    @property
    def text(self) -> str:
        """Without colours and movements of the cursor."""
        return ESCAPE.sub("", self.written)

    @property
    def words(self) -> str:
        """In one line, wherever the terminal was too narrow for a sentence."""
        return " ".join(self.text.split())


@contextmanager
def watching(arguments: list[str], columns: int, **variables: str) -> Iterator[Terminal]:
    """Watches the job in a terminal of this width; ends when the job is over."""
    ours, its = os.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    environment = processes.environment(TERM="xterm-256color")
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES"):
        environment.pop(name, None)
    process = subprocess.Popen(
        [sys.executable, *arguments], stdin=its, stdout=its, stderr=its, env={**environment, **variables}
    )
    os.close(its)
    terminal = Terminal(ours)
    try:
        yield terminal
        assert process.wait(processes.TIMEOUT_S) == 0, terminal.text
    finally:
        process.kill()
        process.wait()
        terminal.join()
        os.close(ours)


def test_every_terminal_shows_the_same_rows(tmp_path: Path) -> None:
    with ExitStack() as all_of_them, processes.launching(tmp_path, 2, WAITS) as job:
        job.wait_for(lambda: list((tmp_path / "runtime").glob("farandole/*")), "the job's file")

        def watch(arguments: list[str], columns: int = 200, **variables: str) -> Terminal:
            return all_of_them.enter_context(watching(arguments, columns, **variables))

        rich, plain = watch(WITH_RICH), watch(WITHOUT_RICH)
        narrow = [watch(WITH_RICH, 40), watch(WITHOUT_RICH, 40)]
        grey, dumb = watch(WITH_RICH, NO_COLOR="1"), watch(WITH_RICH, TERM="dumb")
        every = [rich, plain, *narrow, grey, dumb]
        for terminal in every:
            job.wait_for(lambda t=terminal: re.search(SENTENCE, t.words), "the wait")
        (tmp_path / "go").touch()
        assert job.wait() == 0, job.report()
        all_of_them.close()
    for terminal in every:
        assert re.search(r"job \S+ is over\s*$", terminal.text), terminal.text
        # Its controller ends before its launcher.
        assert "does not answer" not in terminal.words, terminal.text
    for terminal in (rich, plain, grey):
        found = re.findall(r"^ *(?:rank|\d).*(?:condition|ok)", terminal.text, re.M)
        header = "rank host pid late (mean) (most) last tensors bytes condition".split()
        assert found[0].split() == header
        # Early pages may lack a rank.
        assert [header[0], "0", "1"] in [[row.split()[0] for row in found[at : at + 3]] for at in range(len(found))]
    for terminal in narrow:
        assert max(len(line.rstrip()) for line in terminal.text.splitlines()) <= 40, terminal.text
        assert re.search(r"^rank .*condition", terminal.text, re.M), terminal.text
    # Only rich has colours, and only where they are wanted; who cannot move the cursor gets a line per change.
    assert [bool(COLOUR.search(t.written)) for t in every] == [True, False, True, False, False, False]
    assert "\x1b" not in dumb.written and re.search(r"^\d\d:\d\d:\d\d run-", dumb.text, re.M)
    assert "\x1b[?25h" in rich.written, "the cursor is shown again"
    assert "\x1b[H" in plain.written and "\x1b[H" not in rich.written
