"""Attacks of somebody without a token on a port of a controller, over loopback, for a bounded time.

strangers.py KIND PORT SECONDS, KIND out of `headers`, `calls`, `idle`. Prints "ready" when it has begun, and at the end
how much it has sent; `idle` holds its connections until the time is over.
"""

from __future__ import annotations

import socket
import struct
import sys
import time

# More than a process has descriptors left at a limit of 1,024.
IDLE = 1010
CONNECTIONS = 2
FRAME_BYTES = 16384
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + struct.pack(">I", 0)[1:] + b"\4\0\0\0\0\0"
HEADERS, CONTINUATION = 1, 9
END_STREAM, END_HEADERS = 1, 4


def frame(kind: int, flags: int, stream: int, body: bytes) -> bytes:
    """One of HTTP/2."""
    return struct.pack(">I", len(body))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + body


def number(value: int, bits: int) -> bytes:
    """An integer of HPACK with a prefix of so many bits, the others 0."""
    most = (1 << bits) - 1
    if value < most:
        return bytes([value])
    coded, value = bytearray([most]), value - most
    while value >= 128:
        coded.append(value % 128 + 128)
        value //= 128
    return bytes(coded) + bytes([value])


def literal(name: bytes, value: bytes) -> bytes:
    """A header that is not kept."""
    return b"\0" + number(len(name), 7) + name + number(len(value), 7) + value


def call(stream: int) -> bytes:
    """A call without a token."""
    head = [
        (b":method", b"POST"),
        (b":scheme", b"http"),
        (b":path", b"/farandole.v1.Status/GetJob"),
        (b":authority", b"x"),
    ]
    head += [(b"te", b"trailers"), (b"content-type", b"application/grpc"), (b"farandole-job", b"j")]
    return frame(HEADERS, END_HEADERS | END_STREAM, stream, b"".join(literal(*entry) for entry in head))


class Stranger:
    """One connection that never reads more than it must, and comes again when it is closed."""

    def __init__(self, kind: str, port: int) -> None:
        self.kind, self.port = kind, port
        self.socket: socket.socket | None = None
        self.rest = b""
        self.stream = 1

    def open(self) -> None:
        self.socket = socket.create_connection(("127.0.0.1", self.port), timeout=1.0)
        self.socket.setblocking(False)
        self.stream = 1
        self.rest = PREFACE
        if self.kind == "headers":
            # A name, and a value of 2^30 bytes that never ends.
            self.rest += frame(HEADERS, 0, 1, b"\0\1x" + number(1 << 30, 7))

    def more(self) -> bytes:
        if self.kind == "headers":
            return frame(CONTINUATION, 0, 1, b"a" * FRAME_BYTES)
        calls = b"".join(call(self.stream + 2 * i) for i in range(64))
        self.stream += 128
        return calls

    def step(self) -> int:
        """Bytes that went out."""
        try:
            if self.socket is None:
                self.open()
            if self.kind == "calls":
                try:
                    while len(self.socket.recv(65536)) == 65536:
                        pass
                except BlockingIOError:
                    pass
            self.rest = self.rest or self.more()
            sent = self.socket.send(self.rest)
            self.rest = self.rest[sent:]
            return sent
        except BlockingIOError:
            time.sleep(0.001)
        except OSError:
            if self.socket is not None:
                self.socket.close()
            self.socket = None
        return 0


def main(kind: str, port: int, seconds: float) -> None:
    end = time.monotonic() + seconds
    if kind == "idle":
        held = [socket.create_connection(("127.0.0.1", port), timeout=2.0) for _ in range(IDLE)]
        print("ready", flush=True)
        time.sleep(max(0.0, end - time.monotonic()))
        print(len(held), "connections")
        return
    strangers = [Stranger(kind, port) for _ in range(CONNECTIONS)]
    print("ready", flush=True)
    sent = 0
    while time.monotonic() < end:
        sent += sum(stranger.step() for stranger in strangers)
    print(sent, "bytes")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
