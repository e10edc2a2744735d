"""The collectives as operators of torch.library, which torch.compile puts into its graphs as they are.

Nothing about ranks or sizes becomes part of a graph: what depends on them has a size that is known when it runs. So all
ranks compile the same, and a graph outlives a change of the membership. Calls outside of compiled functions do not go
through here, because an operator costs several times what the rest of a call does.

torch before 2.4 has no `torch.library.custom_op`; there a collective interrupts the graph.
"""

# Annotations are the schemas of the operators: torch reads them, so they are no text, and `|` is not for Python 3.9.
from types import SimpleNamespace
from typing import Any, Callable, Optional

import torch

from farandole import process_sets
from farandole.core.handles import synchronize
from farandole.torch.collectives import autograd, operations

_available = hasattr(torch.library, "custom_op")
# Whether the caller is being traced.
is_compiling = torch.compiler.is_compiling if _available else lambda: False


_Function = Callable[..., Any]


def _operator(fake: _Function, backward: Optional[_Function] = None, setup: Optional[_Function] = None) -> _Function:
    """Makes an operator of a function.

    Args:
        fake: results of the right shapes, without values.
        backward: gradients of the arguments, as `torch.library.register_autograd` takes it; `ctx.arguments` are those
            of the call behind the tensor, with the name that the operation on the gradient has, `ctx.rows` its rows.
        setup: what keeps these; `_keep_arguments` if not given.
    """

    def make(function: _Function) -> _Function:
        if not _available:
            return function
        made = torch.library.custom_op(f"farandole::{function.__name__}", function, mutates_args=())
        made.register_fake(fake)
        if backward is not None:
            made.register_autograd(backward, setup_context=setup or _keep_arguments)
        return made

    return make


def _keep_arguments(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    tensor, name, *others = inputs
    ctx.rows = tensor.shape[0] if tensor.dim() else 0
    ctx.arguments = (autograd.gradient_name(name), *others)


def _alike(tensor: torch.Tensor, *arguments: Any) -> torch.Tensor:
    return tensor.new_empty(tensor.shape)


def _some_rows(tensor: torch.Tensor, *arguments: Any) -> torch.Tensor:
    return tensor.new_empty((torch.library.get_ctx().new_dynamic_size(), *tensor.shape[1:]))


def _given_rows(tensor: torch.Tensor, rows: int, *arguments: Any) -> torch.Tensor:
    return tensor.new_empty((rows, *tensor.shape[1:]))


def _backward_of(function: Any, gradients: tuple[Any, ...], **call: Any) -> torch.Tensor:
    """What a function of `autograd` makes of gradients; `call`: what its forward keeps."""
    with torch.no_grad():
        return function.backward(SimpleNamespace(**call), *gradients)[0].contiguous()


def _allreduce_backward(ctx: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
    return (allreduce(gradient, *ctx.arguments), None, None, None, None, None)


@_operator(_alike, _allreduce_backward)
def allreduce(
    tensor: torch.Tensor, name: Optional[str], op: int, prescale: float, postscale: float, set_id: int
) -> torch.Tensor:
    """postscale * reduce(prescale * tensor)."""
    ranks = process_sets.of_id(set_id)
    return synchronize(operations.allreduce_async(tensor, None, name, op, prescale, postscale, ranks))


@_operator(_given_rows)
def allgather_backward(gradient: torch.Tensor, rows: int, name: Optional[str], set_id: int) -> torch.Tensor:
    """The rows of this rank in the mean of the ranks' gradients."""
    ranks = process_sets.of_id(set_id)
    return _backward_of(autograd.Allgather, (gradient,), name=name, process_set=ranks, rows=rows)


@_operator(_some_rows, lambda ctx, gradient: (allgather_backward(gradient, ctx.rows, *ctx.arguments), None, None))
def allgather(tensor: torch.Tensor, name: Optional[str], set_id: int) -> torch.Tensor:
    """The tensors of all ranks, one behind the other."""
    return synchronize(operations.allgather_async(tensor, name, process_sets.of_id(set_id)))


@_operator(_alike)
def broadcast_backward(gradient: torch.Tensor, name: Optional[str], root: int, set_id: int) -> torch.Tensor:
    """The mean of the ranks' gradients on the root, zeros elsewhere."""
    ranks = process_sets.of_id(set_id)
    return _backward_of(autograd.Broadcast, (gradient,), name=name, process_set=ranks, root_rank=root)


@_operator(_alike, lambda ctx, gradient: (broadcast_backward(gradient, *ctx.arguments), None, None, None))
def broadcast(tensor: torch.Tensor, name: Optional[str], root: int, set_id: int) -> torch.Tensor:
    """The values of the root."""
    return synchronize(operations.broadcast_async(tensor, root, name, process_sets.of_id(set_id)))


@_operator(_given_rows)
def reducescatter_backward(
    gradient: torch.Tensor, rows: int, name: Optional[str], op: int, prescale: float, postscale: float, set_id: int
) -> torch.Tensor:
    """The gradients of all rows."""
    ranks = process_sets.of_id(set_id)
    factor = autograd.reducescatter_gradient_factor(op, prescale, postscale, ranks)
    return _backward_of(autograd.Reducescatter, (gradient,), name=name, process_set=ranks, factor=factor)


@_operator(
    _some_rows,
    lambda ctx, gradient: (reducescatter_backward(gradient, ctx.rows, *ctx.arguments), None, None, None, None, None),
)
def reducescatter(
    tensor: torch.Tensor, name: Optional[str], op: int, prescale: float, postscale: float, set_id: int
) -> torch.Tensor:
    """The rows of this rank in the reduction."""
    ranks = process_sets.of_id(set_id)
    return synchronize(operations.reducescatter_async(tensor, name, op, ranks, prescale, postscale))


@_operator(_given_rows)
def alltoall_backward(
    gradient: torch.Tensor, rows: int, received: torch.Tensor, name: Optional[str], set_id: int
) -> torch.Tensor:
    """Gradients of the rows, from where these went."""
    call = (name, process_sets.of_id(set_id))
    return _backward_of(autograd.Alltoall, (gradient, None), arguments=call, received=received, rows=rows)


def _received(tensor: torch.Tensor, name: Optional[str], splits: torch.Tensor, set_id: int) -> tuple[Any, ...]:
    # As many numbers as there are ranks, also if `splits` is empty.
    size = torch.library.get_ctx().new_dynamic_size()
    return _some_rows(tensor), splits.new_empty((size,), dtype=torch.int32)


def _keep_received(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
    _keep_arguments(ctx, inputs, output)
    ctx.save_for_backward(output[1])
    ctx.mark_non_differentiable(output[1])


@_operator(
    _received,
    lambda ctx, gradient, _: (
        alltoall_backward(gradient, ctx.rows, ctx.saved_tensors[0], ctx.arguments[0], ctx.arguments[2]),
        None,
        None,
        None,
    ),
    _keep_received,
)
def alltoall(
    tensor: torch.Tensor, name: Optional[str], splits: torch.Tensor, set_id: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """What has come, and how many rows from each rank. Empty `splits`: the same number of rows to each."""
    return synchronize(operations.alltoall_async(tensor, splits, name, process_sets.of_id(set_id)))
