"""Asks other hosts something before a job begins, or after it has ended: all at once, and until somebody says stop."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any

from farandole.launch.processes.child import pipe
from farandole.launch.processes.waiting import Loop
from farandole.launch.remote import ssh
from farandole.launch.remote.messages import MARK, check, message_of
from farandole.launch.settings.settings import Settings
from farandole.version import __version__

# So many ssh processes at a time, with three pipes each.
AT_ONCE = 512
SSH_FAILED = 255
# Of a host's answer to `--check`.
CHECKED = {"seen": str, "address": str}
READ_BYTES = 1 << 16
# What a host may say.
ANSWER_BYTES_MAX = 1 << 30
# Of what it says, in sentences.
QUOTED_MAX = 80
# Between two looks at whether to stop.
LOOK_S = 0.5


class HostError(Exception):
    """A host cannot be used; the text says why, in one line."""


class _Question:
    """One ssh process under way, from its start to its end."""

    def __init__(self, command: Sequence[str], request: bytes, fields: Mapping[str, type], timeout_s: float) -> None:
        self._fields, self._timeout_s = fields, timeout_s
        self._deadline = time.monotonic() + timeout_s
        self._unsent = memoryview(request)
        self.late = False
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )
        self._stdin = pipe(self.process.stdin)
        self._said = {pipe(end): bytearray() for end in (self.process.stdout, self.process.stderr)}
        for end in (self._stdin, *self._said):
            os.set_blocking(end.fileno(), False)

    def readers(self) -> list[IO[bytes]]:
        return [end for end in self._said if not end.closed]

    def writers(self) -> list[IO[bytes]]:
        return [] if self._stdin.closed else [self._stdin]

    def over(self, ready: set[int]) -> bool:
        """Goes on; whether it has ended, or takes too long."""
        if not self._stdin.closed and self._stdin.fileno() in ready:
            self._send()
        for end in self.readers():
            if end.fileno() in ready:
                chunk = os.read(end.fileno(), READ_BYTES)
                self._said[end] += chunk
                if not chunk or len(self._said[end]) > ANSWER_BYTES_MAX:
                    end.close()
        self.late = time.monotonic() > self._deadline
        return self.late or (not self.readers() and self.process.poll() is not None)

    def _send(self) -> None:
        try:
            self._unsent = self._unsent[os.write(self._stdin.fileno(), self._unsent) :]
        except BlockingIOError:
            return
        except OSError:
            self._unsent = self._unsent[:0]  # what has become of ssh is seen by waiting for it
        if not self._unsent:
            self._stdin.close()

    def answer(self) -> dict[str, Any]:
        """Raises HostError."""
        if self.late:
            raise HostError(f"no answer within {self._timeout_s:g} s (--start-timeout)")
        out, err = (bytes(said).decode(errors="replace") for said in self._said.values())
        answers = [line[len(MARK) :] for line in out.splitlines() if line.startswith(MARK)]
        if not answers:
            raise HostError(_reason(err, self.process.returncode, ssh.remote_python()))
        try:
            answer = message_of(answers[-1])
            check(answer, {"version": str})
            if answer["version"] != __version__:
                raise HostError(f"Farandole {answer['version']} is there, {__version__} is here")
            check(answer, {"error": str})
            if answer["error"]:
                raise HostError(answer["error"])
            check(answer, self._fields)
        except ValueError as error:
            raise HostError(f"it answers with something else, {ascii(answers[-1][:QUOTED_MAX])}: {error}") from None
        return answer

    def kill(self) -> None:
        """The process, if it still runs. The first of two steps, so that all end at the same time."""
        if self.process.poll() is None:
            self.process.kill()

    def close(self) -> None:
        """After `kill`."""
        self.process.wait()
        for end in (self._stdin, *self._said):
            end.close()


def _reason(err: str, code: int, python: str) -> str:
    lines = [line for line in err.splitlines() if line.strip()]
    last = lines[-1].strip() if lines else "it said nothing"
    if code == SSH_FAILED:
        return f"ssh failed: {last}"
    if code in (126, 127):
        return (
            f"there is no {python} there; install Farandole at the same place, or set FARANDOLE_REMOTE_PYTHON: {last}"
        )
    if "farandole" in last and "No module named" in last:
        return f"{python} there has no Farandole of this version: {last}"
    return f"the check there ended with code {code}: {last}"


def ask_all(
    settings: Settings,
    hosts: Sequence[str],
    request: Mapping[str, object],
    fields: Mapping[str, type],
    timeout_s: float,
    loop: Loop,
    stop: Callable[[], bool],
    *words: str,
    module: str = ssh.HOST_PROGRAM,
) -> dict[str, dict[str, Any]]:
    """What a module on each of the hosts answers to a request, the same for all: these fields.

    Says a line for each host that has none. It is missing then, and so are all that had none yet when `stop` said so.
    """
    line = json.dumps(request).encode() + b"\n"
    waiting = list(hosts)
    asked: dict[str, _Question] = {}
    answers: dict[str, dict[str, Any]] = {}
    problems: dict[str, HostError] = {}
    try:
        while (waiting or asked) and not stop():
            while waiting and len(asked) < AT_ONCE:
                host = waiting.pop(0)
                command = ssh.command(settings, host, timeout_s, *words, module=module)
                try:
                    asked[host] = _Question(command, line, fields, timeout_s)
                except OSError as error:
                    problems[host] = HostError(f"cannot start {command[0]}: {error.strerror}")
            questions = asked.values()
            readers = [reader for question in questions for reader in question.readers()]
            ready = loop.wait(readers, LOOK_S, [writer for question in questions for writer in question.writers()])
            for host in [host for host, question in asked.items() if question.over(ready)]:
                question = asked.pop(host)
                try:
                    answers[host] = question.answer()
                except HostError as error:
                    problems[host] = error
                finally:
                    question.kill()
                    question.close()
    finally:
        for question in asked.values():
            question.kill()
        for question in asked.values():
            question.close()
    for host in hosts:
        if host in problems:
            settings.say(f"host {host}: {problems.pop(host)}")
    return {host: answers[host] for host in hosts if host in answers}
