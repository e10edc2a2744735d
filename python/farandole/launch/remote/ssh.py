"""Other hosts by ssh: how a program there is started, and asked.

A host gets everything that is nobody else's business on the stdin of ssh: the token, the certificate, the environment.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence

from farandole.launch.processes.agents import Say
from farandole.launch.settings.settings import Settings
from farandole.version import __version__

# Before what the program on the other host answers; shells print greetings.
MARK = "farandole-remote: "
# A host that has vanished without a word is noticed after so many times so many seconds.
ALIVE_S, ALIVE_TIMES = 15, 3
AT_ONCE = 64
SSH_FAILED = 255
REMOTE = "farandole.launch.remote.host"
_NOT_FORWARDED = ("OLDPWD", "PWD", "HOSTNAME", "SHLVL", "DISPLAY", "XAUTHORITY", "XDG_RUNTIME_DIR", "_")


def forwarded(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that remote workers get too: all that say nothing about this host or this login."""
    return {
        name: value
        for name, value in environment.items()
        if name not in _NOT_FORWARDED
        and not name.startswith(("BASH_FUNC_", "SSH_"))
        and not name.endswith("CUDA_VISIBLE_DEVICES")
    }


def command(settings: Settings, host: str, timeout_s: float, *arguments: str, module: str = REMOTE) -> list[str]:
    """Starts a module on a host. The user's ssh configuration holds, host keys included."""
    result = shlex.split(os.environ.get("FARANDOLE_SSH") or "ssh")
    for option in (
        "BatchMode=yes",
        f"ConnectTimeout={max(1, round(timeout_s))}",
        f"ServerAliveInterval={ALIVE_S}",
        f"ServerAliveCountMax={ALIVE_TIMES}",
    ):
        result += ["-o", option]
    result += ["-T"]
    result += [] if settings.ssh_port is None else ["-p", str(settings.ssh_port)]
    result += [] if settings.ssh_identity_file is None else ["-i", settings.ssh_identity_file]
    python = os.environ.get("FARANDOLE_REMOTE_PYTHON") or sys.executable
    path = os.environ.get("PYTHONPATH")
    words = ["env", f"PYTHONPATH={path}", python] if path else [python]
    return [*result, "--", host, shlex.join([*words, "-m", module, *arguments])]


class HostError(Exception):
    """A host cannot be used; the text says why, in one line."""


def _reason(host: str, done: subprocess.CompletedProcess, python: str) -> str:
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    last = lines[-1].strip() if lines else "it said nothing"
    if done.returncode == SSH_FAILED:
        return f"ssh failed: {last}"
    if done.returncode in (126, 127):
        return (
            f"there is no {python} there; install Farandole at the same place, or set FARANDOLE_REMOTE_PYTHON: {last}"
        )
    if "farandole" in last and "No module named" in last:
        return f"{python} there has no Farandole of this version: {last}"
    return f"the check there ended with code {done.returncode}: {last}"


def ask(settings: Settings, host: str, request: dict, timeout_s: float, *words: str, module: str = REMOTE) -> dict:
    """What a module on a host answers. Raises HostError."""
    arguments = command(settings, host, timeout_s, *words, module=module)
    try:
        done = subprocess.run(
            arguments,
            input=json.dumps(request) + "\n",
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            start_new_session=True,
        )
    except subprocess.TimeoutExpired:
        raise HostError(f"no answer within {timeout_s:g} s (--start-timeout)") from None
    except OSError as error:
        raise HostError(f"cannot start {arguments[0]}: {error.strerror}") from None
    answers = [line[len(MARK) :] for line in done.stdout.splitlines() if line.startswith(MARK)]
    if not answers:
        raise HostError(_reason(host, done, os.environ.get("FARANDOLE_REMOTE_PYTHON") or sys.executable))
    answer = json.loads(answers[-1])
    if answer["version"] != __version__:
        raise HostError(f"Farandole {answer['version']} is there, {__version__} is here")
    if answer["error"]:
        raise HostError(answer["error"])
    return answer


def preflight(
    settings: Settings, hosts: Sequence[str], environment: Mapping[str, str], timeout_s: float
) -> dict[str, dict] | None:
    """Asks all hosts at once. What each says of itself; None if one cannot be used: a line for each has been said."""
    request = {
        "environment": forwarded(environment),
        "folder": os.getcwd(),
        "program": settings.command[0],
        "interfaces": settings.network_interfaces,
    }

    return ask_all(hosts, lambda host: ask(settings, host, request, timeout_s, "--check"), settings.say)


def ask_all(hosts: Sequence[str], one: Callable[[str], dict], say: Say) -> dict[str, dict] | None:
    """Asks all hosts at once, each with `one`, which may raise HostError.

    Their answers; None if any has none: a line for each of those has been said.
    """

    def answer_of(host: str) -> dict | HostError:
        try:
            return one(host)
        except HostError as error:
            return error

    # A job on this host alone does without what this brings.
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(min(AT_ONCE, len(hosts))) as pool:
        answers = dict(zip(hosts, pool.map(answer_of, hosts)))
    wrong = {host: answer for host, answer in answers.items() if isinstance(answer, HostError)}
    for host, error in wrong.items():
        say(f"host {host}: {error}")
    return None if wrong else answers
