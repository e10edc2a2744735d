"""Farandole for tf.keras, with the interface of horovod.tensorflow.keras: ``import farandole.tensorflow.keras as hvd``.

tf.keras is Keras 2 before TensorFlow 2.16 (and later with TF_USE_LEGACY_KERAS=1), and Keras 3 from then on.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from farandole._keras import backends as _backends
from farandole._keras import functions as _functions
from farandole._keras import optimizer as _optimizer
from farandole._keras.reduction import Settings as _Settings
from farandole._keras.reduction import chosen_groups as _chosen_groups
from farandole.core.reduce_ops import Average, Sum
from farandole.process.basics import (
    ccl_built,
    cross_rank,
    cross_size,
    cuda_built,
    ddl_built,
    gloo_built,
    gloo_enabled,
    is_homogeneous,
    is_initialized,
    local_rank,
    local_size,
    mpi_built,
    mpi_enabled,
    mpi_threads_supported,
    nccl_built,
    rank,
    rocm_built,
    size,
    start_timeline,
    stop_timeline,
)
from farandole.process_sets import ProcessSet, add_process_set, global_process_set, remove_process_set
from farandole.session.init import init, shutdown
from farandole.tensorflow.keras import callbacks, elastic
from farandole.version import __version__

__all__ = [
    "Average",
    "Compression",
    "DistributedOptimizer",
    "ProcessSet",
    "Sum",
    "__version__",
    "add_process_set",
    "allgather",
    "allreduce",
    "broadcast",
    "broadcast_global_variables",
    "callbacks",
    "ccl_built",
    "cross_rank",
    "cross_size",
    "cuda_built",
    "ddl_built",
    "elastic",
    "global_process_set",
    "gloo_built",
    "gloo_enabled",
    "init",
    "is_homogeneous",
    "is_initialized",
    "load_model",
    "local_rank",
    "local_size",
    "mpi_built",
    "mpi_enabled",
    "mpi_threads_supported",
    "nccl_built",
    "rank",
    "reducescatter",
    "remove_process_set",
    "rocm_built",
    "shutdown",
    "size",
    "start_timeline",
    "stop_timeline",
]

_keras = tf.keras
Compression = _backends.of(_keras).Compression


def DistributedOptimizer(  # noqa: N802
    optimizer: Any,
    name: str | None = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Any = Compression.none,
    sparse_as_dense: bool = False,
    gradient_predivide_factor: float = 1.0,
    op: int = Average,
    backward_passes_per_step: int = 1,
    average_aggregated_gradients: bool = False,
    num_groups: int = 0,
    groups: Any = None,
    process_set: ProcessSet = global_process_set,
    scale_local_gradients: bool = True,
) -> Any:
    """An optimizer of Keras whose steps use the gradients of all ranks.

    It is the same object, of a class with the same name that is derived from its own, and its state stays; what is
    saved with it loads without Farandole. Under the policy `mixed_float16` it comes with a LossScaleOptimizer around
    it: all ranks leave out a step in which one of them has infinite gradients.

    Gradients of several batches (Keras's `gradient_accumulation_steps`, or `backward_passes_per_step`) are combined
    once, when a step is made. All dense gradients go in one call. Clipping and weight decay see the gradients of all
    ranks.

    Args:
        optimizer: any optimizer of Keras, also a LossScaleOptimizer.
        name: what it is called from now on. None: as before.
        device_dense, device_sparse: not used; Horovod has them.
        compression: the type that gradients have on the way, one of `Compression`.
        sparse_as_dense: tf.IndexedSlices (of embeddings, under TensorFlow) are made dense first; otherwise their rows
            are gathered.
        gradient_predivide_factor: for Average: gradients are divided by f before the sum, and by size / f after it.
        op: Average or Sum of the gradients.
        backward_passes_per_step: how many batches a step is made of.
        average_aggregated_gradients: their gradients are averaged, and not added up.
        num_groups: deprecated, use `groups`.
        groups: how gradients go together: a number of groups, or lists of variables; others go by themselves. None: all
            in one group.
        process_set: the ranks that take part; the others keep their own gradients. Default: all ranks of the job.
        scale_local_gradients: gradients that are not combined (`register_local_var`) are divided by the number of
            ranks, as the others are.

    Returns:
        The optimizer, or a LossScaleOptimizer around it.

    Raises:
        TypeError: not an optimizer of this Keras, or a DistributedOptimizer already.
        ValueError: a wrong argument, or not initialised.
    """
    settings = _Settings(
        compression,
        sparse_as_dense,
        op,
        gradient_predivide_factor,
        backward_passes_per_step,
        average_aggregated_gradients,
        _chosen_groups(num_groups, groups),
        process_set,
        scale_local_gradients,
    )
    return _optimizer.distribute(_keras, optimizer, settings, name, ())


def broadcast_global_variables(root_rank: int) -> Any:
    """In a graph of TensorFlow 1 (Keras 2 only): gives all its variables the values that they have on `root_rank`.

    Raises:
        RuntimeError: in eager execution; `callbacks.BroadcastGlobalVariablesCallback` does it there.
    """
    return _functions.broadcast_global_variables(_keras, root_rank)


def allreduce(
    value: Any,
    name: str | None = None,
    average: bool | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    op: int | None = None,
    compression: Any = Compression.none,
) -> Any:
    """Combines a value over the ranks.

    Args:
        value: a tensor, an array or a number, of the same shape and type on all ranks.
        name: the same on all ranks. None: by order of submission.
        average: deprecated; use `op`.
        prescale_factor, postscale_factor: of each value, and of the result.
        op: Average (default) or Sum.
        compression: the type that floating-point numbers have on the way.

    Returns:
        A tensor of TensorFlow, of the same shape and type.

    Raises:
        ValueError: a wrong argument, or not initialised.
        Otherwise what the backend's allreduce raises where ranks disagree or one is lost.
    """
    chosen = _functions.operation(op, average)
    return _functions.allreduce(_keras, value, name, chosen, prescale_factor, postscale_factor, compression)


def allgather(value: Any, name: str | None = None) -> Any:
    """Concatenates the values of all ranks along their first dimension, which may differ, in order of rank.

    Args, returns, raises: as `allreduce`.
    """
    return _backends.of(_keras).allgather(value, name)


def broadcast(value: Any, root_rank: int, name: str | None = None) -> Any:
    """The value of `root_rank` on all ranks.

    Args, returns, raises: as `allreduce`; `root_rank` is a rank of the job.
    """
    return _backends.of(_keras).broadcast(value, root_rank, name)


def reducescatter(value: Any, name: str | None = None, op: int = Average) -> Any:
    """Combines the values of the ranks, and gives each rank some rows of them: of r rows rank p of n gets r // n, and
    one more if p < r % n.

    Args, returns, raises: as `allreduce`.
    """
    return _backends.of(_keras).reducescatter(value, op, name)


def load_model(
    filepath: Any,
    custom_optimizers: Iterable[type] | None = None,
    custom_objects: dict[str, Any] | None = None,
    compression: Any = Compression.none,
    legacy_opts: bool = False,
) -> Any:
    """As `keras.models.load_model`; the model's optimizer, with its state, is distributed.

    Args:
        filepath: what `model.save` has written, with Farandole or without it.
        custom_optimizers: classes of optimizers that are not Keras's own.
        custom_objects: names, and what they mean.
        compression: as of `DistributedOptimizer`.
        legacy_opts: not used; Horovod has it.

    Returns:
        The model, compiled if it was.

    Raises:
        ValueError: not initialised; otherwise what Keras raises.
    """
    settings = _Settings(compression, False, Average, 1.0, 1, False, None, global_process_set, True)
    return _functions.load_model(_keras, filepath, custom_optimizers, custom_objects, settings)
