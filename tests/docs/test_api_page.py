"""docs/api.md is what the docstrings say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import write_api

ROOT = Path(__file__).resolve().parents[2]


def test_page_is_up_to_date() -> None:
    # A process of its own: other tests import what it does not.
    command = [sys.executable, ROOT / "scripts" / "write_api.py", "--check"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


def test_docstring_as_markdown() -> None:
    doc = """Does ``it``.

    More.

    Args:
        a, b: first
            and more
        c: second

    Returns:
        A thing,
        or none.
    """
    assert "\n".join(write_api.described(doc)).strip() == (
        "Does `it`.\n\nMore.\n\n**Args**\n\n- `a, b`: first and more\n- `c`: second\n\n**Returns** A thing, or none."
    )


def test_signature_reads_as_written() -> None:
    def function(a: int, *, b: str = write_api.HEAD, **rest: int) -> list[int]:
        return [a, len(b), *rest.values()]

    assert write_api.signature(function) == "(a: int, *, b: str=write_api.HEAD, **rest: int) -> list[int]"
    assert write_api.signature(write_api.module_lines).startswith("(module: ModuleType)")
