"""The socket at which keepers of parts learn where the controller is."""

from __future__ import annotations

import os
import secrets
import select
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from farandole.launch.job import elastic
from farandole.launch.keeper import services
from farandole.launch.processes import access, agents

ACCESS = access.Access("run-1", "10.0.0.1:7", "t" * 64, "-----BEGIN CERTIFICATE\n" + "c" * 2000)
NOBODY = 65534


@contextmanager
def serving() -> Iterator[str]:
    """Yields the name of the agent's socket beside which it is."""
    name = f"farandole-test-{secrets.token_hex(8)}"
    opened = access.AccessServer(name, ACCESS)
    reader, writer = os.pipe()

    def serve() -> None:
        while reader not in select.select([reader, *opened.waits_on()], [], [])[0]:
            opened.serve()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield name
    finally:
        os.close(writer)
        thread.join()
        opened.close()
        os.close(reader)


def test_all_that_ask_are_answered() -> None:
    with serving() as name:
        for _ in range(access.WAITING_MAX + 2):
            assert access.fetch(name) == ACCESS


def test_nobody_is_there() -> None:
    with pytest.raises(RuntimeError, match="what the launcher runs on this host does not say"):
        access.fetch("farandole-test-nobody")


def test_no_one_waits_for_a_socket_that_nobody_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "FETCH_S", 0.05)
    opened = access.AccessServer("farandole-test-unserved", ACCESS)
    with pytest.raises(RuntimeError, match="what the launcher runs on this host does not say"):
        access.fetch("farandole-test-unserved")
    opened.serve()
    opened.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_other_users_get_nothing_and_are_not_believed() -> None:
    with serving() as name:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.setuid(NOBODY)
            # Not even asked for: it is no socket of this user's.
            told = []
            for foreign in (False, True):
                access.sockets.os.geteuid = (lambda: 0) if foreign else (lambda: NOBODY)
                try:
                    told.append(access.fetch(name).token)
                except RuntimeError as error:
                    told.append(str(error))
            os.write(writer, "|".join(told).encode())
            os._exit(0)
        os.close(writer)
        os.waitpid(child, 0)
        with os.fdopen(reader) as file:
            first, second = file.read().split("|")
    assert "belongs to user 0, not to this one" in first
    assert second.startswith("what the launcher runs on this host does not say")


@pytest.mark.parametrize(
    ("sizes", "command", "opens"), [((2, 2), ("true",), True), ((2,), ("true",), False), ((2, 2), (), False)]
)
def test_only_agents_of_jobs_on_several_hosts_have_one(
    monkeypatch: pytest.MonkeyPatch, sizes: tuple[int, ...], command: tuple[str, ...], opens: bool
) -> None:
    monkeypatch.setattr(agents.locate, "find", lambda name: name)
    spec = agents.AgentSpec("j", "c:1", "token", "", 0, sizes, 0, "", False, command)
    agent = agents.LocalAgent(spec, {}, print)
    assert len(agent.waits_on()) == int(opens)
    agent.end()


@pytest.mark.parametrize(
    ("towards", "own", "expected"),
    [
        ("", "10.0.0.7", ""),
        ("10.0.0.5", "10.0.0.7", "10.0.0.5"),
        ("127.0.0.1", "10.0.0.7", "10.0.0.7"),
        ("127.0.0.1", "", "127.0.0.1"),
    ],
)
def test_a_keeper_leaves_to_its_agent_what_it_cannot_tell(
    monkeypatch: pytest.MonkeyPatch, towards: str, own: str, expected: str
) -> None:
    monkeypatch.setattr(services, "address_towards_controller", lambda controller: towards)
    monkeypatch.setattr(services, "own_address", lambda: own)
    assert services.address_for_others("node0:7000") == expected


def test_a_name_that_is_not_known_gives_no_address(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*question: object, **more: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    assert services.address_for_others("node0:7000") == ""


def test_a_host_whose_name_was_not_known_is_looked_up_again(monkeypatch: pytest.MonkeyPatch) -> None:
    job = object.__new__(elastic.ElasticJob)
    job._own, job._data_address = {}, "10.0.0.1"
    answers = iter(["", "10.0.0.7"])
    monkeypatch.setattr(elastic.ElasticJob, "_named_address", lambda self: "")
    monkeypatch.setattr(elastic, "address_for", lambda host: next(answers))
    assert [job._own_address("node2") for _ in range(3)] == ["10.0.0.1", "10.0.0.7", "10.0.0.7"]
