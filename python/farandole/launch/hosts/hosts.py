"""Hosts of a run, and which ranks run where."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

# More than any host has cores.
SLOTS_MAX = 4096
_NAME = re.compile(r"[A-Za-z0-9_.:%@-]+")
_LOOPBACK = re.compile(r"127\.\d+\.\d+\.\d+")


@dataclass(frozen=True)
class Host:
    """A host as the user names it, perhaps USER@NAME, and how many processes it takes."""

    name: str
    slots: int


@dataclass(frozen=True)
class HostRanks:
    """Ranks `first_rank` to `first_rank + local_size - 1` run on `host`."""

    host: str
    first_rank: int
    local_size: int


def number_of_slots(text: str, least: int) -> int | None:
    """None: it is no number from `least` to SLOTS_MAX."""
    slots = int(text) if re.fullmatch("[0-9]{1,9}", text) else -1
    return slots if least <= slots <= SLOTS_MAX else None


def _slots(text: str, where: str) -> int:
    slots = number_of_slots(text, 1)
    if slots is None:
        raise ValueError(f"{where}: {text[:80]!r} is not a number of slots between 1 and {SLOTS_MAX}")
    return slots


def is_name(text: str) -> bool:
    """Whether a host may be called so. A name that begins with "-" would be an option of ssh."""
    return bool(_NAME.fullmatch(text)) and not text.startswith("-")


def _checked(name: str, where: str) -> str:
    if not is_name(name):
        raise ValueError(f"{where}: {name!r} is not the name of a host")
    return name


def parse_host(text: str, where: str) -> Host:
    """``NAME:SLOTS`` or ``NAME``, which has one slot; an IPv6 address stands in brackets. Raises ValueError."""
    bracketed = re.fullmatch(r"\[([^\]]*)\](?:(:)(.*))?", text)
    name, colon, slots = bracketed.groups() if bracketed else text.partition(":")
    return Host(_checked(name, where), _slots(slots, where) if colon else 1)


def _merged(hosts: Iterable[Host], where: str) -> tuple[Host, ...]:
    """Slots of a host that is named twice add up; this one may have several names."""
    slots: dict[str, int] = {}
    here = None
    for host in hosts:
        name = host.name
        if is_local(name):
            name = here = here or name
        slots[name] = slots.get(name, 0) + host.slots
    if not slots:
        raise ValueError(f"{where}: no host")
    return tuple(Host(name, number) for name, number in slots.items())


def parse_hosts(text: str) -> tuple[Host, ...]:
    """``host1:2,host2:4``. Raises ValueError with a sentence for what is wrong."""
    return _merged((parse_host(part.strip(), f"-H {text}") for part in text.split(",") if part.strip()), f"-H {text}")


def read_hostfile(path: str) -> tuple[Host, ...]:
    """A file of lines ``host slots=N``, or ``host``; # begins a comment. Raises ValueError for all else."""
    try:
        with open(path) as file:
            lines = file.read().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"--hostfile {path}: {getattr(error, 'strerror', None) or 'is not text'}") from None
    hosts = []
    for number, line in enumerate(lines, 1):
        words = line.split("#")[0].replace("=", " = ").split()
        where = f"--hostfile {path}:{number}"
        if not words:
            continue
        if len(words) == 1:
            hosts.append(parse_host(words[0], where))
        elif len(words) == 4 and words[1:3] == ["slots", "="]:
            hosts.append(Host(_checked(words[0].strip("[]"), where), _slots(words[3], where)))
        else:
            raise ValueError(f"{where}: {line.strip()!r} is not 'HOST slots=N'")
    return _merged(hosts, f"--hostfile {path}")


def of_lsf(environment: Mapping[str, str]) -> tuple[Host, ...]:
    """The hosts of a job of LSF, in which we run: "host1 4 host2 4". Empty: it is none. Raises ValueError."""
    words = environment.get("LSB_MCPU_HOSTS", "").split() if "LSB_JOBID" in environment else []
    where = "LSB_MCPU_HOSTS"
    named = [Host(_checked(name, where), _slots(slots, where)) for name, slots in zip(words[::2], words[1::2])]
    return _merged(named, where) if named else ()


def is_local(name: str) -> bool:
    """Whether this is the machine that we run on, under one of its usual names. A USER@ asks for ssh in any case."""
    own = socket.gethostname()
    return name in ("localhost", "::1", own, own.split(".")[0]) or bool(_LOOPBACK.fullmatch(name))


def assign_ranks(hosts: Sequence[Host], processes: int) -> tuple[HostRanks, ...]:
    """Fills the hosts in their order. Raises ValueError if they have not enough slots."""
    slots = sum(host.slots for host in hosts)
    if processes > slots:
        named = ", ".join(f"{host.name}:{host.slots}" for host in hosts)
        raise ValueError(f"the hosts have slots for {slots} of {processes} processes: {named}")
    assigned, first = [], 0
    for host in hosts:
        taken = min(host.slots, processes - first)
        if taken:
            assigned.append(HostRanks(host.name, first, taken))
        first += taken
    return tuple(assigned)
