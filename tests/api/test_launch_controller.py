"""How a controller's keeper lets it end."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator

import pytest

from farandole.launch.processes.controller import Controller

END_S = 20.0


@pytest.fixture
def controller() -> Iterator[Controller]:
    controller = Controller("127.0.0.1:0", False, os.environ, print)
    assert controller.start()
    yield controller
    controller.end()


def test_it_ends_by_itself_when_it_may(controller: Controller) -> None:
    controller.end_when_empty()
    assert controller.child.process.wait(END_S) == 0
    assert not controller.alive()


def test_it_is_wanted_again(controller: Controller) -> None:
    """Then it comes back at the same place, and may end again when it is told so again."""
    first, address = controller.child, controller.address
    controller.end_when_empty()
    first.process.wait(END_S)
    controller.stay()
    assert controller.alive() and controller.child is not first and controller.address == address
    controller.end_when_empty()
    controller.child.process.wait(END_S)
    assert not controller.alive()


def test_one_that_is_killed_meanwhile_comes_back(controller: Controller) -> None:
    """Agents of other hosts still need it."""
    # So that the kill comes first.
    controller.child.send(signal.SIGSTOP)
    controller.end_when_empty()
    controller.child.send(signal.SIGKILL)
    assert controller.child.process.wait(END_S) == -signal.SIGKILL
    assert controller.alive() and controller.child.process.poll() is None


def test_it_moves_to_another_address_on_its_port(controller: Controller) -> None:
    """Where it cannot listen it does not stay: it comes back where it was."""
    first, port = controller.child, controller.port
    assert controller.move(f"127.0.0.2:{port}")
    assert controller.address == f"127.0.0.2:{port}" and first.process.poll() == -signal.SIGKILL
    socket.create_connection(("127.0.0.2", int(port)), END_S).close()
    assert not controller.move(f"192.0.2.1:{port}")
    assert controller.alive() and controller.address == f"127.0.0.2:{port}"
    socket.create_connection(("127.0.0.2", int(port)), END_S).close()
