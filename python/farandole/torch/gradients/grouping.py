"""Which gradients are reduced together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch


def check(groups: Any) -> None:
    """Raises ValueError if this is not None, a number of groups, or lists of parameters."""
    if groups is None:
        return
    if isinstance(groups, int) and not isinstance(groups, bool):
        if groups > 0:
            return
    elif isinstance(groups, (list, tuple)) and all(isinstance(group, (list, tuple)) for group in groups):
        seen: set[int] = set()
        for tensor in (tensor for group in groups for tensor in group):
            if not isinstance(tensor, torch.Tensor):
                raise ValueError(f"groups must consist of torch.Tensor, got a {type(tensor).__name__}")
            if id(tensor) in seen:
                raise ValueError(f"a parameter can only appear once in groups; one of shape {tuple(tensor.shape)} is")
            seen.add(id(tensor))
        return
    raise ValueError(f"groups should be an integer above 0 or a list of lists of torch.Tensor, got {groups!r}")


def split(names: Sequence[str], count: int) -> list[list[str]]:
    """`count` lists of nearly equal length, in order; fewer if there are fewer names."""
    least, more = divmod(len(names), count)
    ends = [least * (i + 1) + min(i + 1, more) for i in range(count)]
    return [list(names[begin:end]) for begin, end in zip([0, *ends], ends) if end > begin]
