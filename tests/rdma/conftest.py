"""Emulated machines that tests share: those of a fixture run until its last test is over."""

from __future__ import annotations

from collections.abc import Iterator

import image
import pytest
from guests import Guests

REASON = image.why_not()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if REASON:
        for item in items:
            item.add_marker(pytest.mark.skip(reason=REASON))


@pytest.fixture(scope="session")
def lone() -> Iterator[Guests]:
    """One guest with two processors."""
    with Guests(1) as guests:
        yield guests


@pytest.fixture(scope="session")
def pair() -> Iterator[Guests]:
    """Two guests with a processor each. Who ends one boots another in its place."""
    with Guests(2) as guests:
        yield guests
