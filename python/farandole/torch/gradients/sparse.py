"""Sums of sparse gradients: each rank gathers the rows of all."""

from __future__ import annotations

import torch

from farandole.library import abi, errors, submission, waiting
from farandole.torch import memory
from farandole.torch.compression import Compressor


class _Gather:
    """An allgather of one tensor."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.handle = 0
        self.source = memory.staged(tensor)
        self._like = tensor

    def start(self, name: str, process_set_id: int) -> None:
        source = self.source
        code = memory.dtype_code(source)
        wire_name, shape = submission.text(name), memory.shape_of(source)
        handle = submission.submit(submission.ALLGATHER, wire_name, source.data_ptr(), 0, code, shape, process_set_id)
        if handle < 0:
            errors.raise_error(handle)
        self.handle = handle

    def result(self) -> torch.Tensor:
        """Waits. Raises what went wrong; then it may be started again."""
        handle = self.handle
        try:
            waiting.wait(handle)
        except Exception:
            self.handle = 0
            raise
        self.handle = 0
        try:
            return memory.gathered(handle, self._like)
        finally:
            abi.load().release(handle)


def _parts(parameter: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows of the gradient that are not zero, each as where it is, (n, sparse dimensions), and its values, (n, ...)."""
    gradient = parameter.grad
    if gradient is None:
        rows = torch.empty((0, 1), dtype=torch.int64, device=parameter.device)
        return rows, torch.empty((0, *parameter.shape[1:]), dtype=parameter.dtype, device=parameter.device)
    gradient = gradient.detach()
    if gradient.layout is torch.strided:
        gradient = gradient.to_sparse(1)
    gradient = gradient.coalesce()
    return gradient.indices().t(), gradient.values()


class SparseGradient:
    """A sparse gradient that is being summed.

    A rank that has no gradient for a parameter cannot know that it is sparse elsewhere, and sends zeros. So the first
    time values go by the name of the allreduce: then no rank waits for another, but all are told that they differ.

    Args:
        name: of the parameter, on the wire.
        known: all ranks know that this gradient is sparse.
    """

    def __init__(
        self, parameter: torch.Tensor, name: str, known: bool, process_set_id: int, compression: type[Compressor]
    ) -> None:
        self._shape = parameter.shape
        self._name = name
        self._set_id = process_set_id
        self._compression = compression
        rows, values = _parts(parameter)
        values, self._context = compression.compress(values)
        self._rows, self._values = _Gather(rows), _Gather(values)
        self._known = known

    def start(self) -> None:
        """Starts both gathers; raises what the library answers."""
        self._values.start(f"allgather.{self._name}.values" if self._known else f"allreduce.{self._name}", self._set_id)
        self._rows.start(f"allgather.{self._name}.indices", self._set_id)

    def start_again(self) -> None:
        """After finish() has raised because ranks differ about the kind of gradient: all know by now."""
        self._known = True
        self._values.start(f"allgather.{self._name}.values", self._set_id)

    def finish(self, factor: float) -> torch.Tensor:
        """Waits, and returns the sum times `factor`: sparse, with rows that occur several times."""
        if self._values.handle:
            self._received = self._compression.decompress(self._values.result(), self._context)
        rows = self._rows.result()
        values = self._received * factor
        return torch.sparse_coo_tensor(rows.t(), values, self._shape, check_invariants=False)

    def give_up(self) -> None:
        """Waits for what is under way still, after an error."""
        for gather in (self._values, self._rows):
            if gather.handle:
                try:
                    gather.result()
                except Exception:  # one error was enough
                    pass

    def under_way(self) -> list[tuple[int, torch.Tensor]]:
        """Handles, and what they work on."""
        return [(each.handle, each.source) for each in (self._values, self._rows) if each.handle]
