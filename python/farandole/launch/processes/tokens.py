"""What opens a controller, and how it gets into a process without standing in its environment or command line."""

from __future__ import annotations

import hashlib
import hmac
import os


def member_token(key: str, job: str) -> str:
    """What an agent shows to the controller. `key` is taken as the text that the controller was given: of two keys,
    each in a line, the first one counts."""
    return _token(key, job, "member")


def observer_token(key: str, job: str) -> str:
    """What somebody shows who may read the job's status, and nothing else."""
    return _token(key, job, "observer")


def _token(key: str, job: str, role: str) -> str:
    first = key.split("\n", 1)[0].rstrip()
    return hmac.new(first.encode(), f"{job}/{role}".encode(), hashlib.sha256).hexdigest()


def pipe_with(secret: str) -> int:
    """Read end of a pipe that holds `secret` and nothing more; the caller closes it."""
    reader, writer = os.pipe()
    try:
        os.write(writer, secret.encode())
    finally:
        os.close(writer)
    return reader
