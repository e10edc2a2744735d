"""The rooms of the house: which folder may include which, and the namespace of each. Without cycles."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cache

from source_tree import Source, Tree

# Every folder with C++ of the product, and the other folders whose headers it may include. A folder may always include
# its own. Tests and their helpers may also include all of the top-level folders that theirs builds on.
MAY_INCLUDE: dict[str, tuple[str, ...]] = {
    "base": (),
    "proto": (),
    "proto/codec": ("base", "proto", "proto/rules"),
    "proto/rules": ("proto",),
    "transport": ("base",),
    "transport/inproc": ("base", "transport"),
    "transport/layers": ("base", "transport"),
    "transport/tcp": ("base", "transport"),
    "transport/verbs": ("base", "transport", "transport/tcp"),
    "controller": (
        "base",
        "proto",
        "controller/audit",
        "controller/files",
        "controller/hub",
        "controller/query",
        "controller/rpc",
        "controller/token",
        "controller/types",
    ),
    "controller/audit": ("base",),
    "controller/files": ("base", "controller/audit", "controller/hub", "controller/types"),
    "controller/hub": (
        "base",
        "proto",
        "proto/codec",
        "proto/rules",
        "controller/audit",
        "controller/job",
        "controller/members",
        "controller/types",
    ),
    "controller/job": (
        "base",
        "proto",
        "controller/log",
        "controller/members",
        "controller/ready",
        "controller/recovery",
        "controller/replay",
        "controller/types",
        "controller/waits",
    ),
    "controller/log": ("proto", "controller/members", "controller/types"),
    "controller/members": ("base", "proto", "proto/rules", "controller/types"),
    "controller/metrics": ("base", "proto", "controller/hub", "controller/types"),
    "controller/query": ("base", "proto", "controller/rpc"),
    "controller/token": ("base", "proto", "controller/audit", "controller/files", "controller/hub"),
    "controller/ready": ("base", "proto", "proto/rules", "controller/log", "controller/types"),
    "controller/recovery": (
        "base",
        "proto",
        "controller/log",
        "controller/members",
        "controller/ready",
        "controller/replay",
        "controller/types",
    ),
    "controller/replay": (
        "base",
        "proto",
        "proto/rules",
        "controller/log",
        "controller/members",
        "controller/ready",
        "controller/types",
    ),
    "controller/rpc": (
        "base",
        "proto",
        "proto/codec",
        "proto/rules",
        "controller/audit",
        "controller/files",
        "controller/hub",
        "controller/metrics",
        "controller/token",
        "controller/types",
    ),
    "controller/types": ("base", "proto"),
    "controller/waits": ("base", "proto", "controller/ready", "controller/replay", "controller/types"),
    "agent": ("base", "proto", "agent/core", "agent/launch", "agent/launcher", "agent/segments"),
    "agent/core": (
        "base",
        "proto",
        "proto/codec",
        "proto/rules",
        "agent/launcher",
        "agent/link",
        "agent/local",
        "agent/processes",
        "agent/segments",
    ),
    "agent/launch": ("base", "proto", "proto/codec", "agent/core", "agent/launcher", "agent/output", "agent/processes"),
    "agent/launcher": ("base",),
    "agent/link": ("base", "proto", "proto/codec", "proto/rules"),
    "agent/local": ("base", "proto", "proto/codec"),
    "agent/output": ("base",),
    "agent/processes": ("base", "proto", "agent/launcher"),
    "agent/segments": ("base", "proto", "agent/launcher"),
    "worker": (
        "base",
        "proto",
        "transport/verbs",
        "worker/completion",
        "worker/control",
        "worker/cuda",
        "worker/device",
        "worker/execute",
        "worker/kernels",
        "worker/link",
        "worker/nccl",
        "worker/os",
        "worker/schedule",
        "worker/select",
        "worker/session",
        "worker/shm",
        "worker/timeline",
    ),
    "worker/arithmetic": ("proto",),
    "worker/collective": ("base", "proto", "worker/arithmetic", "worker/device"),
    "worker/completion": ("worker/os",),
    "worker/control": (
        "base",
        "worker/execute",
        "worker/link",
        "worker/os",
        "worker/session",
        "worker/timeline",
    ),
    "worker/cuda": ("worker/device",),
    "worker/device": (),
    "worker/execute": (
        "base",
        "worker/arithmetic",
        "worker/collective",
        "worker/device",
        "worker/os",
        "worker/session",
    ),
    "worker/hier": ("base", "transport", "worker/arithmetic", "worker/collective", "worker/schedule", "worker/shm"),
    "worker/kernels": ("proto", "worker/arithmetic", "worker/cuda"),
    "worker/link": ("base", "proto", "proto/codec", "controller/job", "worker/collective"),
    "worker/nccl": (
        "base",
        "proto",
        "worker/arithmetic",
        "worker/collective",
        "worker/cuda",
        "worker/device",
        "worker/kernels",
        "worker/os",
    ),
    "worker/os": ("base",),
    "worker/schedule": (
        "base",
        "proto",
        "transport",
        "transport/layers",
        "worker/arithmetic",
        "worker/collective",
        "worker/os",
    ),
    "worker/select": (
        "base",
        "proto",
        "transport",
        "transport/tcp",
        "transport/verbs",
        "worker/collective",
        "worker/cuda",
        "worker/device",
        "worker/hier",
        "worker/nccl",
        "worker/os",
        "worker/schedule",
        "worker/shm",
        "worker/staging",
    ),
    "worker/session": (
        "base",
        "proto",
        "proto/rules",
        "worker/collective",
        "worker/completion",
        "worker/device",
        "worker/os",
    ),
    "worker/shm": ("base", "proto", "worker/arithmetic", "worker/collective", "worker/os"),
    "worker/staging": ("base", "worker/collective", "worker/cuda", "worker/device"),
    "worker/timeline": (
        "base",
        "proto",
        "worker/collective",
        "worker/device",
        "worker/link",
        "worker/os",
        "worker/session",
    ),
    "frameworks": (
        "proto",
        "proto/codec",
        "worker",
        "worker/arithmetic",
        "worker/completion",
        "worker/device",
        "worker/kernels",
        "worker/os",
        "worker/session",
        "worker/shm",
    ),
    "frameworks/jax": ("frameworks", "frameworks/plugin"),
    "frameworks/mxnet": ("frameworks", "frameworks/plugin"),
    "frameworks/plugin": ("frameworks",),
    "frameworks/tensorflow": ("frameworks", "frameworks/plugin"),
    "frameworks/torch": ("frameworks", "frameworks/plugin"),
    "perf": ("base", "proto", "perf/control", "perf/data"),
    "perf/control": ("base", "proto", "proto/codec", "agent/core", "agent/link", "worker/session"),
    "perf/data": (
        "base",
        "proto",
        "transport",
        "transport/tcp",
        "transport/verbs",
        "worker",
        "worker/collective",
        "worker/link",
        "worker/os",
        "worker/schedule",
        "perf/control",
    ),
}
# Folders whose names are the words of all that build on them: these lie in the namespace above.
SHARED_WORDS = {
    "base": "farandole",
    "proto": "farandole",
    "proto/codec": "farandole",
    "proto/rules": "farandole",
    "controller/types": "farandole::controller",
}
TOP_FOLDERS = tuple(sorted({room.split("/")[0] for room in MAY_INCLUDE}))
_TESTS_ONLY = re.compile(r"(^|/)(fake_\w+|\w+_(test|testing|benchmark|bench_main))\.(cc|h)$")
_NAMESPACE = re.compile(r"^namespace (farandole[\w:]*) \{", re.MULTILINE)
_TYPE = re.compile(r"^(?:class|struct|union|enum(?: class)?) (\w+)(?: final)?\s*(?::[^:;{][^;{]*)?\{", re.MULTILINE)


def room_of(source: Source) -> str:
    """The folder that a file lies in."""
    return source.path.rsplit("/", 1)[0]


def namespace_of(room: str) -> str:
    """The one namespace of a room: its path, but for those whose words are shared."""
    path = room[len("tests/") :].split("/")[0] if room.startswith("tests/") else room
    return SHARED_WORDS.get(room, "farandole::" + path.replace("/", "::"))


@cache
def _may_include(room: str, for_tests: bool) -> frozenset[str]:
    mine = {room, *MAY_INCLUDE.get(room, ())}
    if for_tests:
        top = room.split("/")[0]
        siblings = [allowed for other, allowed in MAY_INCLUDE.items() if other.split("/")[0] == top]
        below = {top} | {other.split("/")[0] for allowed in siblings for other in allowed}
        mine |= {other for other in MAY_INCLUDE if other.split("/")[0] in below}
    return frozenset(mine)


def edges(tree: Tree) -> list[str]:
    """A file includes its own room and those that the table lets it; every room is in the table."""
    bad = []
    for source in tree.cpp:
        room = room_of(source)
        if source.folder not in TOP_FOLDERS:
            continue
        if room not in MAY_INCLUDE:
            bad.append(f"{source.path}:1: {room}/ is no room that tests/tidy/rooms.py knows")
            continue
        allowed = _may_include(room, bool(_TESTS_ONLY.search(source.path)))
        bad += [
            f'{source.path}:{line}: {room}/ must not include "{name}"'
            for line, name in source.includes
            if name.split("/")[0] in TOP_FOLDERS
            and "/" in name
            and name.rsplit("/", 1)[0] not in allowed
            and not name.startswith("proto/generated/")
        ]
    return bad


def cycle(table: Mapping[str, Sequence[str]]) -> list[str]:
    """Rooms of which each may build on the next and the last on the first; empty if there is none."""
    done: set[str] = set()

    def search(room: str, path: list[str]) -> list[str]:
        if room in path:
            return path[path.index(room) :]
        if room in done:
            return []
        for other in table[room]:
            found = search(other, [*path, room])
            if found:
                return found
        done.add(room)
        return []

    return next((found for room in table if (found := search(room, []))), [])


def no_cycles(tree: Tree) -> list[str]:
    """The table has no cycle."""
    found = cycle(MAY_INCLUDE)
    return [f"tests/tidy/rooms.py:1: rooms in a circle: {' -> '.join(found)}"] if found else []


def namespaces(tree: Tree) -> list[str]:
    """One namespace for each room, and every room's own."""
    bad = []
    for source in tree.cpp:
        room = room_of(source)
        if source.folder not in (*TOP_FOLDERS, "tests"):
            continue
        expected = namespace_of(room)
        for match in _NAMESPACE.finditer(source.code):
            if match.group(1) != expected:
                line = source.code.count("\n", 0, match.start()) + 1
                bad.append(f"{source.path}:{line}: namespace {match.group(1)}; that of {room}/ is {expected}")
    return bad


def _without_anonymous(source: Source) -> str:
    """The code with the lines of anonymous namespaces blank; whose ends are known by their comments."""
    lines = source.code.split("\n")
    inside = False
    for i, line in enumerate(source.text.split("\n")):
        inside = (inside or line == "namespace {") and line != "}  // namespace"
        if inside:
            lines[i] = ""
    return "\n".join(lines)


def types_once(tree: Tree) -> list[str]:
    """No type of one qualified name is defined in two places: in one program they would be mixed up in silence."""
    places: dict[str, list[str]] = defaultdict(list)
    for source in tree.cpp:
        match = _NAMESPACE.search(source.code)
        if match is None:
            continue
        code = _without_anonymous(source)
        for found in _TYPE.finditer(code):
            line = code.count("\n", 0, found.start()) + 1
            places[f"{match.group(1)}::{found.group(1)}"].append(f"{source.path}:{line}")
    return [f"{where[-1]}: {name} is defined in {where[0]}, too" for name, where in places.items() if len(where) > 1]
