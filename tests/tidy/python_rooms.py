"""The rooms of the Python packages: which of them may import which. Without cycles."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import rooms
from source_tree import Source, Tree

ROOTS = ("python/", "alias/")

# Every package, and the others whose modules it may import, without "farandole."; a package below another one is a room
# of its own. So is a module that stands here by itself: rooms build on it that others of its package build on.
MAY_IMPORT: dict[str, tuple[str, ...]] = {
    "farandole": ("launch.cli", "launch.function", "version"),
    "base": (),
    "core": ("exceptions", "library", "process", "process_sets"),
    "data": (),
    "elastic": ("base", "core", "exceptions", "library", "process", "process_sets", "session"),
    "exceptions": (),
    "library": ("base", "exceptions", "version"),
    "process": ("exceptions", "library"),
    "process_sets": ("library", "process"),
    "session": ("base", "exceptions", "library", "process", "process_sets"),
    "version": (),
    "launch": ("base",),
    "launch.cli": (
        "base",
        "launch.dashboard",
        "launch.job",
        "launch.kubernetes",
        "launch.settings",
        "launch.status",
        "library",
        "version",
    ),
    "launch.dashboard": ("launch.settings", "launch.status"),
    "launch.function": (
        "base",
        "exceptions",
        "launch.function.call_files",
        "launch.hosts",
        "launch.processes",
        "launch.remote",
        "launch.settings",
        "process",
        "version",
    ),
    "launch.function.call_files": ("base", "exceptions"),
    "launch.function.launcher": ("launch.cli", "launch.function", "launch.job"),
    "launch.helpers": ("launch.cli", "launch.hosts", "session"),
    "launch.hosts": (),
    "launch.job": (
        "base",
        "launch.function",
        "launch.hosts",
        "launch.processes",
        "launch.remote",
        "launch.settings",
        "launch.status",
        "launch.workers",
    ),
    "launch.keeper": ("base", "session", "launch.hosts", "launch.processes"),
    "launch.kubernetes": ("launch.dashboard", "launch.processes", "launch.settings", "launch.status", "version"),
    "launch.processes": ("base",),
    "launch.remote": ("base", "launch.hosts", "launch.processes", "launch.settings", "launch.workers", "version"),
    "launch.settings": ("base", "launch.hosts"),
    "launch.status": ("base", "launch.processes", "launch.settings"),
    "launch.workers": ("launch.function.call_files", "launch.processes"),
    "jax": (
        "core",
        "elastic",
        "exceptions",
        "library",
        "process",
        "process_sets",
        "session",
        "version",
    ),
    "_keras": (
        "core",
        "elastic",
        "jax",
        "library",
        "process",
        "process_sets",
        "tensorflow",
        "torch",
        "torch.compression",
    ),
    "keras": ("_keras", "core", "elastic", "process", "process_sets", "session", "version"),
    "mxnet": (
        "core",
        "exceptions",
        "library",
        "process",
        "process_sets",
        "session",
        "version",
    ),
    "tensorflow": (
        "base",
        "core",
        "elastic",
        "exceptions",
        "library",
        "process",
        "process_sets",
        "session",
        "version",
    ),
    "tensorflow.data": ("core", "process", "session"),
    "tensorflow.keras": ("_keras", "core", "elastic", "process", "process_sets", "session", "version"),
    "torch": (
        "base",
        "core",
        "exceptions",
        "process",
        "process_sets",
        "session",
        "torch.collectives",
        "torch.compression",
        "torch.elastic",
        "torch.functions",
        "torch.gradients",
        "torch.memory",
        "version",
    ),
    "torch.collectives": (
        "core",
        "exceptions",
        "library",
        "process",
        "process_sets",
        "torch.compression",
        "torch.memory",
    ),
    "torch.compression": (),
    "torch.elastic": ("core", "elastic", "torch.functions", "torch.gradients"),
    "torch.functions": ("core", "process", "torch.collectives", "torch.memory"),
    "torch.gradients": (
        "base",
        "core",
        "exceptions",
        "library",
        "process",
        "process_sets",
        "torch.collectives",
        "torch.compression",
        "torch.functions",
        "torch.memory",
    ),
    "torch.memory": ("core", "library"),
    "build_alias": (),
    "horovod": ("farandole", "horovod.runner"),
    "horovod.common": ("core", "process", "session"),
    "horovod.runner": ("farandole", "launch.cli", "launch.helpers"),
    "horovod.runner.elastic": (),
}


def module_of(source: Source) -> str:
    """The dotted name of a file of the packages."""
    path = source.path.split("/", 1)[1][: -len(".py")].replace("/", ".")
    return path[: -len(".__init__")] if path.endswith(".__init__") else path


def _short(module: str) -> str:
    return module[len("farandole.") :] if module.startswith("farandole.") else module


def _room_of(module: str) -> str:
    """The room that a module lies in; empty: none."""
    names = (_short(module), _short(module.rpartition(".")[0]))
    return next((name for name in names if name in MAY_IMPORT), "")


def _product(tree: Tree) -> dict[str, Source]:
    sources = [source for source in tree.having(".py") if source.path.startswith(ROOTS) and not source.is_test]
    return {module_of(source): source for source in sources}


def _imported(source: Source, modules: dict[str, Source]) -> Iterator[tuple[int, str]]:
    """Line and name of every module of ours that a file imports, wherever in the file."""
    for node in source.nodes:
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module:
            below = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [name if name in modules else node.module for name in below]
        yield from (
            (node.lineno, name) for name in dict.fromkeys(names) if name.split(".")[0] in ("farandole", "horovod")
        )


def edges(tree: Tree) -> list[str]:
    """A module imports its own room and those that the table lets it; every package is in the table."""
    bad = []
    modules = _product(tree)
    for module, source in modules.items():
        room = _room_of(module)
        if not room:
            bad.append(f"{source.path}:1: {module} is in no room that tests/tidy/python_rooms.py knows")
            continue
        bad += [
            f"{source.path}:{line}: {room} must not import {name}"
            for line, name in _imported(source, modules)
            if _room_of(name) not in (room, *MAY_IMPORT[room])
        ]
    return bad


def no_cycles(tree: Tree) -> list[str]:
    """The table has no cycle."""
    found = rooms.cycle(MAY_IMPORT)
    return [f"tests/tidy/python_rooms.py:1: rooms in a circle: {' -> '.join(found)}"] if found else []


def no_module_cycles(tree: Tree) -> list[str]:
    """No module imports itself by way of others, wherever in a file the imports stand."""
    modules = _product(tree)
    imports = {
        module: tuple({name for _, name in _imported(source, modules) if name in modules} - {module})
        for module, source in modules.items()
        if not source.path.endswith("/__init__.py")
    }
    found = rooms.cycle({module: tuple(n for n in names if n in imports) for module, names in imports.items()})
    return [f"{modules[found[0]].path}:1: modules in a circle: {' -> '.join(found)}"] if found else []


def started_modules(tree: Tree) -> list[str]:
    """Whatever is spelled like a module of the launcher, to be started by `python -m` or named to others, is one."""
    modules = _product(tree)
    return [
        f"{source.path}:{source.text.count(chr(10), 0, match.start()) + 1}: there is no module {match.group()}"
        for source in tree.having(".py", ".sh", ".md", ".cc", ".h")
        for match in re.finditer(r"\bfarandole\.launch(?:\.\w+)+", source.text)
        if match.group() not in modules
    ]
