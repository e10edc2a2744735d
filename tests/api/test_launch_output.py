"""What the launcher does with lines of workers, and that it does not end for want of a place for them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import processes
import pytest

from farandole.launch.job import output
from farandole.launch.job.output import Output, Sink
from farandole.launch.settings.settings import Settings
from farandole.launch.workers.lines import LINE_BYTES_MAX, LineReader

PLAIN = [sys.executable, "-S", "-c"]
LINES = [*PLAIN, "for i in range(2000): print('line', i)"]
KINDS = pytest.mark.parametrize(
    "options", [[], ["-prefix-timestamp"], ["--min-np", "1"]], ids=["agent", "here", "elastic"]
)


@contextmanager
def pipe() -> Iterator[tuple[int, int]]:
    reader, writer = os.pipe()
    yield reader, writer
    for end in (reader, writer):
        try:
            os.close(end)
        except OSError:
            pass  # the test has closed it


def test_lines_are_cut_and_prefixed() -> None:
    with pipe() as (reader, writer):
        source = LineReader(reader, "stdout", b"[1] ")
        for written, read in (
            (b"a\nb", b"[1] a\n"),
            (b"c\r\nd\r", b"[1] bc\r\n[1] d\r"),
            # The rest of that end.
            (b"\n\ne", b"\n[1] \n"),
            (b"f\rg\n", b"[1] ef\r[1] g\n"),
            (b"", b""),
        ):
            os.write(writer, written)
            assert source.read() == read
        os.write(writer, b"end")
        assert source.read() == b"" and source.read_last() == b"[1] end\n" and not source.ended
        os.close(writer)
        assert source.read() == b"" and source.ended


def test_a_line_without_end_is_broken() -> None:
    with pipe() as (reader, writer):
        source = LineReader(reader, "stdout", b"> ", line_bytes_max=10)
        os.write(writer, b"x" * 9)
        assert source.read() == b""
        os.write(writer, b"y")
        assert source.read() == b"> xxxxxxxxxy\n"


@pytest.mark.parametrize("options", [[], ["--min-np", "1"]])
def test_a_line_that_is_as_long_as_may_be_stays_one(tmp_path: Path, options: list[str]) -> None:
    """Also where the agent has written a prefix before it."""
    body = f"print('x' * {LINE_BYTES_MAX - 1})"
    options = ["--output-filename", "out", *options]
    with processes.running(processes.launch_command(1, *PLAIN, body, options=tuple(options)), tmp_path) as job:
        assert job.wait() == 0, job.report()
    (file,) = (tmp_path / "out").glob("*/stdout")
    assert [len(line) for line in file.read_text().splitlines()] == [LINE_BYTES_MAX - 1]


@pytest.mark.parametrize(
    ("label", "given", "shown"),
    [
        ("rank", {}, b"[1] text\n"),
        ("slot", {}, b"[host:1] text\n"),
        ("rank", {"prefix_as_horovod": True}, b"[1]<stdout>:text\n"),
        ("slot", {"prefix_as_horovod": True}, b"[host:1]<stdout>:text\n"),
        ("slot", {"prefix_output": False, "prefix_as_horovod": True}, b"text\n"),
    ],
)
def test_prefixes(monkeypatch: pytest.MonkeyPatch, label: str, given: dict, shown: bytes) -> None:
    with pipe() as (reader, writer):
        monkeypatch.setattr(output, "_STREAMS", {"stdout": writer})
        shower = Output(Settings(2, ("true",), **given), label)
        shower.show("host", "stdout", "[1] text\nfarandole-agent: text\n")
        assert os.read(reader, 1000) == shown + b"farandole-agent: text\n"
        shower.close()


@pytest.mark.parametrize(("label", "names"), [("rank", "rank.%d"), ("slot", "slot.host.%d")])
def test_an_end_of_line_in_two_pieces_stands_in_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, label: str, names: str
) -> None:
    with pipe() as (reader, writer):
        monkeypatch.setattr(output, "_STREAMS", {"stdout": writer})
        shower = Output(Settings(2, ("true",), output_folder=str(tmp_path)), label)
        for text in ("[1] y\r", "\n[1] z\n", "[1] b\r[0] a\n", "\n", "\n"):
            shower.show("host", "stdout", text)
        shower.close()
    assert (tmp_path / (names % 1) / "stdout").read_bytes() == b"y\r\nz\nb\r\n"
    assert (tmp_path / (names % 0) / "stdout").read_bytes() == b"a\n"


def test_nobody_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then more is not asked for, the end is not waited for for ever, and others' writes still block."""
    monkeypatch.setattr(output, "FLUSH_S", 0.05)
    with pipe() as (reader, writer):
        sink = Sink(writer, "stdout", pytest.fail)
        while not sink.full:
            sink.write(b"x" * 65536)
        assert os.get_blocking(writer)
        os.read(reader, 65536)
        sink.flush()
        sink.close()


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
@KINDS
def test_a_full_disk_ends_no_job(tmp_path: Path, stream: str, options: list[str]) -> None:
    redirected = '"$@" >/dev/full' if stream == "stdout" else '"$@" 2>/dev/full'
    command = processes.launch_command(2, *LINES, options=tuple(options))
    with processes.running(["sh", "-c", redirected, "sh", *command], tmp_path) as job:
        assert job.wait() == 0, job.report()
    if stream == "stdout":
        assert job.stderr.count("No space left on device; the job goes on") == 1, job.report()
    if stream == "stderr":
        assert len(job.lines("line ")) == 4000, job.report()


@KINDS
def test_a_disk_that_has_room_again_is_written_again(tmp_path: Path, options: list[str]) -> None:
    body = """
import os, time
print("lost", flush=True)
while "No space left on device" not in open("said").read():
    time.sleep(0.01)
os.remove("disk/filler")
print("found", flush=True)
"""
    (tmp_path / "disk").mkdir()
    script = (
        "mount -t tmpfs -o size=8k none disk; cat /dev/zero >disk/filler 2>/dev/null; "
        '"$@" >disk/out 2>said; code=$?; cp disk/out out; exit $code'
    )
    command = processes.launch_command(1, *PLAIN, body, options=tuple(options))
    with processes.running(["unshare", "-m", "sh", "-c", script, "sh", *command], tmp_path) as job:
        assert job.wait() == 0, job.report()
    written = (tmp_path / "out").read_text()
    assert written.endswith("found\n") and "lost" not in written, (tmp_path / "said").read_text()


@pytest.mark.parametrize("closed", ["</dev/null >&- 2>&-", "<&- >&-"])
@KINDS
def test_closed_descriptors_end_no_job(tmp_path: Path, closed: str, options: list[str]) -> None:
    body = "import os; os.write(os.open('ran', os.O_CREAT | os.O_WRONLY | os.O_APPEND), b'x')"
    command = processes.launch_command(2, sys.executable, "-S", "-c", body, options=tuple(options))
    with processes.running(["sh", "-c", f'"$@" {closed}', "sh", *command], tmp_path) as job:
        assert job.wait() == 0, job.report()
    assert (tmp_path / "ran").read_text() == "xx"


@KINDS
def test_a_reader_that_goes_ends_no_job(tmp_path: Path, options: list[str]) -> None:
    command = processes.launch_command(2, *LINES, options=tuple(options))
    with processes.running(["bash", "-c", 'set -o pipefail; "$@" | head -1', "bash", *command], tmp_path) as job:
        assert job.wait() == 0, job.report()
    assert len(job.stdout.splitlines()) == 1


@pytest.mark.parametrize("options", [[], ["--min-np", "1"]])
def test_a_full_log_disk_ends_no_job(tmp_path: Path, options: list[str]) -> None:
    folder = tmp_path / "out" / ("slot.localhost.0" if options else "rank.0")
    folder.mkdir(parents=True)
    (folder / "stdout").symlink_to("/dev/full")
    command = processes.launch_command(2, *LINES, options=("--output-filename", "out", *options))
    with processes.running(command, tmp_path) as job:
        assert job.wait() == 0, job.report()
    assert job.stderr.count("--output-filename: out/") == 1 and len(job.lines("line ")) == 4000, job.report()
    other = next((tmp_path / "out").glob("*1/stdout"))
    assert len(other.read_text().splitlines()) == 2000


@pytest.mark.parametrize("options", [[], ["--min-np", "1"]])
def test_a_folder_that_cannot_be_made_is_named_with_its_flag(tmp_path: Path, options: list[str]) -> None:
    (tmp_path / "file").touch()
    command = processes.launch_command(1, "true", options=("--output-filename", "file/out", *options))
    with processes.running(command, tmp_path) as job:
        assert job.wait() == 1, job.report()
    assert "farandole run: --output-filename file/out: Not a directory" in job.stderr


def test_what_is_closed_is_opened_before_a_pipe_takes_its_number(tmp_path: Path) -> None:
    """Workers without a prefix inherit it."""
    body = "import os; fd = os.open('fds', os.O_CREAT | os.O_WRONLY | os.O_APPEND)\n"
    body += "os.write(fd, ' '.join(os.readlink(f'/proc/self/fd/{n}') for n in range(3)).encode())"
    options = ("--no-prefix-output",)
    command = processes.launch_command(1, sys.executable, "-S", "-c", body, options=options)
    with processes.running(["sh", "-c", '"$@" <&- >&- 2>&-', "sh", *command], tmp_path) as job:
        assert job.wait() == 0, job.report()
    assert (tmp_path / "fds").read_text() == "/dev/null /dev/null /dev/null"
