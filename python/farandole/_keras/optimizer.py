"""`DistributedOptimizer`: an optimizer of Keras whose steps use the gradients of all ranks."""

from __future__ import annotations

import functools
import types
from collections.abc import Iterable
from typing import Any

from farandole._keras import backends
from farandole._keras.reduction import Backend, Reduction, Settings, check

# Modules of Keras by whose names what is saved finds its optimizers again.
_HOMES = ("optimizers", "optimizers.legacy", "mixed_precision")


def distribute(keras: Any, optimizer: Any, settings: Settings, name: str | None, local_layers: Iterable[Any]) -> Any:
    """The optimizer, of a class derived from its own that combines gradients; under a policy of mixed float16 with a
    LossScaleOptimizer around it, on which all ranks agree. See `farandole.keras.DistributedOptimizer`.

    Raises:
        TypeError: not an optimizer of this Keras, or distributed already.
        ValueError: a wrong argument, or not initialised.
    """
    check(settings)
    _check_kind(keras, optimizer)
    if name is not None:
        object.__setattr__(optimizer, "_name" if hasattr(optimizer, "_name") else "name", name)
    reduction = Reduction(_backend(keras, settings), local_layers)
    return (_distribute2 if backends.is_keras2(keras) else _distribute3)(keras, optimizer, reduction)


def _check_kind(keras: Any, optimizer: Any) -> None:
    legacy: Any = getattr(keras.optimizers, "legacy", None)
    kinds = (keras.optimizers.Optimizer, *([legacy.Optimizer] if hasattr(legacy, "Optimizer") else []))
    if not isinstance(optimizer, kinds):
        raise TypeError(
            f"DistributedOptimizer takes an optimizer of Keras {2 if backends.is_keras2(keras) else 3}, got "
            f"{type(optimizer).__module__}.{type(optimizer).__name__}; the model stays as it is"
        )
    if (
        getattr(innermost(optimizer), "farandole", None) is not None
        or getattr(optimizer, "farandole", None) is not None
    ):
        raise TypeError("the optimizer is a DistributedOptimizer already: wrap it once, where it is made")


def _backend(keras: Any, settings: Settings) -> Backend:
    module = backends.of(keras)
    for kind in ("TensorflowBackend", "JaxBackend", "TorchBackend"):
        if hasattr(module, kind):
            return getattr(module, kind)(settings)
    raise AssertionError(f"{module.__name__} defines no backend")


def _distribute2(keras: Any, optimizer: Any, reduction: Reduction) -> Any:
    from farandole._keras import keras2

    if keras2.policy_scales_loss(keras) and not hasattr(optimizer, "inner_optimizer"):
        optimizer = keras.mixed_precision.LossScaleOptimizer(optimizer)
    return _derive(keras, optimizer, keras2.Distributed, reduction)


def _distribute3(keras: Any, optimizer: Any, reduction: Reduction) -> Any:
    from farandole._keras import keras3

    inner = innermost(optimizer)
    keras3.set_passes(inner, reduction.settings.backward_passes_per_step)
    _derive(keras, inner, keras3.Distributed, reduction)
    if optimizer is inner:
        if not keras3.policy_scales_loss(keras):
            return inner
        optimizer = keras.optimizers.LossScaleOptimizer(inner)
    return _derive(keras, optimizer, keras3.DistributedLossScale, None)


def adopt(keras: Any, model: Any) -> None:
    """Where `compile` has put a plain LossScaleOptimizer around a distributed optimizer, makes it one on which all
    ranks agree: the policy was changed after the optimizer was made."""
    optimizer = getattr(model, "optimizer", None)
    inner = innermost(optimizer)
    reduction = getattr(inner, "farandole", None)
    if optimizer is inner or reduction is None:
        return
    if backends.is_keras2(keras):
        from farandole._keras import keras2

        # It decides by the gradients that it is given, and not by those that it hands on.
        _derive(keras, optimizer, keras2.Distributed, reduction)
        object.__setattr__(inner, "farandole", None)
        return
    from farandole._keras import keras3

    if not isinstance(optimizer, keras3.DistributedLossScale):
        _derive(keras, optimizer, keras3.DistributedLossScale, None)


def innermost(optimizer: Any) -> Any:
    """Without the LossScaleOptimizer around it."""
    return getattr(optimizer, "inner_optimizer", optimizer)


def _derive(keras: Any, optimizer: Any, mixin: type, reduction: Reduction | None) -> Any:
    """The same object with the same state; its class has the mixin in front."""
    # A copy that was made from a configuration has the class already.
    if not isinstance(optimizer, mixin):
        kind: Any = type(optimizer)
        optimizer.__class__ = _derived(keras, mixin, kind)
    if reduction is not None:
        # Past what Keras does with attributes: this one is not tracked, and not saved.
        object.__setattr__(optimizer, "farandole", reduction)
    return optimizer


@functools.cache
def _derived(keras: Any, mixin: Any, kind: Any) -> type:
    namespace = {"__module__": _home(keras, kind), "__qualname__": kind.__qualname__, "__doc__": kind.__doc__}
    return types.new_class(kind.__name__, (mixin, kind), {}, lambda given: given.update(namespace))


def _home(keras: Any, kind: type) -> str:
    """The module from which the class is loaded again, without Farandole: that of Keras, or the user's own."""
    if kind.__module__.partition(".")[0] in ("keras", "tf_keras"):
        for home in _HOMES:
            module: Any = keras
            for part in home.split("."):
                module = getattr(module, part, None)
            public = getattr(module, kind.__name__, None)
            # Under torch the class of an optimizer is a subclass of the one that has the public name.
            if isinstance(public, type) and issubclass(kind, public):
                return f"keras.{home}"
    return kind.__module__
