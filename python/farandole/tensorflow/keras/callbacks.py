"""Callbacks of `fit`, with the interface of horovod.tensorflow.keras.callbacks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import tensorflow as tf

from farandole._keras import callbacks as _callbacks

__all__ = [
    "BestModelCheckpoint",
    "BroadcastGlobalVariablesCallback",
    "LearningRateScheduleCallback",
    "LearningRateWarmupCallback",
    "MetricAverageCallback",
]


class BroadcastGlobalVariablesCallback(_callbacks.BroadcastGlobalVariables, tf.keras.callbacks.Callback):  # type: ignore[misc]
    """Has all ranks train the same model: they take over the weights and the optimizer's state of `root_rank`, once.

    That is when training begins, if all variables are there by then, and after the first batch otherwise.

    Args:
        root_rank: the rank that has loaded or initialised the model.
        device: not used; Horovod has it.
        local_variables: variables that are each rank's own, and stay.

    Raises:
        ValueError: the ranks have other variables.
    """

    keras = tf.keras

    def __init__(self, root_rank: int, device: str = "", local_variables: Iterable[Any] | None = None) -> None:
        super().__init__(root_rank, device, local_variables)


class MetricAverageCallback(_callbacks.MetricAverage, tf.keras.callbacks.Callback):  # type: ignore[misc]
    """Replaces the numbers of an epoch, such as loss and accuracy, by their averages over the ranks.

    Callbacks after it in the list see the averages: put it before those that decide by them. Each rank counts the same.

    Args:
        device: not used; Horovod has it.

    Raises:
        ValueError: the ranks do not have the same numbers.
    """

    keras = tf.keras

    def __init__(self, device: str = "") -> None:
        super().__init__(device)


class LearningRateScheduleCallback(_callbacks.LearningRateSchedule, tf.keras.callbacks.Callback):  # type: ignore[misc]
    """Sets the learning rate to `initial_lr * multiplier(epoch)`, and adds it to each epoch's numbers as `lr`.

    Args:
        initial_lr: the rate that the multiplier is for.
        multiplier: a number, or a function of the epoch, which has fractions unless `staircase`.
        start_epoch, end_epoch: the first epoch in which the rate is set, and that after the last one. None: to the end.
        staircase: only at the beginning of epochs; always if `multiplier` is a number.
        momentum_correction: what an optimizer with momentum has added up is scaled as the rate is (Goyal et al., 2017,
            section 2.1, remark 2).
        steps_per_epoch: how many batches an epoch has. None: as Keras says.

    Raises:
        ValueError: no initial_lr; or, when training begins, Keras does not know the steps and they matter.
    """

    keras = tf.keras

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
        super().__init__(
            initial_lr, multiplier, start_epoch, end_epoch, staircase, momentum_correction, steps_per_epoch
        )


class LearningRateWarmupCallback(_callbacks.LearningRateWarmup, tf.keras.callbacks.Callback):  # type: ignore[misc]
    """Raises the learning rate from `initial_lr / size` to `initial_lr` in the first epochs, batch by batch (Goyal et
    al., 2017).

    In batch b (from 0) of s, in epoch e, it is
    `initial_lr / size * ((e + (b + 1) / s) * (size - 1) / warmup_epochs + 1)`.

    Args:
        initial_lr: the rate for all ranks together, usually that of one times `hvd.size()`.
        warmup_epochs: how many epochs that takes.
        momentum_correction, steps_per_epoch: as of `LearningRateScheduleCallback`.
        verbose: 1: says so at the end.

    Raises:
        As `LearningRateScheduleCallback`.
    """

    keras = tf.keras

    def __init__(
        self,
        initial_lr: float,
        warmup_epochs: int = 5,
        momentum_correction: bool = True,
        steps_per_epoch: int | None = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(initial_lr, warmup_epochs, momentum_correction, steps_per_epoch, verbose)


class BestModelCheckpoint(_callbacks.BestModel, tf.keras.callbacks.ModelCheckpoint):  # type: ignore[misc]
    """Saves the model whenever `monitor` is better than ever before, to `filepath`, which is to be set after the
    callback is made: ``checkpoint.filepath = "best.keras"``. Give it to one rank only, after `MetricAverageCallback`.

    Args:
        monitor, verbose, save_weights_only, mode, save_freq: as of Keras's ModelCheckpoint.

    Raises:
        ValueError: when training begins: no filepath.
    """

    def __init__(
        self,
        monitor: str = "val_loss",
        verbose: int = 0,
        save_weights_only: bool = False,
        mode: str = "auto",
        save_freq: str | int = "epoch",
    ) -> None:
        super().__init__(monitor, verbose, save_weights_only, mode, save_freq)
