"""What the launcher does with the output of ranks when it is more than to let it through."""

from __future__ import annotations

import os
import re
import threading
import time
from typing import BinaryIO

CHUNK_BYTES = 1 << 16
# An agent cuts lines into pieces of this size at most.
LINE_BYTES_MAX = (1 << 16) + 64
# At the end, for what is still in the pipes; somebody else may hold them.
FLUSH_S = 5.0
_RANK = re.compile(rb"\[(\d+)\] ")
_LINES = re.compile(rb"[^\r\n]*(?:\r\n|\r|\n)")


class Output:
    """Two pipes to which agents write. Lines come out with times, and go to a file of their rank.

    Args:
        folder: gets ``rank.N/stdout`` and ``rank.N/stderr``, N padded with zeros; None: no files.
        processes: how many ranks there are.
        timestamps: put the time before each line.
        prefix: leave the rank before each line.
        as_horovod: with the name of the stream.

    Raises:
        OSError: the folder cannot be made.
    """

    def __init__(
        self, folder: str | None, processes: int, timestamps: bool, prefix: bool, as_horovod: bool = False
    ) -> None:
        self._folder = folder
        self._digits = len(str(max(1, processes - 1)))
        self._timestamps = timestamps
        self._prefix = prefix
        self._as_horovod = as_horovod
        self._files: dict[tuple[int, str], BinaryIO] = {}
        for rank in range(processes if folder is not None else 0):
            os.makedirs(self._path(rank), exist_ok=True)
            for name in ("stdout", "stderr"):
                self._files[rank, name] = open(os.path.join(self._path(rank), name), "wb")
        self._threads = []
        self.descriptors = []
        """For the agents' stdout and stderr."""
        for name, target in (("stdout", 1), ("stderr", 2)):
            reader, writer = os.pipe()
            self.descriptors.append(writer)
            thread = threading.Thread(target=self._pass_on, args=(reader, name, target), daemon=True)
            thread.start()
            self._threads.append(thread)

    def _path(self, rank: int) -> str:
        return os.path.join(self._folder, f"rank.{rank:0{self._digits}}")

    def _pass_on(self, reader: int, name: str, target: int) -> None:
        rest = b""
        with os.fdopen(reader, "rb", buffering=0) as pipe:
            while True:
                chunk = pipe.read(CHUNK_BYTES)
                rest += chunk
                complete = _LINES.findall(rest)
                rest = rest[sum(map(len, complete)) :]
                if rest and (not chunk or len(rest) > LINE_BYTES_MAX):
                    complete, rest = [*complete, rest], b""
                self._write(complete, name, target)
                if not chunk:
                    return

    def _write(self, lines: list[bytes], name: str, target: int) -> None:
        shown = []
        now = time.strftime("%a %b %d %H:%M:%S %Y ").encode() if self._timestamps else b""
        for line in lines:
            found = _RANK.match(line)
            plain = line[found.end() :] if found else line
            file = self._files.get((int(found.group(1)), name)) if found else None
            if file is not None:
                file.write(plain)
                file.flush()
            if found and self._as_horovod:
                line = b"[%s]<%s>:" % (found.group(1), name.encode()) + plain
            shown.append(now + (line if self._prefix else plain))
        view = memoryview(b"".join(shown))
        try:
            while view:
                view = view[os.write(target, view) :]
        except OSError:
            pass  # nobody reads any more; the files go on

    def close(self) -> None:
        """Returns when all is written, or it has taken too long. No agent may run any more."""
        for writer in self.descriptors:
            os.close(writer)
        deadline = time.monotonic() + FLUSH_S
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        if not any(thread.is_alive() for thread in self._threads):
            for file in self._files.values():
                file.close()
