"""The trainer of gluon, with gradients of all ranks."""

from __future__ import annotations

import warnings
from typing import Any

import mxnet as mx

from farandole.core import names
from farandole.mxnet.compression import Compression, NoneCompressor
from farandole.mxnet.gradients import checked_size, reduce_all
from farandole.mxnet.optimizer import DistributedOptimizer
from farandole.process_sets import ProcessSet, global_process_set


class DistributedTrainer(mx.gluon.Trainer):  # type: ignore[misc]
    """`mx.gluon.Trainer` that averages gradients over the ranks. `step(batch_size)` takes one rank's own batch size.

    Args:
        params: as of gluon's: what `collect_params()` returns; the same on all ranks, in the same order.
        optimizer, optimizer_params: as of gluon's.
        compression: Compression.none or Compression.fp16.
        gradient_predivide_factor: gradients are divided by it before they are summed up, and multiplied afterwards.
        prefix: of the gradients' names; tells trainers of one script apart. None: by the order in which they are made.
        num_groups: so many groups of gradients; 0: each by itself.
        process_set: the ranks that take part. Default: all ranks of the job.

    Raises:
        ValueError: not initialised, or a factor that is not positive.
    """

    def __init__(
        self,
        params: Any,
        optimizer: Any,
        optimizer_params: dict[str, Any] | None = None,
        compression: type[NoneCompressor] = Compression.none,
        gradient_predivide_factor: float = 1.0,
        prefix: str | None = None,
        num_groups: int = 0,
        process_set: ProcessSet = global_process_set,
    ) -> None:
        if not gradient_predivide_factor > 0:
            raise ValueError(f"gradient_predivide_factor must be positive, got {gradient_predivide_factor}")
        size = checked_size(process_set)
        if isinstance(optimizer, DistributedOptimizer):
            warnings.warn("DistributedTrainer reduces gradients itself; give it the plain optimizer", stacklevel=2)
            optimizer.rescale_grad *= checked_size(optimizer._process_set) / optimizer._predivide_factor
            optimizer = optimizer._optimizer
        # Without a store of MXNet's own, which would reduce them, too.
        super().__init__(params, optimizer, optimizer_params=optimizer_params, kvstore=None)
        self._scale *= gradient_predivide_factor / size
        self._prefix = names.claim(process_set, "trainer") if prefix is None else prefix
        self._compression = compression
        self._predivide_factor = gradient_predivide_factor
        self._num_groups = num_groups
        self._process_set = process_set

    def _allreduce_grads(self) -> None:
        named = []
        for i, param in enumerate(self._params):
            if param.grad_req == "null":
                continue
            gradients = param.list_grad()
            if len(gradients) > 1:
                where = f"{param.name} is on {len(gradients)} devices"
                raise ValueError(f"{where}: each rank trains on one, as mx.gpu(hvd.local_rank())")
            named.append((f"{self._prefix}.{i}", gradients[0]))
        reduce_all(named, self._num_groups, self._predivide_factor, self._process_set, self._compression)
