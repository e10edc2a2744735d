"""Allreduce of sparse tensors: every rank gets the non-zero elements of all."""

from __future__ import annotations

import torch

from farandole.core import handles, reduce_ops
from farandole.exceptions import TensorMismatchError
from farandole.process_sets import ProcessSet, global_process_set
from farandole.torch.collectives import grouped


class SparseHandle(handles.Deferred):
    """An allreduce of a sparse tensor under way. Calling it waits and returns the reduced tensor; `poll` and
    `synchronize` take it as well. Like any handle it gives its result once, and None when called again."""

    def __init__(self, handle: int, tensor: torch.Tensor, divisor: int) -> None:
        self._handle = handle
        self._tensor = tensor
        self._divisor = divisor

    def poll(self) -> bool:
        """Whether calling would not wait."""
        return handles.poll(self._handle)

    def __call__(self) -> torch.Tensor | None:
        """Waits and returns the sum, or the average, as a coalesced tensor of the type of the input.

        Raises:
            TensorMismatchError: the tensors of the ranks have different sizes.
            HorovodInternalError: a peer was lost.
        """
        gathered = handles.synchronize(self._handle)
        if gathered is None:
            return None
        indices, values, sizes = gathered
        own = torch.tensor(self._tensor.shape, dtype=torch.int64, device="cpu")
        if (sizes != own).any():
            all_sizes = [tuple(size) for size in sizes.tolist()]
            raise TensorMismatchError(f"Mismatched ALLREDUCE tensor shapes: sparse tensors of the sizes {all_sizes}")
        if self._divisor > 1:
            values = values / self._divisor
        # The elements come from other processes.
        size, device = self._tensor.shape, values.device
        result = torch.sparse_coo_tensor(indices.t(), values, size, device=device, check_invariants=True)
        return result.to(self._tensor.device).coalesce()


def sparse_allreduce_async(
    tensor: torch.Tensor, name: str, op: int, process_set: ProcessSet = global_process_set
) -> SparseHandle:
    """Starts the sum or the average of sparse tensors over all ranks.

    Every rank gets the non-zero elements of all ranks; those at the same place are added up.

    Args:
        tensor: of layout torch.sparse_coo, of the same size, type and number of sparse dimensions on all ranks, with
            any number of elements, also none. The type is one that torch can add up, and for an average divide.
        name: the same on all ranks, and not that of another operation of this kind under way. None: such operations are
            numbered in the order of the calls, which then has to be the same on all ranks.
        op: Average or Sum.
        process_set: the ranks that take part; all of them have to call. Default: all ranks of the job.

    Returns:
        A callable that waits and returns the reduced sparse tensor. `poll` and `synchronize` take it, too.

    Raises:
        ValueError: not a COO tensor, a type or an operation that is not supported, a name that is in use, or not
            initialised.
        HorovodInternalError: a peer was lost.
    """
    if not isinstance(tensor, torch.Tensor) or tensor.layout is not torch.sparse_coo:
        kind = tensor.layout if isinstance(tensor, torch.Tensor) else type(tensor).__name__
        raise ValueError(f"sparse_allreduce takes tensors of layout torch.sparse_coo, got {kind}")
    op = reduce_ops.resolve(op)
    if op not in (reduce_ops.Average, reduce_ops.Sum):
        raise ValueError("sparse tensors can be summed and averaged only")
    if op == reduce_ops.Average and not tensor.dtype.is_floating_point:
        raise ValueError(f"sparse tensors of {tensor.dtype} have no average of that type; use op=Sum")
    # Its elements are gathered as rows; the sizes, so that all ranks learn when they differ.
    tensor = tensor.detach().coalesce()
    size = torch.tensor([tensor.shape], dtype=torch.int64, device="cpu")
    handle = grouped.grouped_allgather_async([tensor.indices().t(), tensor.values(), size], name, process_set)
    return SparseHandle(handle, tensor, (process_set.size() or 1) if op == reduce_ops.Average else 1)
