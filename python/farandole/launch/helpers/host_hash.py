"""A name for what shares memory, as ``horovod.runner.common.util.host_hash`` makes it."""

from __future__ import annotations

import hashlib
import os
import socket

_NAMESPACES = "/proc/self/ns"


def host_hash(salt: object = None) -> str:
    """The short name of this host, and a digest of its whole name, of the namespaces (containers) that this process
    lives in, and of `salt`, if that is not empty. Processes with the same one share a host and its memory."""
    name = socket.gethostname()
    spaces = sorted(os.listdir(_NAMESPACES)) if os.path.isdir(_NAMESPACES) else []
    parts = [name, *(os.readlink(f"{_NAMESPACES}/{space}") for space in spaces)]
    if salt:
        parts.append(str(salt))
    return f"{name.split('.')[0]}-{hashlib.sha256(' '.join(parts).encode()).hexdigest()[:32]}"
