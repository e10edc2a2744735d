"""What all wrappers of optimizers of TensorFlow 1 have in common."""

from __future__ import annotations

from typing import Any

import tensorflow as tf


class WrappedOptimizer(tf.compat.v1.train.Optimizer):  # type: ignore[misc]
    """Is an optimizer of TensorFlow 1, of which another one has the state. A subclass defines compute_gradients and
    apply_gradients."""

    def __init__(self, optimizer: Any, name: str | None, use_locking: bool) -> None:
        super().__init__(use_locking=use_locking, name=name or f"Distributed{type(optimizer).__name__}")
        self._optimizer = optimizer

    def get_slot(self, *args: Any, **kwargs: Any) -> Any:
        """Of the wrapped optimizer."""
        return self._optimizer.get_slot(*args, **kwargs)

    def get_slot_names(self, *args: Any, **kwargs: Any) -> Any:
        """Of the wrapped optimizer."""
        return self._optimizer.get_slot_names(*args, **kwargs)

    def variables(self, *args: Any, **kwargs: Any) -> Any:
        """Of the wrapped optimizer."""
        return self._optimizer.variables(*args, **kwargs)
