"""Hosts and the place of each rank, as ``horovod.runner.common.util.hosts`` has them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from farandole.launch.hosts import hosts


@dataclass
class HostInfo:
    """A host and how many processes it takes."""

    hostname: str
    slots: int

    @staticmethod
    def from_string(host_string: str) -> HostInfo:
        """Of ``HOST:SLOTS``. Raises ValueError."""
        host = hosts.parse_host(host_string.strip(), repr(host_string))
        return HostInfo(host.name, host.slots)


@dataclass
class SlotInfo:
    """Where a rank runs."""

    hostname: str
    rank: int
    local_rank: int
    cross_rank: int
    size: int
    local_size: int
    cross_size: int

    def to_response_string(self) -> str:
        """Its numbers in the order rank, size, local rank, local size, cross rank, cross size, with commas."""
        numbers = (self.rank, self.size, self.local_rank, self.local_size, self.cross_rank, self.cross_size)
        return ",".join(map(str, numbers))


INVALID_SLOT_INFO = SlotInfo("", *6 * [-1])


def parse_hosts(hosts_string: str) -> list[HostInfo]:
    """Of ``host1:2,host2:4``. Raises ValueError."""
    return [HostInfo.from_string(part) for part in hosts_string.split(",")]


def parse_host_files(filename: str) -> str:
    """A file of lines ``host slots=N`` as ``host1:2,host2:4``. Raises ValueError."""
    return ",".join(f"{host.name}:{host.slots}" for host in hosts.read_hostfile(filename))


def parse_hosts_and_slots(hosts: str) -> tuple[list[str], dict[str, int]]:
    """Names of ``host1:2,host2:4`` in their order, and the slots of each. Raises ValueError."""
    found = parse_hosts(hosts)
    return [host.hostname for host in found], {host.hostname: host.slots for host in found}


def get_host_assignments(
    hosts: Sequence[HostInfo], min_num_proc: int, max_num_proc: int | None = None
) -> list[SlotInfo]:
    """The place of each rank: hosts are filled in their order, up to `max_num_proc` ranks. Raises ValueError if there
    are fewer than `min_num_proc`."""
    slots = sum(host.slots for host in hosts)
    size = slots if max_num_proc is None else min(slots, max_num_proc)
    if size < min_num_proc:
        raise ValueError(f"Requested more processes ({min_num_proc}) than there are available slots ({size})")
    places = [(host.hostname, local) for host in hosts for local in range(host.slots)][:size]
    local_sizes = Counter(host for host, _ in places)
    cross_sizes = Counter(local for _, local in places)
    cross_ranks: Counter[int] = Counter()
    infos = []
    for rank, (host, local) in enumerate(places):
        infos.append(SlotInfo(host, rank, local, cross_ranks[local], size, local_sizes[host], cross_sizes[local]))
        cross_ranks[local] += 1
    return infos
