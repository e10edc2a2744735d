"""The sockets by which processes of one host ask each other."""

from __future__ import annotations

import os
import resource
import select
import socket

from farandole import _sockets


def test_a_listener_without_descriptors_is_left_alone_for_a_moment() -> None:
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listening.bind(f"\0farandole-test-{os.urandom(8).hex()}")
    listening.listen(8)
    listener = _sockets.Listener(listening)
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
            select.select([], [], [], _sockets.PAUSE_S / 10)
        connection = listener.accept()
        assert connection is not None
        connection.close()
    listener.close()
