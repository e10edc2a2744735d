"""What a script is refused, in workers, which run without pytest."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator


@contextlib.contextmanager
def refused(kind: type[Exception], part: str) -> Iterator[None]:
    """What is inside ends with such an error, whose sentence has this in it."""
    try:
        yield
    except kind as error:
        assert part in str(error), error
    else:
        raise RuntimeError(f"there was no {kind.__name__} about {part!r}")
