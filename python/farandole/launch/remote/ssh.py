"""Other hosts by ssh: how a program there is started.

A host gets everything that is nobody else's business on the stdin of ssh: the token, the certificate, the environment.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping

from farandole.launch.settings.settings import Settings

# A host that has vanished without a word is noticed after so many times so many seconds.
ALIVE_S, ALIVE_TIMES = 15, 3
HOST_PROGRAM = "farandole.launch.remote.host"
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


def remote_python() -> str:
    """The Python there."""
    return os.environ.get("FARANDOLE_REMOTE_PYTHON") or sys.executable


def command(settings: Settings, host: str, timeout_s: float, *arguments: str, module: str = HOST_PROGRAM) -> list[str]:
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
    python = remote_python()
    path = os.environ.get("PYTHONPATH")
    words = ["env", f"PYTHONPATH={path}", python] if path else [python]
    return [*result, "--", host, shlex.join([*words, "-m", module, *arguments])]
