"""Variables of TensorFlow and Keras, and of their optimizers, whatever the release."""

from __future__ import annotations

from typing import Any


def key_of(variable: Any) -> Any:
    """What a variable is in a set or a dict: comparing variables may be an operation on their values. The same of a
    variable of Keras 3 on TensorFlow and of the tf.Variable inside, which tapes and loops of one's own have."""
    inner: Any = getattr(variable, "_value", None)
    found = inner if hasattr(inner, "ref") else variable
    return found.ref() if hasattr(found, "ref") else id(found)


def of_optimizer(optimizer: Any) -> list[Any]:
    """Those that an optimizer of any Keras has made so far, the learning rate among them; none of None."""
    found = getattr(optimizer, "variables", [])
    # Legacy ones of Keras 2 have a method, new ones of it a list that can be called.
    every = list(found if isinstance(found, list) else found() if callable(found) else found)
    rate = getattr(optimizer, "learning_rate", None)
    # Keras 2 does not count it among the others. There is no variable where the rate is computed from the step.
    return every if not hasattr(rate, "assign") or any(rate is each for each in every) else [*every, rate]


def begin_step(optimizer: Any) -> None:
    """Forgets gradients that were added up on this rank beside the optimizer, and are no part of its variables."""
    sums = getattr(optimizer, "_farandole_sums", None)
    if sums is not None:
        sums.forget()
