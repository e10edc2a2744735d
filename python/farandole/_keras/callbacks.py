"""What the callbacks do; the two packages put each before the Callback of their Keras."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from farandole._keras import backends, optimizer, variables
from farandole.core import handles, numpy_arrays, reduce_ops
from farandole.core.objects import allgather_object
from farandole.elastic import membership
from farandole.process import basics
from farandole.process_sets import global_process_set


class Base:
    """What Keras's Callback gives to a subclass: the model, and what `fit` was called with.

    Attributes:
        keras: the module of the Keras that the callback belongs to.
    """

    keras: Any
    model: Any
    params: Any


def _warn_of_a_plain_optimizer(model: Any) -> None:
    given = getattr(model, "optimizer", None)
    each = (given, optimizer.innermost(given))
    if given is None or basics.size() == 1 or any(getattr(one, "farandole", None) is not None for one in each):
        return
    warnings.warn(
        "the optimizer of this model is not a DistributedOptimizer, so each rank trains by itself, unless its "
        "train_step combines gradients. Copies of models, and those of keras.models.load_model, have plain ones: use "
        "hvd.load_model, or model.compile(hvd.DistributedOptimizer(model.optimizer), ...)",
        stacklevel=3,
    )


class BroadcastGlobalVariables(Base):
    """See `farandole.keras.callbacks.BroadcastGlobalVariablesCallback`."""

    def __init__(self, root_rank: int, device: str = "", local_variables: Iterable[Any] | None = None) -> None:
        super().__init__()
        self.root_rank = root_rank
        self._local = {id(variable) for variable in local_variables or ()}
        self.broadcast_done = False

    def set_model(self, model: Any) -> None:
        """Has the model's training fit to several ranks before Keras compiles it."""
        super().set_model(model)  # type: ignore[misc]
        if model is None:
            return
        optimizer.adopt(self.keras, model)
        _warn_of_a_plain_optimizer(model)
        backend = backends.of(self.keras)
        if getattr(model, "jit_compile", False) and hasattr(backend, "compiles") and not backend.compiles():
            # Keras 3 decides for it by itself where there is a GPU.
            warnings.warn(
                "training without jit_compile: under TensorFlow XLA has no collectives of Farandole's on a GPU",
                stacklevel=2,
            )
            model.jit_compile = False
            model.train_function = None

    def on_train_begin(self, logs: Any = None) -> None:
        """Broadcasts if all ranks have all variables, the optimizer's, too: then all begin with one model."""
        if self.broadcast_done:
            return
        missing = int(not variables.build(self.model))
        if not membership.largest("keras.missing_variables", (missing,))[0]:
            self._broadcast()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Broadcasts after the first batch, with which the variables have come, where that was not possible before."""
        if not self.broadcast_done:
            # A loop of the script's own may not have made a step yet.
            variables.build(self.model)
            self._broadcast()

    def _broadcast(self) -> None:
        every = [each for each in variables.of(self.model) if id(each) not in self._local]
        variables.broadcast(every, self.root_rank)
        self.broadcast_done = True


class MetricAverage(Base):
    """See `farandole.keras.callbacks.MetricAverageCallback`."""

    def __init__(self, device: str = "") -> None:
        super().__init__()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Replaces the numbers of `logs` by their averages over the ranks."""
        logs = {} if logs is None else logs
        names = sorted(name for name, number in logs.items() if np.ndim(number) == 0)
        every = allgather_object(names, "keras.metrics")
        if any(each != names for each in every):
            rank = next(rank for rank, each in enumerate(every) if each != names)
            differing = sorted(set(every[rank]) ^ set(names))
            raise ValueError(
                f"epoch {epoch}: rank {rank} and rank {basics.rank()} do not have the same metrics, but differ in "
                f"{', '.join(differing)}; all ranks need the same metrics and validation data"
            )
        if names:
            values = np.array([float(logs[name]) for name in names], np.float64)
            arguments = ("keras.metric_values", reduce_ops.Average, 1.0, 1.0, global_process_set)
            begun = numpy_arrays.collectives.allreduce(values, False, *arguments)
            averages = handles.synchronize(handles.track(*begun))
            logs.update({name: float(average) for name, average in zip(names, averages)})


def _velocities(optimizer: Any, model: Any) -> list[Any]:
    """Variables in which an optimizer with momentum adds up changes, each scaled by the rate of its time."""
    momentum = getattr(optimizer, "momentum", 0)
    if momentum is None or (isinstance(momentum, (int, float)) and not momentum):
        return []
    if hasattr(optimizer, "get_slot"):
        slots = [(each, "momentum") for each in model.trainable_variables]
        return [optimizer.get_slot(*each) for each in slots if each[1] in optimizer.get_slot_names()]
    found = getattr(optimizer, "momentums", None) or getattr(optimizer, "_momentums", None) or []
    return [each for each in found if each is not None]


class LearningRateSchedule(Base):
    """See `farandole.keras.callbacks.LearningRateScheduleCallback`."""

    def __init__(
        self,
        initial_lr: float,
        multiplier: float | Callable[[float], float],
        start_epoch: int = 0,
        end_epoch: int | None = None,
        staircase: bool = True,
        momentum_correction: bool = True,
        steps_per_epoch: int | None = None,
    ) -> None:
        super().__init__()
        if not initial_lr:
            raise ValueError(
                "initial_lr is required: the rate that the multiplier is for, which is not read from the model"
            )
        self.initial_lr = initial_lr
        self.start_epoch = start_epoch
        self.end_epoch = end_epoch
        self.staircase = staircase or not callable(multiplier)
        self.multiplier = multiplier if callable(multiplier) else lambda epoch: multiplier
        self.momentum_correction = momentum_correction
        self.steps_per_epoch = steps_per_epoch
        self.current_epoch = start_epoch

    def on_train_begin(self, logs: Any = None) -> None:
        """Finds out how many steps an epoch has, where that matters."""
        if not self.staircase and not self.steps_per_epoch:
            self.steps_per_epoch = (self.params or {}).get("steps")
            if not self.steps_per_epoch:
                raise ValueError(
                    f"Keras does not say how many steps an epoch has; give steps_per_epoch to {type(self).__name__}()"
                )

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Notes the epoch."""
        self.current_epoch = epoch

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Sets the rate: with a staircase at the first batch of an epoch only."""
        if self.current_epoch < self.start_epoch or (
            self.end_epoch is not None and self.current_epoch >= self.end_epoch
        ):
            return
        if not self.staircase:
            self._set(self.current_epoch + batch / self._steps())
        elif batch == 0:
            self._set(self.current_epoch)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Adds the rate to the epoch's numbers, as `lr`."""
        if logs is not None:
            logs["lr"] = float(variables.value(self.model.optimizer.learning_rate))

    def _steps(self) -> int:
        return self.steps_per_epoch or 1

    def _set(self, epoch: float) -> None:
        model, wanted = self.model, float(self.initial_lr * self.multiplier(epoch))
        before = float(variables.value(model.optimizer.learning_rate))
        if math.isclose(before, wanted, rel_tol=1e-7):
            return
        model.optimizer.learning_rate = wanted
        if self.momentum_correction and before > 0:
            for each in _velocities(optimizer.innermost(model.optimizer), model):
                each.assign(variables.value(each) * np.asarray(wanted / before, variables.value(each).dtype))


class LearningRateWarmup(LearningRateSchedule):
    """See `farandole.keras.callbacks.LearningRateWarmupCallback`."""

    def __init__(
        self,
        initial_lr: float,
        warmup_epochs: int = 5,
        momentum_correction: bool = True,
        steps_per_epoch: int | None = None,
        verbose: int = 0,
    ) -> None:
        if warmup_epochs <= 0:
            raise ValueError(f"warmup_epochs must be positive, got {warmup_epochs}")

        def multiplier(epoch: float) -> float:
            size = basics.size()
            # The last batch of an epoch has the rate of the epoch's end.
            return ((epoch + 1 / self._steps()) * (size - 1) / warmup_epochs + 1) / size

        super().__init__(initial_lr, multiplier, 0, warmup_epochs, False, momentum_correction, steps_per_epoch)
        self.verbose = verbose

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Says so when the warm-up is over, if asked to."""
        super().on_epoch_end(epoch, logs)
        if self.end_epoch is not None and epoch == self.end_epoch - 1 and self.verbose > 0:
            rate = float(variables.value(self.model.optimizer.learning_rate))
            print(f"\nEpoch {epoch + 1}: finished gradual learning rate warmup to {rate:g}.")


class BestModel(Base):
    """See `farandole.keras.callbacks.BestModelCheckpoint`."""

    filepath: Any

    def __init__(self, monitor: str, verbose: int, save_weights_only: bool, mode: str, save_freq: str | int) -> None:
        # Keras wants a name that fits.
        super().__init__(  # type: ignore[call-arg]
            "best.weights.h5" if save_weights_only else "best.keras",
            monitor=monitor,
            verbose=verbose,
            save_best_only=True,
            save_weights_only=save_weights_only,
            mode=mode,
            save_freq=save_freq,
        )
        self.filepath = None

    def on_train_begin(self, logs: Any = None) -> None:
        """Raises ValueError if nobody has said where the model goes."""
        if self.filepath is None:
            raise ValueError("BestModelCheckpoint has no filepath; set it, as in checkpoint.filepath = 'best.keras'")
        super().on_train_begin(logs)  # type: ignore[misc]
