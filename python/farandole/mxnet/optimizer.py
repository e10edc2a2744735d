"""An optimizer of MXNet that reduces gradients before it uses them."""

from __future__ import annotations

from typing import Any

import mxnet as mx

from farandole.core import names
from farandole.mxnet.gradients import checked_size, reduce_all
from farandole.process_sets import ProcessSet, global_process_set


class DistributedOptimizer(mx.optimizer.Optimizer):  # type: ignore[misc]
    """Averages gradients over the ranks before `optimizer` uses them: for `mx.mod.Module` and loops of one's own. With
    gluon, see `DistributedTrainer`.

    Args:
        optimizer: one of mx.optimizer; its `rescale_grad` is divided by the number of ranks.
        gradient_predivide_factor: gradients are divided by it before they are summed up, and multiplied afterwards.
        num_groups: of what one update gets at once, so many groups; 0: each gradient by itself.
        process_set: the ranks that take part. Default: all ranks of the job.

    Raises:
        ValueError: not initialised, or a factor that is not positive.
    """

    def __init__(
        self,
        optimizer: Any,
        gradient_predivide_factor: float = 1.0,
        num_groups: int = 0,
        process_set: ProcessSet = global_process_set,
    ) -> None:
        if not gradient_predivide_factor > 0:
            raise ValueError(f"gradient_predivide_factor must be positive, got {gradient_predivide_factor}")
        # Not that of the base class: every attribute is the wrapped one's.
        self._optimizer = optimizer
        self._predivide_factor = gradient_predivide_factor
        self._num_groups = num_groups
        self._process_set = process_set
        self._prefix = names.claim(process_set, "optimizer")
        optimizer.rescale_grad *= gradient_predivide_factor / checked_size(process_set)

    def __getattr__(self, item: str) -> Any:
        if item == "_optimizer":
            raise AttributeError(item)
        return getattr(self._optimizer, item)

    def __setattr__(self, item: str, value: Any) -> None:
        if item in ("_optimizer", "_predivide_factor", "_num_groups", "_process_set", "_prefix"):
            super().__setattr__(item, value)
        else:
            setattr(self._optimizer, item, value)

    def create_state(self, index: Any, weight: Any) -> Any:
        """As that of the wrapped optimizer."""
        return self._optimizer.create_state(index, weight)

    def create_state_multi_precision(self, index: Any, weight: Any) -> Any:
        """As that of the wrapped optimizer."""
        return self._optimizer.create_state_multi_precision(index, weight)

    def _reduce(self, index: Any, grad: Any) -> None:
        pairs = zip(index, grad) if isinstance(index, (tuple, list)) else [(index, grad)]
        named = [(f"{self._prefix}.{number}", each) for number, each in pairs]
        reduce_all(named, self._num_groups, self._predivide_factor, self._process_set)

    def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        """Reduces `grad` in place, then updates `weight`; lists of them, too."""
        self._reduce(index, grad)
        self._optimizer.update(index, weight, grad, state)

    def update_multi_precision(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        """`update` of weights in half precision."""
        self._reduce(index, grad)
        self._optimizer.update_multi_precision(index, weight, grad, state)

    def set_learning_rate(self, lr: float) -> None:
        """As that of the wrapped optimizer."""
        self._optimizer.set_learning_rate(lr)

    def set_lr_mult(self, args_lr_mult: dict[Any, float]) -> None:
        """As that of the wrapped optimizer."""
        self._optimizer.set_lr_mult(args_lr_mult)

    def set_wd_mult(self, args_wd_mult: dict[Any, float]) -> None:
        """As that of the wrapped optimizer."""
        self._optimizer.set_wd_mult(args_wd_mult)
