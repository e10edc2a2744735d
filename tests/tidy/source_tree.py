"""The sources of a tree, read once, and C++ text without what the rules must not look into."""

from __future__ import annotations

import ast
import copy
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

FOLDERS = ("agent", "base", "controller", "examples", "frameworks", "perf", "proto", "python", "scripts", "tests")
FOLDERS += ("alias", "third_party", "transport", "worker")
CPP = (".cc", ".cu", ".h")

_BLANKED = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<d>[^(\s]*)\(.*?\)(?P=d)"|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])+\'',
    re.DOTALL,
)


def without_comments_and_literals(text: str) -> str:
    """The C++ text with comments blanked and literals emptied; every line keeps its number."""

    def blank(match: re.Match[str]) -> str:
        lines = "\n" * match.group().count("\n")
        return '""' + lines if match.group()[0] in "R\"'" else " " + lines

    return _BLANKED.sub(blank, text)


@dataclass(frozen=True)
class Source:
    """One file; `path` is relative to the root, with slashes."""

    path: str
    text: str

    @property
    def folder(self) -> str:
        """The top-level folder."""
        return self.path.split("/")[0]

    @property
    def suffix(self) -> str:
        """With its dot."""
        return Path(self.path).suffix

    @property
    def is_test(self) -> bool:
        """Is not part of any product."""
        return self.folder == "tests" or self.path.endswith(("_test.cc", "_test.py"))

    @cached_property
    def code(self) -> str:
        """C++ without comments and literals."""
        return without_comments_and_literals(self.text)

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """Python's syntax tree, node by node; a BUILD file is Python enough."""
        return list(ast.walk(ast.parse(self.text)))

    @cached_property
    def includes(self) -> list[tuple[int, str]]:
        """Line and what stands between the quotes or brackets of each include."""
        found = re.finditer(r'^#include\s+["<]([^">]+)[">]', self.text, re.MULTILINE)
        return [(self.text.count("\n", 0, m.start()) + 1, m.group(1)) for m in found]


class Tree:
    """All sources under the project's folders of `root`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.sources: dict[str, Source] = {}
        for folder in FOLDERS:
            for file in sorted((root / folder).rglob("*")):
                if file.is_file() and "__pycache__" not in file.parts and file.suffix not in (".so", ".bin"):
                    path = file.relative_to(root).as_posix()
                    self.sources[path] = Source(path, file.read_text(errors="replace"))

    def extended(self, path: str, text: str) -> Tree:
        """This tree with text at the end of one file, new or old; nothing is written."""
        other = copy.copy(self)
        before = self.sources[path].text if path in self.sources else ""
        other.sources = {**self.sources, path: Source(path, before + text)}
        return other

    def having(self, *suffixes: str) -> list[Source]:
        """The files with one of these suffixes."""
        return [s for s in self.sources.values() if s.suffix in suffixes]

    @property
    def cpp(self) -> list[Source]:
        """C++ sources and headers."""
        return self.having(*CPP)

    def pair_closure(self, start: str) -> list[Source]:
        """The file, all headers of ours that it includes, directly or not, and the .cc file beside each header."""
        seen: set[str] = set()
        todo = [start]
        while todo:
            path = todo.pop()
            if path in seen or path not in self.sources:
                continue
            seen.add(path)
            todo += [name for _, name in self.sources[path].includes]
            todo += [path[:-2] + ".cc"] if path.endswith(".h") else []
        return [self.sources[path] for path in sorted(seen)]
