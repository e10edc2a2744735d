"""Optimizers of Keras 3 whose gradients are those of all ranks together.

Two hooks, which all of Keras 3 has on each of its backends: `_clip_gradients` gets the gradients that a step is made
of, after accumulation and before clipping; `check_finite` of a LossScaleOptimizer decides whether there is a step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from farandole._keras.reduction import Reduction


class Distributed:
    """What is put before the class of an optimizer.

    Attributes:
        farandole: how its gradients are combined; None in one that was made from a configuration: it is a plain one.
    """

    farandole: Reduction | None = None

    def register_local_var(self, variable: Any) -> None:
        """The gradient of this variable is each rank's own, and is not combined."""
        if self.farandole is None:
            raise ValueError("this optimizer was made from a configuration; give it to DistributedOptimizer")
        self.farandole.register_local(variable)

    def _backend_apply_gradients(self: Any, grads: Sequence[Any], trainable_variables: Sequence[Any]) -> None:
        if self.farandole is not None:
            # Those of these gradients: without what has none.
            object.__setattr__(self, "_farandole_variables", tuple(trainable_variables))
        super()._backend_apply_gradients(grads, trainable_variables)  # type: ignore[misc]

    def _clip_gradients(self: Any, grads: Sequence[Any]) -> Any:
        if self.farandole is not None:
            grads = self._of_all_ranks(list(grads))
        return super()._clip_gradients(grads)  # type: ignore[misc]

    def _of_all_ranks(self: Any, grads: list[Any]) -> list[Any]:
        how, variables, passes = self.farandole, self._farandole_variables, self.gradient_accumulation_steps

        def reduce(given: list[Any]) -> list[Any]:
            reduced = how(given, variables)
            if how.settings.backward_passes_per_step > 1 and not how.settings.average_aggregated_gradients:
                # Keras has divided the sum by their number.
                return [how.backend.scaled(each, float(passes)) for each in reduced]
            return reduced

        if passes and hasattr(how.backend, "if_true"):
            # There what is computed in steps that only accumulate is thrown away.
            return how.backend.if_true((self._iterations + 1) % passes == 0, reduce, grads)
        return reduce(grads)


class DistributedLossScale:
    """What is put before LossScaleOptimizer, whose inner optimizer is a `Distributed`.

    A rank that left a step out because its own gradients are infinite would leave the others waiting, and they would
    have another scale afterwards. So all of them leave it out.
    """

    def register_local_var(self: Any, variable: Any) -> None:
        """As that of the optimizer inside."""
        self.inner_optimizer.register_local_var(variable)

    def check_finite(self: Any, grads: Sequence[Any]) -> Any:
        """Whether the gradients of all ranks are finite."""
        finite = super().check_finite(grads)  # type: ignore[misc]
        how = self.inner_optimizer.farandole
        if how is None or not how.settings.process_set.included():
            return finite
        return how.backend.on_all(finite, f"{self.name}.finite")


def set_passes(optimizer: Any, passes: int) -> None:
    """Has a step made of the gradients of several batches. `optimizer`: without a LossScaleOptimizer around it.

    Raises:
        ValueError: it accumulates another number already, or has variables already.
    """
    present = optimizer.gradient_accumulation_steps
    if passes == 1 or present == passes:
        return
    if present:
        raise ValueError(
            f"backward_passes_per_step={passes}, but the optimizer has gradient_accumulation_steps={present}; give "
            "one of them"
        )
    if optimizer.built:
        raise ValueError(
            "the optimizer has variables already, and none to add gradients up in; make it with "
            f"gradient_accumulation_steps={passes}, or call DistributedOptimizer before it is used"
        )
    optimizer.gradient_accumulation_steps = passes


def policy_scales_loss(keras: Any) -> bool:
    """Whether `compile` puts a LossScaleOptimizer around an optimizer."""
    return keras.config.dtype_policy().name == "mixed_float16"
