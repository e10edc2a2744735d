"""CHANGELOG.md begins with the release that the tree is."""

from __future__ import annotations

import re
from pathlib import Path

from farandole.version import __version__

PAGE = (Path(__file__).resolve().parents[2] / "CHANGELOG.md").read_text()
KINDS = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def test_the_first_release_is_that_of_the_tree() -> None:
    released = re.findall(r"^## (\d+\.\d+\.\d+)", PAGE, re.MULTILINE)
    assert released[0] == __version__
    assert len(released) == len(set(released))


def test_sections_bear_the_names_of_the_form() -> None:
    assert set(re.findall(r"^### (.+)$", PAGE, re.MULTILINE)) <= KINDS
