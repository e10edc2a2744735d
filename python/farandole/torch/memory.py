"""Tensors as the C ABI sees them: element type, shape, and contiguous host memory."""

from __future__ import annotations

import functools
from typing import Any

import torch

from farandole.library import abi, errors

# Numbers of proto/farandole/v1/types.proto. torch gained uint16 in 2.3.
DTYPES = {
    torch.uint8: 0,
    torch.int8: 1,
    torch.int16: 3,
    torch.int32: 4,
    torch.int64: 5,
    torch.float16: 6,
    torch.float32: 7,
    torch.float64: 8,
    torch.bool: 9,
    torch.bfloat16: 10,
}
if hasattr(torch, "uint16"):
    DTYPES[torch.uint16] = 2

# What can be averaged, and so be a gradient.
REDUCIBLE = {dtype: code for dtype, code in DTYPES.items() if dtype is not torch.bool}


def _check_has_gpu() -> bool:
    """Whether torch has a GPU here. Scripts and tests of Horovod's users ask for it."""
    return torch.cuda.is_available()


def dtype_code(tensor: torch.Tensor, table: Any = None) -> int:
    """Number of the element type of `tensor`.

    Raises:
        ValueError: not a dense tensor, or of a type that `table` (all types by default) lacks.
    """
    if not isinstance(tensor, torch.Tensor):
        raise ValueError(f"expected a torch.Tensor, got {type(tensor).__name__}")
    if tensor.layout is not torch.strided:
        raise ValueError(f"Tensor layout {tensor.layout} is not supported; use to_dense() or sparse_allreduce_async()")
    code = (DTYPES if table is None else table).get(tensor.dtype)
    if code is None:
        raise ValueError(f"Tensor type {tensor.dtype} is not supported")
    return code


def is_plain(tensor: torch.Tensor) -> bool:
    """Whether the library can work on the memory of `tensor` itself."""
    return tensor.is_cpu and tensor.is_contiguous() and not tensor.is_neg()


def staged(tensor: torch.Tensor) -> torch.Tensor:
    """`tensor` detached, or a contiguous copy of it in host memory if it is not plain.

    Raises:
        ValueError: it has no values (a meta tensor).
    """
    tensor = tensor.detach()
    if is_plain(tensor):
        return tensor
    if tensor.is_meta:
        raise ValueError("a tensor on the device 'meta' has no values; move the model to a real device first")
    return tensor.to(device="cpu", copy=True, memory_format=torch.contiguous_format).resolve_neg()


def empty_plain(tensor: torch.Tensor) -> torch.Tensor:
    """New plain memory with shape and type of `tensor`."""
    return torch.empty(tensor.shape, dtype=tensor.dtype)


def place_for_result(tensor: torch.Tensor, source: torch.Tensor, in_place: bool) -> torch.Tensor:
    """Plain memory for a result that `deliver` brings to where the caller expects it; `source` is `staged(tensor)`.

    Raises:
        ValueError: the result is to replace the values of a tensor whose elements share memory.
    """
    if is_plain(tensor):
        return source if in_place else empty_plain(tensor)
    if in_place and any(stride == 0 and size > 1 for stride, size in zip(tensor.stride(), tensor.shape)):
        raise ValueError(
            "elements of this tensor share memory (it was expanded), so results cannot replace its values; use clone()"
        )
    return source  # a copy: it may be overwritten


def operands(tensor: torch.Tensor, in_place: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Plain memory with the values of `tensor`, and such for the result. Raises ValueError as the functions above."""
    if is_plain(tensor):
        return tensor, tensor if in_place else empty_plain(tensor)
    source = staged(tensor)
    return source, place_for_result(tensor, source, in_place)


def place_for_rows(source: torch.Tensor, process_set_id: int) -> torch.Tensor:
    """Plain memory for the rows that this process gets of a reducescatter of `source`.

    Raises:
        ValueError: there is no such set, or this process is not a member.
    """
    library = abi.load()
    size, position = library.process_set_size(process_set_id), library.process_set_rank(process_set_id)
    if size < 0 or position < 0:
        errors.raise_error(min(size, position))
    rows = source.shape[0] // size + (position < source.shape[0] % size)
    return torch.empty((rows, *source.shape[1:]), dtype=source.dtype)


def deliver(result: torch.Tensor, tensor: torch.Tensor, in_place: bool) -> torch.Tensor:
    """Brings plain memory to where the caller expects it."""
    if result is tensor:
        return tensor
    if not in_place:
        return result if tensor.is_cpu else result.to(tensor.device)
    if result.data_ptr() != tensor.data_ptr():
        with torch.no_grad():
            tensor.copy_(result)
    return tensor


def gathered(done: int, tensor: torch.Tensor) -> torch.Tensor:
    """The result that belongs to a handle, in the type and on the device of `tensor`."""
    library = abi.load()
    result = torch.empty(library.result_dimensions(done), dtype=tensor.dtype)
    code = library.result_copy(done, result.data_ptr(), result.numel() * result.element_size())
    if code != abi.OK:
        errors.raise_error(code)
    return result if tensor.is_cpu else result.to(tensor.device)


def shape_of(tensor: torch.Tensor) -> Any:
    """Shape of `tensor` as an array of the C ABI, which nobody may change."""
    return _array_of(tensor.shape)


@functools.lru_cache(maxsize=4096)
def _array_of(shape: torch.Size) -> Any:
    return abi.shape_array(shape)
