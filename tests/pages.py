"""The docs' pages as readers use them: a page is a folder with its scripts, in which its commands are run.

A block "```python title=NAME" is a file of that name; in a block "```console" a line "$ COMMAND" is run, and what
stands below it has to appear, line by line and in this order, with "..." for anything.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"


def blocks(page: Path, kind: str) -> list[tuple[str, str]]:
    """What stands after the language, and the text, of each block of a language."""
    return re.findall(rf"^```{kind}\b ?([^\n]*)\n(.*?)^```$", page.read_text(), re.M | re.S)


def commands(page: Path) -> list[tuple[str, list[str]]]:
    """Each command of its `console` blocks with the lines that it is to print."""
    found: list[tuple[str, list[str]]] = []
    for _, text in blocks(page, "console"):
        for line in text.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], []))
            else:
                found[-1][1].append(line)
    return found


def with_commands() -> list[Path]:
    """The pages that have any."""
    return [page for page in sorted(DOCS.glob("*.md")) if commands(page)]


def write_scripts(page: Path, folder: Path) -> None:
    """The page's scripts, by their names."""
    for title, text in blocks(page, "python"):
        if title:
            (folder / re.fullmatch(r'title="([\w.]+)"', title).group(1)).write_text(text)


def not_printed(expected: list[str], output: str) -> str | None:
    """The first line that the output lacks; each counts once, in this order."""
    lines = iter(output.splitlines())
    for wanted in expected:
        pattern = re.compile(".*".join(map(re.escape, wanted.split("..."))))
        if not any(pattern.fullmatch(line) for line in lines):
            return wanted
    return None
