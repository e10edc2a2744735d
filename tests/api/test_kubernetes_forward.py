"""The way to a controller in a cluster: what comes to the local port goes there and back."""

from __future__ import annotations

import socket
import threading

from farandole.launch.kubernetes.cluster import ClusterError
from farandole.launch.kubernetes.forward import CONNECTIONS_MAX, Forward

TIMEOUT_S = 20


def dial(way: Forward) -> socket.socket:
    host, port = way.address.split(":")
    return socket.create_connection((host, int(port)), TIMEOUT_S)


def everything(connection: socket.socket) -> bytes:
    found = b""
    while block := connection.recv(65536):
        found += block
    return found


class There:
    """What is forwarded to: it answers each byte with the next one, up to a zero, and then says goodbye."""

    def __init__(self) -> None:
        self.ends: list[socket.socket] = []

    def connect(self) -> socket.socket:
        near, far = socket.socketpair()
        self.ends.append(far)
        threading.Thread(target=self._serve, args=(far,), daemon=True).start()
        return near

    @staticmethod
    def _serve(end: socket.socket) -> None:
        with end:
            while block := end.recv(65536):
                end.sendall(bytes((byte + 1) % 256 for byte in block))
                if 0 in block:
                    end.sendall(b"goodbye")
                    return


def test_each_connection_has_its_own_way_there_and_back() -> None:
    there = There()
    with Forward(there.connect) as way:
        with dial(way) as first, dial(way) as second:
            first.sendall(b"ab")
            assert first.recv(2) == b"bc"
            large = bytes(range(1, 255)) * 4096
            threading.Thread(target=lambda: second.sendall(large + b"\0"), daemon=True).start()
            assert everything(second) == bytes(byte + 1 for byte in large) + b"\1goodbye"
            first.sendall(b"x\0")
            assert everything(first) == b"y\1goodbye"
    assert len(there.ends) == 2 and not way.failure


def test_what_cannot_be_reached_is_said_and_nothing_hangs() -> None:
    def connect() -> socket.socket:
        raise ClusterError("no pod of the controller of job x runs")

    with Forward(connect) as way:
        for _ in range(2 * CONNECTIONS_MAX):
            with dial(way) as connection:
                assert everything(connection) == b""
        assert way.failure == "no pod of the controller of job x runs"


def test_connections_are_bounded() -> None:
    there = There()
    with Forward(there.connect) as way:
        held = [dial(way) for _ in range(CONNECTIONS_MAX)]
        for connection in held:
            connection.sendall(b"a")
            assert connection.recv(1) == b"b"
        with dial(way) as one_more:
            assert everything(one_more) == b""
        held.pop().close()
        # Its place is free once both ends have ended.
        for _ in range(1000):
            with dial(way) as again:
                again.sendall(b"a")
                try:
                    if again.recv(1) == b"b":
                        break
                except ConnectionResetError:
                    continue
        else:
            raise AssertionError("no place became free")
        for connection in held:
            connection.close()
