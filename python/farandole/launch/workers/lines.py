"""Cuts a stream of output into lines, as agent/output/line_cutter.h does."""

from __future__ import annotations

import os
import re

READ_BYTES = 1 << 16
# Of a worker, without a prefix.
LINE_BYTES_MAX = 1 << 16
# At the end of a process, for what is in its pipe: more than a pipe holds. Others may hold it open.
LAST_READS_MAX = 64
LINE = re.compile(rb"[^\r\n]*(?:\r\n|\r|\n)")


class LineReader:
    """The read end of a pipe, and the beginning of a line from it.

    A line ends with "\\n", or with "\\r" as progress bars use it; "\\r\\n" is one end.

    Args:
        pipe: not blocking from now on, and this object's.
        stream: "stdout" or "stderr".
        prefix: stands before each line.
        line_bytes_max: a line that is longer is broken.
    """

    def __init__(self, pipe: int, stream: str, prefix: bytes = b"", line_bytes_max: int = LINE_BYTES_MAX) -> None:
        os.set_blocking(pipe, False)
        self.pipe, self.stream = pipe, stream
        self.ended = False
        self._prefix, self._line_bytes_max = prefix, line_bytes_max
        self._rest = b""
        self._after_return = False

    def fileno(self) -> int:
        """To wait for."""
        return self.pipe

    def read(self) -> bytes:
        """Lines that are complete now, each with the prefix; after a while none, and `ended` at the end of file."""
        try:
            chunk = os.read(self.pipe, READ_BYTES)
        except BlockingIOError:
            return b""
        self.ended = not chunk
        begun = b""
        if self._after_return and chunk.startswith(b"\n"):
            begun, chunk = b"\n", chunk[1:]
        text = self._rest + chunk
        end = max(text.rfind(b"\n"), text.rfind(b"\r")) + 1
        lines, self._rest = LINE.findall(text, 0, end), text[end:]
        if chunk:
            self._after_return = chunk.endswith(b"\r")
        if self._rest and (self.ended or len(self._rest) >= self._line_bytes_max):
            lines.append(self._rest + b"\n")
            self._rest = b""
        return begun + b"".join(self._prefix + line for line in lines)

    def read_last(self) -> bytes:
        """What is there now, the last line complete or not."""
        found = []
        for _ in range(LAST_READS_MAX):
            found.append(self.read())
            if not found[-1] and not self._rest:
                break
        if self._rest:
            found.append(self._prefix + self._rest + b"\n")
            self._rest = b""
        return b"".join(found)

    def close(self) -> None:
        """Nothing is read any more."""
        os.close(self.pipe)
