"""Sums of sparse gradients: each rank gathers the rows of all."""

from __future__ import annotations

import torch

from farandole.core import handles, reduce_ops
from farandole.exceptions import TensorMismatchError
from farandole.library import abi, waiting
from farandole.process_sets import ProcessSet
from farandole.torch.compression import Compression
from farandole.torch.gradients.slot import Reduction, Slot, Transfer
from farandole.torch.memory import collectives


class _Gather:
    """An allgather of one tensor, which may be started again after it has failed."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.handle = 0
        self._tensor = tensor

    def start(self, operation: str, name: str, process_set: ProcessSet) -> None:
        self.handle = handles.track(*collectives.allgather(self._tensor, name, process_set, operation))

    def result(self) -> torch.Tensor:
        """Waits. Raises what went wrong."""
        try:
            result = handles.synchronize(self.handle)
        except Exception:
            self.handle = 0
            raise
        self.handle = 0
        return result

    def abandon(self) -> None:
        if self.handle:
            handles.abandon(self.handle)
        self.handle = 0


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


class Sparse(Transfer):
    """A sparse gradient that is being summed.

    A rank that has no gradient for a parameter cannot know that it is sparse elsewhere, and sends zeros. So the first
    time values go by the name of the allreduce: then no rank waits for another, but all are told that they differ.
    """

    def __init__(self, slot: Slot) -> None:
        super().__init__(slot)
        self.stand_in: Transfer | None = None  # what its group has submitted for it

    def start(self, how: Reduction) -> None:
        """Starts both gathers; raises what the library answers."""
        slot = self.slot
        compression = how.compression or Compression.none
        rows, values = _parts(slot.parameter)
        values, self.context = compression.compress(values)
        self._rows, self._values = _Gather(rows), _Gather(values)
        self._received: torch.Tensor | None = None
        self._start_values(how)
        try:
            self._rows.start("allgather", f"{how.name(slot)}.indices", how.process_set)
        except Exception:
            self._values.abandon()
            raise
        slot.hand_over(how)
        slot.transfer = self
        if slot.group is not None and not slot.sparse and slot.group.arrived():
            slot.group.submit(how)

    def _start_values(self, how: Reduction) -> None:
        name = how.name(self.slot)
        operation, name = ("allgather", f"{name}.values") if self.slot.sparse else ("allreduce", name)
        self._values.start(operation, name, how.process_set)

    def finish(self, how: Reduction, ahead: handles.InOrder) -> Transfer | None:
        """Waits, and puts the sum or the average where the gradient is; see `Transfer`."""
        slot = self.slot
        try:
            if self.stand_in is not None and not self._stood_in(self.stand_in):
                return self
            if self._received is None:
                self._received = self._values.result()
            values, rows = self._received, self._rows.result()
        except TensorMismatchError as error:
            if slot.sparse or "Mismatched operations" not in str(error):
                self._give_up()
                raise
            # It is dense on other ranks, which know by now.
            slot.sparse = True
            try:
                self._start_values(how)
            except Exception:
                self._give_up()
                raise
            return self
        except Exception:
            self._give_up()
            raise
        slot.sparse = True
        slot.take_back(how)
        self._deliver(how, rows, values)
        return None

    def _stood_in(self, stand_in: Transfer) -> bool:
        """Waits for what its group has submitted for it. False: the group fell apart."""
        try:
            waiting.wait(stand_in.handle)
        except Exception as error:
            self.stand_in = None
            if not isinstance(error, TensorMismatchError):
                raise
            if self.slot.group is not None:
                self.slot.group.dissolve()
            return False
        self.stand_in = None
        abi.load().release(stand_in.handle)
        return True

    def _deliver(self, how: Reduction, rows: torch.Tensor, values: torch.Tensor) -> None:
        compression, parameter = how.compression or Compression.none, self.slot.parameter
        values = compression.decompress(values, self.context)
        if how.scaling[0] == reduce_ops.Average:
            values = values * (1.0 / (how.process_set.size() or 1))
        # Rows occur several times.
        size, device = parameter.shape, values.device
        result = torch.sparse_coo_tensor(rows.t(), values, size, device=device, check_invariants=False)
        dense = parameter.grad is not None and parameter.grad.layout is torch.strided
        parameter.grad = result.to_dense() if dense else result

    def _give_up(self) -> None:
        """Waits for what is under way still, after an error."""
        for gather in (self._values, self._rows):
            if gather.handle:
                try:
                    gather.result()
                except Exception:  # one error was enough
                    pass

    def abandon(self) -> None:
        """Waits for nothing; memory stays until the library is done with it."""
        for each in (self._values, self._rows, self.stand_in):
            if each is not None:
                each.abandon()
        self.stand_in = None
