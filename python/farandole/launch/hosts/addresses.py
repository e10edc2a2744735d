"""Addresses: of network interfaces, and those under which hosts find each other."""

from __future__ import annotations

import fcntl
import ipaddress
import socket
import struct
from collections.abc import Sequence

SIOCGIFADDR = 0x8915
NAME_BYTES_MAX = 15
# Of documentation (RFC 5737): whatever is not near lies behind the default route, as this does.
FAR_AWAY = ("192.0.2.1", 9)
# The way to a host does not depend on the port; this one is always named.
SSH_PORT = 22
LOOPBACK = "127.0.0.1"


def _ipv4(name: str) -> str:
    request = struct.pack("256s", name.encode()[:NAME_BYTES_MAX])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        try:
            return socket.inet_ntoa(fcntl.ioctl(any_socket.fileno(), SIOCGIFADDR, request)[20:24])
        except OSError:
            return ""


def _ipv6(name: str) -> str:
    """The first that is valid beyond the link."""
    try:
        with open("/proc/net/if_inet6") as file:
            rows = [line.split() for line in file]
    except OSError:
        return ""
    found = [str(ipaddress.IPv6Address(int(row[0], 16))) for row in rows if row[5] == name]
    return next((address for address in found if not ipaddress.ip_address(address).is_link_local), "")


def address_of(names: Sequence[str]) -> str:
    """The address of the first of the interfaces that has one; IPv4 before IPv6. Empty: none has."""
    return next((address for name in names for address in (_ipv4(name), _ipv6(name)) if address), "")


def own_address() -> str:
    """That of this host which others will most likely reach: of its default route, otherwise the only one that is not
    loopback's. Empty: there is none, or no telling."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(FAR_AWAY)  # sends nothing
            return probe.getsockname()[0]
        except OSError:
            pass
    found = [address_of([name]) for _, name in socket.if_nameindex() if name != "lo"]
    addresses = [address for address in found if address]
    return addresses[0] if len(addresses) == 1 else ""


def is_own(address: str) -> bool:
    """Whether an address is one of this host's."""
    try:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.bind((address, 0))
        return True
    except OSError:
        return False


def address_towards(host: str, port: int) -> str:
    """Numeric address of this host from which it reaches another one by its name; empty: it cannot be told."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.connect(address)  # sends nothing
            return probe.getsockname()[0]
    except OSError:
        return ""


def address_towards_controller(controller: str) -> str:
    """Numeric address of this host from which it reaches the controller at HOST:PORT; empty: it cannot be told yet."""
    host, _, port = controller.rpartition(":")
    return address_towards(host.strip("[]"), int(port))


def address_for(host: str, seen: str = "") -> str:
    """Ours, under which a remote host finds us; empty: it cannot be told.

    Args:
        host: its name, perhaps USER@NAME.
        seen: how it sees us; empty: it has not said so.
    """
    return seen if seen and is_own(seen) else address_towards(host.rpartition("@")[2], SSH_PORT)


def endpoint(host: str, port: str) -> str:
    """HOST:PORT; an IPv6 address stands in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
