"""Objects as text, as ``horovod.runner.common.util.codec`` writes them."""

from __future__ import annotations

import base64
from typing import Any


def dumps_base64(obj: Any, to_ascii: bool = True) -> str | bytes:
    """`obj` by cloudpickle and in base64; str, or bytes if not `to_ascii`."""
    import cloudpickle

    encoded = base64.b64encode(cloudpickle.dumps(obj))
    return encoded.decode("ascii") if to_ascii else encoded


def loads_base64(encoded: str | bytes) -> Any:
    """The object in what `dumps_base64` has made. It runs code that its author has chosen: only for your own."""
    import cloudpickle

    return cloudpickle.loads(base64.b64decode(encoded))
