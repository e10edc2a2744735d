"""What AutoGraph must leave as it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import tensorflow as tf

_Function = TypeVar("_Function", bound=Callable[..., Any])


def unconverted(function: _Function) -> _Function:
    """`function`, which AutoGraph does not rewrite where a tf.function calls it, nor what it calls: our branches are
    Python's, and globals would not be written."""
    result: _Function = tf.autograph.experimental.do_not_convert(function)
    return result
