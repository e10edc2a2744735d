"""The sockets by which processes of one host ask each other."""

from __future__ import annotations

import contextlib
import os
import resource
import select
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from farandole.base import sockets


def test_a_listener_without_descriptors_is_left_alone_for_a_moment() -> None:
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listening.bind(f"\0farandole-test-{os.urandom(8).hex()}")
    listening.listen(8)
    listener = sockets.Listener(listening)
    assert listener.accept() is None and listener.waits_on() == [listening]
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.connect(listening.getsockname())
        free = os.dup(0)
        os.close(free)
        resource.setrlimit(resource.RLIMIT_NOFILE, (free, before[1]))
        try:
            assert listener.accept() is None
            assert listener.waits_on() == []
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
        while not listener.waits_on():
            select.select([], [], [], sockets.PAUSE_S / 10)
        connection = listener.accept()
        assert connection is not None
        connection.close()
    listener.close()


@pytest.fixture
def busy() -> Iterator[tuple[socket.socket, str, contextlib.ExitStack]]:
    """A socket with a full queue, its name, and those who wait in it."""
    name = f"farandole-test-{os.urandom(8).hex()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening, contextlib.ExitStack() as waiting:
        listening.bind(f"\0{name}")
        listening.listen(1)
        with contextlib.suppress(BlockingIOError):
            while True:
                client = waiting.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
                client.setblocking(False)
                client.connect(listening.getsockname())
        yield listening, name, waiting


def test_where_many_wait_one_asks_again(
    busy: tuple[socket.socket, str, contextlib.ExitStack], monkeypatch: pytest.MonkeyPatch
) -> None:
    listening, name, waiting = busy
    listening.settimeout(20.0)
    heard = b""

    def serve() -> None:
        nonlocal heard
        while not heard:
            with listening.accept()[0] as connection:
                heard = connection.recv(100)
                if heard:
                    connection.sendall(b"[1]\n")

    server = threading.Thread(target=serve)

    def instead_of_sleeping(_: float) -> None:
        if server.ident is None:
            waiting.close()
            server.start()

    monkeypatch.setattr(sockets.time, "sleep", instead_of_sleeping)
    assert sockets.ask(name, {"what": 1}, 20.0) == [1]
    server.join()
    assert heard == b'{"what": 1}\n'


def test_where_many_wait_one_gives_up_in_time(busy: tuple[socket.socket, str, contextlib.ExitStack]) -> None:
    before = time.monotonic()
    assert sockets.ask(busy[1], {"what": 1}, 0.2) is None
    assert 0.2 <= time.monotonic() - before < 20.0
