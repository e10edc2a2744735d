"""The sum of gradients over the ranks, for what updates parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from farandole.core import reduce_ops
from farandole.mxnet.compression import NoneCompressor
from farandole.mxnet.operations import grouped_allreduce_
from farandole.process_sets import ProcessSet


def checked_size(process_set: ProcessSet) -> int:
    """Number of members.

    Raises:
        ValueError: the set is not registered, or not initialised.
    """
    size = process_set.size()
    if size is None:
        raise ValueError(f"{process_set} is not registered; call add_process_set() on all ranks first")
    return size


def reduce_all(
    gradients: Sequence[tuple[str, Any]],
    num_groups: int,
    predivide_factor: float,
    process_set: ProcessSet,
    compression: type[NoneCompressor] = NoneCompressor,
) -> None:
    """Sums up NDArrays over the ranks, in place; nothing is waited for.

    Args:
        gradients: with their names, in the order in which they are needed again.
        num_groups: so many groups, each of which is reduced when all of it is there; 0: each by itself.
        predivide_factor: they are divided by it before they are summed up.
    """
    per_group = max(1, -(-len(gradients) // num_groups)) if num_groups > 0 else 1
    for begin in range(0, len(gradients), per_group):
        part = gradients[begin : begin + per_group]
        if any(gradient.stype != "default" for _, gradient in part):
            raise ValueError(f"gradients that are sparse cannot be reduced, as that of {part[0][0]}; use dense ones")
        smaller = [compression.compress(gradient) for _, gradient in part]
        grouped_allreduce_(
            [tensor for tensor, _ in smaller],
            name=part[0][0],
            priority=-begin,
            prescale_factor=1.0 / predivide_factor,
            process_set=process_set,
            op=reduce_ops.Sum,
        )
        for (_, gradient), (tensor, context) in zip(part, smaller):
            if tensor is not gradient:
                gradient[:] = compression.decompress(tensor, context)
