"""Peers that take turns: groups of rank processes that stay alive and measure one thing when told to, so that all of
them can be measured by turns in one run. The native ends are data_ranks_main.cc and mpi_ranks_main.cc; gloo_ranks.py is
the Python one."""

from __future__ import annotations

import os
import socket
import statistics
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

START_S = 60
ANSWER_S = 120
STRIDE_MIN = 64
BLOCK_BYTES = 256 << 10
CALLS_MAX = 256
ROUND_BYTES = 16 << 20
BLOCKS_MAX = 20


class NotMeasuredError(Exception):
    """A peer is not here or failed; the text says what and why."""


@dataclass(frozen=True)
class Task:
    """What ranks measure in a turn: `blocks` samples, each the mean of `calls` calls on `bytes` bytes."""

    what: str
    bytes: int
    calls: int
    blocks: int
    dtype: str = "float32"


def task(what: str, bytes_: int, dtype: str = "float32", slowness: int = 1) -> Task:
    """A turn of about 10 ms. Small operands come in blocks of several, each of its own memory, which together stay in
    the caches of their rank; `slowness` divides the calls of peers that need much longer."""
    stride = max(bytes_, STRIDE_MIN)
    calls = max(1, min(CALLS_MAX, BLOCK_BYTES // stride) // slowness)
    blocks = max(1, min(BLOCKS_MAX, ROUND_BYTES // (stride * calls)) // slowness)
    return Task(what, bytes_, calls, blocks, dtype)


class Player:
    """The ranks of one peer."""

    def __init__(self, name: str, ranks: int, command: Callable[[str], Sequence[str]]) -> None:
        """Starts `command(path of the socket)`; returns when all ranks have reported.

        Raises:
            NotMeasuredError: they do not come.
        """
        self.name = name
        self._scratch = tempfile.TemporaryDirectory(prefix="farandole-bench-")
        path = str(Path(self._scratch.name) / "driver")
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(path)
        listener.listen(ranks)
        listener.settimeout(1)
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
        self._process = subprocess.Popen(list(command(path)), env=environment, stdin=subprocess.DEVNULL)
        self._lines = []
        try:
            for _ in range(ranks):
                connection = self._accept(listener)
                connection.settimeout(ANSWER_S)
                self._lines.append(connection.makefile("rw"))
            self.hellos = [line.readline() for line in self._lines]
        except NotMeasuredError:
            self.close()
            raise
        finally:
            listener.close()

    def _accept(self, listener: socket.socket) -> socket.socket:
        for _ in range(START_S):
            try:
                return listener.accept()[0]
            except TimeoutError:
                if self._process.poll() is not None:
                    raise NotMeasuredError(f"{self.name} ended with code {self._process.returncode}") from None
        raise NotMeasuredError(f"the ranks of {self.name} did not come within {START_S} s")

    def run(self, what: Task) -> list[float]:
        """Seconds of a call in each block, on the rank on which it took longest.

        Raises:
            NotMeasuredError: a rank failed, or does not answer.
        """
        command = f"{what.what} {what.dtype} {what.bytes} {what.calls} {what.blocks}\n"
        try:
            for line in self._lines:
                line.write(command)
                line.flush()
            answers = [line.readline() for line in self._lines]
        except OSError as error:
            raise NotMeasuredError(f"{self.name}, {what}: {error}") from error
        for answer in answers:
            if not answer.strip() or answer.startswith("error"):
                raise NotMeasuredError(f"{self.name}, {what}: {answer.strip() or 'a rank is gone'}")
        return [max(block) for block in zip(*([float(word) for word in answer.split()] for answer in answers))]

    def close(self) -> None:
        """Ends the ranks, which do so when their line closes."""
        for line in self._lines:
            line.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._scratch.cleanup()


@dataclass
class Samples:
    """What one peer gave for one task: seconds of a call, for each round its samples."""

    rounds: list[list[float]]

    @property
    def medians(self) -> list[float]:
        """Of each round."""
        return [statistics.median(samples) for samples in self.rounds]

    @property
    def median(self) -> float:
        """Over rounds."""
        return statistics.median(self.medians)

    @property
    def p99(self) -> float:
        """Of all samples."""
        samples = sorted(sample for samples in self.rounds for sample in samples)
        return samples[min(len(samples) - 1, int(0.99 * len(samples)))]

    def over(self, other: Samples) -> list[float]:
        """How many times as long as `other`, in each round."""
        return [a / b for a, b in zip(self.medians, other.medians)]


def by_turns(turns: dict[str, tuple[Player, Task]], rounds: int) -> dict[str, Samples]:
    """One turn of each to warm up, then `rounds` rounds in which each has its turn, another one first every time."""
    for player, what in turns.values():
        player.run(what)
    names = list(turns)
    samples: dict[str, list[list[float]]] = {name: [] for name in names}
    for number in range(rounds):
        shift = number % len(names)
        for name in names[shift:] + names[:shift]:
            player, what = turns[name]
            samples[name].append(player.run(what))
    return {name: Samples(found) for name, found in samples.items()}
