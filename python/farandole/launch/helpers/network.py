"""Addresses, and the services of ``horovod.runner.common.util.network`` that are not there."""

from __future__ import annotations

from typing import Any

_SERVICES = {"AckResponse", "AckStreamResponse", "BasicClient", "BasicService", "PingRequest", "PingResponse", "Wire"}


class NoValidAddressesFound(Exception):
    """Nobody answers at any address."""


def __getattr__(name: str) -> Any:
    if name in _SERVICES:
        raise ImportError(
            f"{name} of horovod.runner.common.util.network does not exist: it unpickles what others send. Between the "
            "ranks of a job use hvd.broadcast_object and hvd.allgather_object; to run a function on several hosts, "
            "farandole.run"
        )
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
