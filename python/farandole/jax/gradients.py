"""Training: gradients that are the same on all ranks."""

from __future__ import annotations

import functools
from typing import Any, Callable

import jax

from farandole.jax.collectives import allreduce
from farandole.jax.compression import Compression, Compressor
from farandole.process_sets import ProcessSet, global_process_set


def value_and_grad(
    fun: Callable[..., Any],
    argnums: Any = 0,
    has_aux: bool = False,
    op: int | None = None,
    name: str = "gradients",
    compression: type[Compressor] = Compression.none,
    process_set: ProcessSet = global_process_set,
) -> Callable[..., Any]:
    """As `jax.value_and_grad`, with gradients that are combined over the ranks. The value is this rank's own.

    Args:
        fun, argnums, has_aux: as of `jax.value_and_grad`.
        op: Average (default), Sum or Adasum.
        name: other functions that are differentiated in the same job have another one.
        compression: the type that gradients have on the way.
        process_set: the ranks that take part. Default: all ranks of the job.

    Returns:
        A function. It raises what `allreduce` raises.
    """
    local = jax.value_and_grad(fun, argnums, has_aux)

    @functools.wraps(fun)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        value, gradients = local(*args, **kwargs)
        return value, allreduce(gradients, op, name, compression=compression, process_set=process_set)

    return wrapper


def grad(fun: Callable[..., Any], argnums: Any = 0, has_aux: bool = False, **reducing: Any) -> Callable[..., Any]:
    """As `jax.grad`, with gradients that are combined over the ranks.

    Args:
        fun, argnums, has_aux: as of `jax.grad`.
        reducing: `op`, `name`, `compression` and `process_set`, as of `value_and_grad`.
    """
    both = value_and_grad(fun, argnums, has_aux, **reducing)

    @functools.wraps(fun)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        value, gradients = both(*args, **kwargs)
        return (gradients, value[1]) if has_aux else gradients

    return wrapper


def distributed_gradients(
    transform: Any,
    op: int | None = None,
    name: str = "gradients",
    compression: type[Compressor] = Compression.none,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """A gradient transformation of optax that combines the gradients over the ranks before `transform` sees them.

    Its state is that of `transform`, so that what is saved loads without Farandole. To reduce once in several steps,
    put `optax.MultiSteps` around it.

    Args:
        transform: an `optax.GradientTransformation`, such as ``optax.adam(1e-3)``.
        op: Average (default), Sum or Adasum.
        name: other optimizers in the same job have another one.
        compression: the type that gradients have on the way.
        process_set: the ranks that take part. Default: all ranks of the job.

    Returns:
        An `optax.GradientTransformationExtraArgs`. `update` raises what `allreduce` raises.
    """
    import optax

    inner = optax.with_extra_args_support(transform)

    def update(updates: Any, state: Any, params: Any = None, **extra: Any) -> tuple[Any, Any]:
        reduced = allreduce(updates, op, name, compression=compression, process_set=process_set)
        return inner.update(reduced, state, params, **extra)

    return optax.GradientTransformationExtraArgs(inner.init, update)
