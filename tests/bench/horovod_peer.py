"""Horovod as a peer: ranks of the same script under either package, by turns."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path

import ranks
from players import Player, Task

NAME = "Horovod"


class Warmed(Player):
    """Ranks whose first block of a turn does not count, as another player has had the caches."""

    def run(self, what: Task) -> list[float]:
        """As a `Player`."""
        super().run(replace(what, blocks=1))
        return super().run(what)


class Stopped(Warmed):
    """Ranks of Horovod, which run only while they have a turn: they look around a thousand times a second."""

    def __init__(self, world: int, command: list[str]) -> None:
        super().__init__(NAME, world, lambda path: [*command, path])
        self._pids = [int(hello.split()[-1]) for hello in self.hellos]
        self._signal(signal.SIGSTOP)

    def _signal(self, number: int) -> None:
        for pid in self._pids:
            os.kill(pid, number)

    def run(self, what: Task) -> list[float]:
        """As a `Player`, from where they were stopped."""
        self._signal(signal.SIGCONT)
        try:
            return super().run(what)
        finally:
            self._signal(signal.SIGSTOP)

    def close(self) -> None:
        """Ends the ranks."""
        self._signal(signal.SIGCONT)
        super().close()


def ours(python: Path, world: int, script: str, *options: str) -> list[str]:
    """How ranks of a script beside this file are started with Farandole; PYTHONPATH has to have it."""
    launcher = [str(python), "-m", "farandole", "run", "-np", str(world), *options]
    return [*launcher, str(python), str(ranks.HERE / script), "farandole"]


def theirs(environment: Path, world: int, script: str, *options: str) -> list[str]:
    """The same with the Horovod of an environment that scripts/install_horovod.sh has made."""
    launcher = [str(environment / "bin" / "horovodrun"), "--gloo", "-np", str(world), *options]
    return [*launcher, str(environment / "bin" / "python"), str(ranks.HERE / script), "horovod"]


def players(world: int, script: str, python: Path, environment: Path) -> tuple[Player, Player]:
    """Both, started: ours with the interpreter `python`, and the Horovod of `environment`."""
    os.environ["PYTHONPATH"] = str(ranks.PYTHON_PATH)
    mine = Warmed("farandole", world, lambda path: [*ours(python, world, script), path])
    os.environ["PYTHONPATH"] = ""
    # Else its ranks fail when they have been stopped for 30 s.
    os.environ["HOROVOD_GLOO_TIMEOUT_SECONDS"] = "3600"
    try:
        return mine, Stopped(world, theirs(environment, world, script))
    except BaseException:
        mine.close()
        raise
