"""How values of the ranks are combined. The numbers are those of proto/farandole/v1/types.proto."""

from __future__ import annotations

import warnings

Average = 0
Sum = 1
Adasum = 2
Min = 3
Max = 4
Product = 5

_ALL = (Average, Sum, Adasum, Min, Max, Product)


def resolve(op: int | None, average: bool | None = None) -> int:
    """The operation that `op` and the deprecated `average` ask for; Average if neither is given.

    Raises:
        ValueError: both are given, or `op` is none of the constants above.
    """
    if average is not None:
        if op is not None:
            raise ValueError("The op parameter supersedes average. Please provide only one of them.")
        warnings.warn("Parameter `average` has been replaced with `op`", DeprecationWarning, stacklevel=4)
        return Average if average else Sum
    if op is None or op is Average or op is Sum:
        return Average if op is None else op
    if op in _ALL:
        return int(op)
    raise ValueError(f"op must be hvd.Average, Sum, Adasum, Min, Max or Product, got {op!r}")
