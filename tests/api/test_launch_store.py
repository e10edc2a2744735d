from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Iterator

import pytest

from farandole.launch.processes.child import Restarts
from farandole.launch.processes.store import Store


@pytest.fixture
def store() -> Iterator[Store]:
    store = Store()
    yield store
    store.close()


def handed_over(store: Store) -> tuple[list[bytes], socket.socket]:
    """What a new agent is told, and its end of the connection."""
    agent = store.connect()
    agent.settimeout(20)
    store.hand_over()
    packets = []
    while not packets or packets[-1] != b"end":
        packets.append(agent.recv(8192))
    return packets[:-1], agent


def test_entries_survive_an_agent(store: Store) -> None:
    told, agent = handed_over(store)
    assert told == []
    reader, writer = os.pipe()
    agent.send(b"put\none\nsegment a\nb")
    socket.send_fds(agent, [b"put\ntwo\nsegment c"], [reader])
    agent.send(b"put\nthree\nmember 1.")
    agent.send(b"put\nnew\nsegment a\nb")
    agent.close()
    os.close(reader)
    store.disconnect()
    told, agent = handed_over(store)
    assert told == [b"put\nnew\nsegment a\nb", b"put\ntwo\nsegment c", b"put\nthree\nmember 1."]
    os.write(writer, b"still open")
    agent.send(b"drop\n\nsegment ")
    store.disconnect()
    told, agent = handed_over(store)
    assert told == [b"put\nthree\nmember 1."]
    # It was the last reader.
    with pytest.raises(BrokenPipeError):
        os.write(writer, b"x")
    os.close(writer)
    agent.close()


def test_ready_is_said_by_each_agent(store: Store) -> None:
    _, agent = handed_over(store)
    assert not store.ready
    agent.send(b"ready")
    store.read()
    assert store.ready
    agent.close()
    store.disconnect()
    assert not store.ready


def test_nothing_comes_after_the_end_of_an_agent(store: Store) -> None:
    """A worker that it was just starting cannot say that it is there any more."""
    _, agent = handed_over(store)
    agent.send(b"put\n1\nmember 1.")
    store.disconnect()
    with pytest.raises(BrokenPipeError):
        agent.send(b"put\n2\nmember 2.")
    agent.close()
    assert handed_over(store)[0] == [b"put\n1\nmember 1."]


def test_ended_workers_come_first_and_stay_to_be_read(store: Store) -> None:
    _, agent = handed_over(store)
    workers = [subprocess.Popen(["sleep", "60"], start_new_session=True) for _ in range(3)]
    for rank, worker in enumerate(workers):
        agent.send(f"put\n{worker.pid:010}\nworker {rank}".encode())
    store.read()
    for worker in (workers[2], workers[0]):
        worker.send_signal(signal.SIGKILL)
        os.waitid(os.P_PID, worker.pid, os.WEXITED | os.WNOWAIT)
        store.read()
    store.disconnect()
    agent.close()
    told, agent = handed_over(store)
    agent.close()
    assert [packet.rsplit(b" ")[-1] for packet in told] == [b"2", b"0", b"1"]
    assert store.workers() == [worker.pid for worker in workers]
    store.close()
    for worker in workers:
        with pytest.raises(ChildProcessError):
            os.waitpid(worker.pid, 0)
        worker.returncode = 0


def test_restarts_are_bounded() -> None:
    restarts = Restarts(times=2, within_s=10)
    assert [restarts.allowed(now) for now in (0.0, 1.0, 2.0, 9.9, 10.1, 10.2, 11.1)] == [
        True,
        True,
        False,
        False,
        True,
        False,
        True,
    ]
