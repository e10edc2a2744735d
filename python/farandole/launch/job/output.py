"""What the launcher does with the output of workers: prefixes, times, files, and no wait for whoever reads it."""

from __future__ import annotations

import errno
import os
import re
import stat
import time
from collections.abc import Callable
from typing import IO

from farandole.launch.processes.waiting import wait
from farandole.launch.settings.settings import Settings
from farandole.launch.workers.lines import LINE

# Beyond it nothing more is read from workers, which wait then.
HELD_BYTES_MAX = 1 << 20
# What takes no part of a line takes so much once it says that it can be written.
PIECE_BYTES = 256
# At the end, for a slow reader.
FLUSH_S = 5.0
_NUMBER = re.compile(rb"\[(\d+)\] ")


class Sink:
    """Our stdout or stderr. Never waits for its reader, and never makes it non-blocking for others who write there.

    What cannot be written is dropped, and said once.

    Args:
        descriptor: stays the caller's.
        name: for the warning.
        say: prints a sentence.
    """

    def __init__(self, descriptor: int, name: str, say: Callable[[str], None]) -> None:
        self._shared, self._name, self._say = descriptor, name, say
        self._held = bytearray()
        self._warned = self._gone = False
        self._own = -1
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                # The same pipe or terminal, opened again; a socket cannot be.
                flags = os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
                self._own = os.open(f"/proc/self/fd/{descriptor}", flags)
            self._is_file = self._own < 0
        except OSError:
            self._is_file = False

    @property
    def full(self) -> bool:
        """Whether no more should be read that would be written here."""
        return len(self._held) > HELD_BYTES_MAX

    def writers(self) -> list[int]:
        """What to wait for before `flush`."""
        return [self._own if self._own >= 0 else self._shared] if self._held else []

    def write(self, data: bytes) -> None:
        """Now or by a later `flush`."""
        if not self._gone:
            self._held += data
            self.flush()

    def flush(self) -> None:
        """Writes what can be written now."""
        try:
            while self._held:
                del self._held[: self._write()]
        except BlockingIOError:
            pass
        except OSError as error:
            self._held.clear()
            # A disk may have room again; a reader does not come back.
            self._gone = error.errno != errno.ENOSPC
            if not self._warned:
                self._warned = True
                self._say(f"{self._name} cannot be written: {error.strerror}; the job goes on without")

    def _write(self) -> int:
        if self._own >= 0 or self._is_file:
            return os.write(self._own if self._own >= 0 else self._shared, self._held)
        if self._shared not in wait([], [self._shared], 0.0):
            raise BlockingIOError
        return os.write(self._shared, self._held[:PIECE_BYTES])

    def close(self) -> None:
        """Returns when all is written, or it has taken too long."""
        deadline = time.monotonic() + FLUSH_S
        while self._held and time.monotonic() < deadline:
            wait([], self.writers(), 0.5)
            self.flush()
        if self._own >= 0:
            os.close(self._own)


class Output:
    """Lines of workers, as they are told by what keeps these (launch/workers).

    Args:
        settings: of the job: where files go, what stands before lines.
        label: "rank" or "slot": what workers are called in names of files.
        again: the job has run before, so files go on.

    Raises:
        RuntimeError: there is no folder for files.
    """

    def __init__(self, settings: Settings, label: str, again: bool = False) -> None:
        self._settings, self._label, self._mode = settings, label, "ab" if again else "wb"
        self._sinks = {name: Sink(fd, f"the launcher's {name}", settings.say) for name, fd in _STREAMS.items()}
        self._files: dict[str, IO[bytes] | None] = {}
        # By host and stream, the last worker with a line that ends with "\\r": the "\\n" to it may come by itself.
        self._returned: dict[tuple[str, str], str] = {}
        self._warned = False
        if settings.output_folder is not None:
            try:
                os.makedirs(settings.output_folder, exist_ok=True)
            except OSError as error:
                raise RuntimeError(f"--output-filename {settings.output_folder}: {error.strerror}") from None

    @property
    def full(self) -> bool:
        """Whether no more should be read that would be written here."""
        return any(sink.full for sink in self._sinks.values())

    def writers(self) -> list[int]:
        """What to wait for before `flush`."""
        return [writer for sink in self._sinks.values() for writer in sink.writers()]

    def flush(self) -> None:
        """Writes what can be written now."""
        for sink in self._sinks.values():
            sink.flush()

    def show(self, host: str, stream: str, text: str) -> None:
        """Takes lines from a host; "[N] " stands before those of its worker N."""
        settings = self._settings
        now = f"{time.strftime('%a %b %d %H:%M:%S %Y')} ".encode() if settings.timestamps else b""
        shown = []
        for line in LINE.findall(text.encode(errors="surrogateescape")):
            found = _NUMBER.match(line)
            plain = line[found.end() :] if found else line
            rest = line == b"\n"  # of an end that has begun with "\\r"
            number = found.group(1).decode() if found else self._returned.pop((host, stream), "") if rest else ""
            prefix = b""
            if number:
                if plain.endswith(b"\r"):
                    self._returned[host, stream] = number
                elif self._returned.get((host, stream)) == number:
                    del self._returned[host, stream]
                if settings.output_folder is not None:
                    self._file(settings.output_folder, host, number, stream, plain)
                worker = number if self._label == "rank" else f"{host}:{number}"
                prefix = settings.prefix(worker, stream).encode()
            shown.append(plain if rest else now + prefix + plain)
        self._sinks[stream].write(b"".join(shown))

    def _file(self, top: str, host: str, number: str, stream: str, line: bytes) -> None:
        if self._label == "rank":
            folder = f"rank.{int(number):0{len(str(max(1, self._settings.processes - 1)))}}"
        else:
            folder = f"slot.{host}.{number}"
        path = os.path.join(top, folder, stream)
        try:
            if path not in self._files:
                os.makedirs(os.path.dirname(path), exist_ok=True)
                self._files[path] = open(path, self._mode, buffering=0)
            file = self._files[path]
            if file is not None:
                file.write(line)
        except OSError as error:
            # Of a full disk a later line may find room; without the file there is none.
            self._files.setdefault(path, None)
            if not self._warned:
                self._warned = True
                self._settings.say(f"--output-filename: {path}: {error.strerror}; the job goes on without such lines")

    def close(self) -> None:
        """Returns when all is written, or it has taken too long."""
        for sink in self._sinks.values():
            sink.close()
        for file in self._files.values():
            if file is not None:
                file.close()


_STREAMS = {"stdout": 1, "stderr": 2}
