"""Whether the ranks begin with equal parameters."""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Sequence
from typing import Any

import torch

from farandole.core import collectives, names, reduce_ops
from farandole.exceptions import TensorMismatchError
from farandole.process_sets import ProcessSet
from farandole.torch.collectives import operations

# Squares of so many bits, of every rank that there can be, add up in 64 bits.
_BITS = 20
# Odd, with bits all over (2^64 / the golden ratio): the high bits of a product depend on all bits of the factor.
_SPREAD = 0x9E3779B97F4A7C15


def _sum_of_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """Sum of its bytes as integers of 64 bits, modulo 2^64; int64, (). As quick as memory can be read."""
    flat = tensor.detach().contiguous().view(-1).view(torch.uint8)
    if flat.storage_offset() % 8:
        flat = flat.clone()
    whole = flat.numel() // 8 * 8
    return flat[:whole].view(torch.int64).sum() + flat[whole:].sum(dtype=torch.int64)


def fingerprints(tensors: Sequence[torch.Tensor]) -> list[int]:
    """A number below 2^20 for each tensor. Equal tensors have the same; others rarely do, unless they hold the same
    elements in another order."""
    sums = torch.stack([_sum_of_bytes(tensor).cpu() for tensor in tensors]).tolist()
    return [(each * _SPREAD & (1 << 64) - 1) >> (64 - _BITS) for each in sums]


def first_difference(own: Sequence[int], name: str, process_set: ProcessSet) -> int | None:
    """Position of the first number that is not the same on all ranks of the set; None if all are, or if ranks have not
    equally many, which is somebody else's to say. All ranks call it.

    Args:
        own: numbers below 2^20.
        name: of the allreduce; alike on all ranks.
    """
    # n values are equal if and only if n times the sum of their squares is the square of their sum. Ranks that have
    # joined add zeros to both, and to n.
    numbers = torch.tensor([1, *own, *(each * each for each in own)], device="cpu")
    try:
        operations.allreduce_(numbers, name=name, op=reduce_ops.Sum, process_set=process_set)
    except TensorMismatchError:
        return None
    ranks, *sums = numbers.tolist()
    pairs = zip(sums[: len(own)], sums[len(own) :])
    return next((i for i, (total, squares) in enumerate(pairs) if ranks * squares != total * total), None)


class Comparison:
    """Of an optimizer's parameters, before its first step in a job."""

    def __init__(self, process_set: ProcessSet) -> None:
        self._process_set = process_set
        self._life: int | None = None
        self._born = (names.life(), collectives.joins())

    def once(self, groups: Sequence[dict[str, Any]], names_of: dict[torch.Tensor, str]) -> None:
        """Compares the parameters that are trained, unless that has been done; all ranks of the set call it. The first
        of them warns of the first parameter that is not the same on all.

        Args:
            groups: the optimizer's `param_groups`.
            names_of: the name of each parameter.
        """
        if self._life == names.life() or not self._process_set.included():
            return
        self._life = names.life()
        trained = [each for group in groups for each in group["params"] if each.requires_grad]
        # Ranks may have them in another order.
        trained.sort(key=names_of.__getitem__)
        # Ranks may begin with different optimizers. Each claims a name once, whether it is used or not.
        which = zlib.crc32("\n".join(names_of[each] for each in trained).encode())
        name = names.claim(self._process_set, f"optimizer.parameters.{which:08x}")
        # After a join() some ranks have compared, without those that had joined.
        joins = self._born[1] if self._born[0] == names.life() else 0
        if self._process_set.size() == 1 or not trained or collectives.joins() != joins:
            return
        position = first_difference(fingerprints(trained), name, self._process_set)
        if position is not None and self._process_set.rank() == 0:
            first = names_of[trained[position]]
            warnings.warn(
                f"the ranks do not have the same parameters at the first optimizer.step(): `{first}` is the first that "
                "differs. They stay different, because only gradients are exchanged. Call "
                "hvd.broadcast_parameters(model.state_dict(), root_rank=0) before training.",
                stacklevel=3,
            )
