"""Addresses and ports of this host, as ``horovod.runner.util.network`` and ``horovod.runner.common.util.network`` have
them."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from farandole.launch.helpers.threads import execute_function_multithreaded
from farandole.launch.hosts import addresses

PORTS_MAX = 100
"""How many ports `find_port` tries."""
_Server = TypeVar("_Server")


class NoValidAddressesFound(Exception):
    """Nobody answers at any address."""


def _ipv4_by_interface() -> dict[str, str]:
    found = {name: addresses.address_of([name]) for _, name in socket.if_nameindex()}
    return {name: address for name, address in found.items() if "." in address}


def get_local_host_addresses() -> set[str]:
    """The IPv4 address of each network interface that has one."""
    return set(_ipv4_by_interface().values())


def get_local_intfs(nic: str | None = None) -> set[str]:
    """The names of the interfaces with the address 127.0.0.1; of `nic` alone if it is given."""
    found = {name for name, address in _ipv4_by_interface().items() if address == addresses.LOOPBACK}
    return found & {nic} if nic else found


def resolve_host_address(host_name: str) -> str | None:
    """The IPv4 address of a host; None if nobody knows it."""
    try:
        return socket.gethostbyname(host_name)
    except (OSError, UnicodeError):
        return None


def filter_local_addresses(all_host_names: Sequence[str]) -> list[str]:
    """Those of the hosts that are not this one, in their order; among them those whose address nobody knows."""
    found = execute_function_multithreaded(resolve_host_address, [[name] for name in all_host_names]) or {}
    return [name for i, name in enumerate(all_host_names) if not (found[i] and addresses.is_own(found[i]))]


def find_port(server_factory: Callable[[tuple[str, int]], _Server]) -> tuple[_Server, int]:
    """A server, and the free port that it was made for.

    Args:
        server_factory: makes it for the address ("", port); OSError: that port does not do.

    Raises:
        OSError: PORTS_MAX ports in a row did not do.
    """
    failed: OSError | None = None
    for _ in range(PORTS_MAX):
        with socket.socket() as probe:
            probe.bind(("", 0))
            port = probe.getsockname()[1]
        try:
            return server_factory(("", port)), port
        except OSError as error:
            failed = error
    raise OSError(f"none of {PORTS_MAX} ports could be used; the last one: {failed}")


def get_driver_ip(nics: Iterable[str]) -> str:
    """The address of the first of these interfaces of this host that has one. Raises RuntimeError if none has."""
    names = list(nics)
    found = addresses.address_of(names)
    if not found:
        raise RuntimeError(f"none of the network interfaces {', '.join(names)} has an address on this host")
    return found
