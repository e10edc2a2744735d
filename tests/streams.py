"""A page's stream of server-sent events, as a browser reads it."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Callable
from urllib.parse import urlsplit

import processes


class Stream:
    """That of the page at `url`. Each read ends within `timeout_s`, or the test fails."""

    def __init__(self, url: str, timeout_s: float = 30.0) -> None:
        where = urlsplit(url)
        self.socket = socket.create_connection((where.hostname, where.port), timeout_s)
        self.socket.sendall(f"GET {where.path}events HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        self.file = self.socket.makefile("rb")
        self.code = int(self.file.readline().split()[1])
        while self.file.readline().strip():
            pass

    def news(self) -> dict | None:
        """The next ones; None: the stream has ended."""
        while line := self.file.readline():
            if line.startswith(b"data: "):
                return json.loads(line[6:])
        return None

    def until(self, condition: Callable[[dict], object]) -> dict:
        """The first news for which it is true."""
        while True:
            told = self.news()
            assert told is not None, "the stream has ended"
            if condition(told):
                return told

    def until_event(self, part: str) -> None:
        """Until something has happened whose sentence has this in it."""
        self.until(lambda told: any(part in event["text"] for event in told["events"]))

    def close(self) -> None:
        self.file.close()
        self.socket.close()


def url_of(dashboard: processes.Job) -> str:
    """Of the page that `farandole dashboard` serves, once it has said so."""
    return dashboard.wait_for(lambda: re.findall(r"http://\S+/", dashboard.stdout), "the URL")[0]
