"""docs/troubleshooting.md quotes what is printed: the lines of its text blocks are made of literals of the sources."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "troubleshooting.md").read_text()
QUOTES = [line for block in re.findall(r"^```text\n(.*?)^```$", PAGE, re.M | re.S) for line in block.splitlines()]
# A message may be put together from literals that are not shorter than this.
LITERAL_MIN = 8


def joined_literals() -> str:
    """All sources, with literals that stand beside each other joined and quotes as they are printed."""
    files = [
        p
        for folder in ("agent", "base", "controller", "frameworks", "proto", "python", "transport", "worker")
        for p in (ROOT / folder).rglob("*")
        if p.suffix in (".cc", ".h", ".py") and "_test." not in p.name
    ]
    text = "\n".join(p.read_text() for p in files)
    return re.sub(r'"\s*\n\s*f?"', "", text).replace('\\"', '"')


SOURCES = joined_literals()


def rest_beyond_literals(text: str) -> str:
    """What remains of `text` when the longest literals that it begins with are taken away one after the other."""
    while text:
        length = max((n for n in range(len(text) + 1) if text[:n] in SOURCES), default=0)
        if length < min(LITERAL_MIN, len(text)):
            return text
        text = text[length:]
    return ""


@pytest.mark.parametrize("quote", QUOTES)
def test_quoted_message_exists(quote: str) -> None:
    # What differs from time to time stands in <>.
    pieces = [piece for piece in re.split(r"<[^>]*>", quote) if len(piece) >= LITERAL_MIN]
    assert pieces, "nothing of it is literal"
    assert not [rest for piece in pieces if (rest := rest_beyond_literals(piece))]


def test_other_messages_are_recognised() -> None:
    assert rest_beyond_literals("the launcher has ended or let go of this host, so its workers were fed") == "fed"


def test_table_leads_to_sections() -> None:
    headings = re.findall(r"^## (.+)$", PAGE, re.MULTILINE)
    anchors = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    linked = set(re.findall(r"\]\(#([^)]+)\)", PAGE))
    assert linked == anchors
    assert len(QUOTES) > 15
