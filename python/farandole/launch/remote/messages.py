"""What programs on other hosts say: JSON on a marked line, as logins print there, too. It is checked here."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

# Before each message; shells print greetings.
MARK = "farandole-remote: "


def line_of(message: Mapping[str, Any]) -> bytes:
    """A message as it is sent."""
    return (MARK + json.dumps(message)).encode() + b"\n"


def message_of(text: str | bytes | bytearray) -> dict[str, Any]:
    """What stands behind the mark. Raises ValueError: it is no message."""
    try:
        message = json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if type(message) is not dict:
        raise ValueError("no object")
    return message


def check(message: Mapping[str, Any], types: Mapping[str, type]) -> None:
    """Raises ValueError: a field is missing or of another type, or its text cannot be written anywhere."""
    for name, wanted in types.items():
        value = message.get(name)
        if type(value) is not wanted:
            raise ValueError(f"{name} is no {wanted.__name__}")
        if isinstance(value, str):
            value.encode(errors="surrogateescape")
