"""Writes docs/api.md from the docstrings of the package; `--check` says instead whether it is up to date.

Names are those of each module's `__all__`. Signatures are taken from the source: defaults read as they are written.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import sys
import textwrap
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "api.md"
MODULES = (
    "farandole",
    "farandole.torch",
    "farandole.torch.elastic",
    "farandole.elastic",
    "farandole.data",
    "farandole.exceptions",
)
HEAD = """\
# API

Written by `make docs` from the docstrings; edit those. `horovod.torch` is `farandole.torch`, and so on
([Coming from Horovod](migrating-from-horovod.md)).
"""
SECTIONS = ("Args", "Attributes", "Returns", "Raises", "Yields")


def signature(function: object) -> str:
    """Arguments and result as the source has them, on one line."""
    node = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return "()"
    arguments = ast.unparse(node.args)
    arguments = re.sub(r"^self(, )?", "", arguments)
    return f"({arguments})" + (f" -> {ast.unparse(node.returns)}" if node.returns is not None else "")


def section(title: str, lines: list[str]) -> list[str]:
    """A section of a docstring, without its indentation, as a list."""
    entries: list[str] = []
    for line in textwrap.dedent("\n".join(lines)).splitlines():
        if line.startswith(" ") and entries:
            entries[-1] += " " + line.strip()
        elif line.strip():
            entries.append(line.strip())
    if title in ("Returns", "Yields"):
        return [f"**{title}** {' '.join(entries)}", ""]
    named = [re.sub(r"^([\w*., ]+?): ", lambda m: f"`{m.group(1)}`: ", entry) for entry in entries]
    return [f"**{title}**", "", *(f"- {entry}" for entry in named), ""]


def described(doc: str | None) -> list[str]:
    """A docstring in Google's style as Markdown."""
    out: list[str] = []
    title, body = "", []
    for line in [*inspect.cleandoc(doc or "").replace("``", "`").splitlines(), "end:"]:
        heading = line[:-1] if line.endswith(":") and line[:-1] in (*SECTIONS, "end") else ""
        if title and (heading or (line and not line.startswith(" "))):
            out += section(title, body)
            title = ""
        if heading:
            title, body = heading, []
        elif title:
            body.append(line)
        else:
            out.append(line)
    return [*out, ""]


def class_lines(name: str, kind: type) -> list[str]:
    """A class with its public methods."""
    own = vars(kind).get("__init__")
    lines = [f"### {name}", "", "```python", f"class {name}{signature(own).split(' -> ')[0] if own else ''}", "```", ""]
    lines += described(kind.__doc__)
    for method_name, member in vars(kind).items():
        function = member.__func__ if isinstance(member, (staticmethod, classmethod)) else member
        if method_name.startswith("_") or not inspect.isfunction(function) or not function.__doc__:
            continue
        lines += ["```python", f"{name}.{method_name}{signature(function)}", "```", "", *described(function.__doc__)]
    return lines


def module_lines(module: ModuleType) -> list[str]:
    """Everything that a module hands out; what another one documents is only listed."""
    lines = [f"## {module.__name__}", "", *described(module.__doc__)]
    names = getattr(module, "__all__", None) or [n for n, o in vars(module).items() if inspect.isclass(o)]
    constants, elsewhere = [], []
    for name in sorted(names, key=str.lower):
        value = getattr(module, name)
        home = getattr(value, "__module__", "")
        if home in MODULES and home != module.__name__:
            elsewhere.append(f"`{name}`")
        elif inspect.isclass(value):
            lines += class_lines(name, value)
        elif inspect.isfunction(value):
            lines += [f"### {name}", "", "```python", f"{name}{signature(value)}", "```", "", *described(value.__doc__)]
        elif not inspect.ismodule(value):
            constants.append(f"`{name}`")
    for what, found in (("Constants and objects", constants), ("Described elsewhere on this page", elsewhere)):
        lines += [f"{what}: {', '.join(found)}.", ""] if found else []
    return lines


def page() -> str:
    """What docs/api.md should be."""
    lines = HEAD.splitlines() + [""]
    for name in MODULES:
        lines += module_lines(importlib.import_module(name))
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip() + "\n"


def main() -> int:
    """Exit code 1 if `--check` finds the page out of date."""
    text = page()
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(text)
        return 0
    if PAGE.exists() and PAGE.read_text() == text:
        return 0
    print("docs/api.md is not what the docstrings say; run: make docs", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT / "python"))
    sys.exit(main())
