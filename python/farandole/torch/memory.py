"""Tensors as the C ABI sees them: element type, shape, and contiguous host memory."""

from __future__ import annotations

from typing import Any

import torch

from farandole import _library

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

# What can be summed.
REDUCIBLE = {
    dtype: DTYPES[dtype]
    for dtype in (torch.int32, torch.int64, torch.float16, torch.float32, torch.float64, torch.bfloat16)
}


def dtype_code(tensor: torch.Tensor, table: Any = None) -> int:
    """Number of the element type of `tensor`.

    Raises:
        ValueError: not a dense tensor, or of a type that `table` (all types by default) lacks.
    """
    if not isinstance(tensor, torch.Tensor):
        raise ValueError(f"expected a torch.Tensor, got {type(tensor).__name__}")
    if tensor.layout is not torch.strided:
        raise ValueError(f"Tensor layout {tensor.layout} is not supported; use to_dense()")
    code = (DTYPES if table is None else table).get(tensor.dtype)
    if code is None:
        raise ValueError(f"Tensor type {tensor.dtype} is not supported")
    return code


def is_plain(tensor: torch.Tensor) -> bool:
    """Whether the library can work on the memory of `tensor` itself."""
    return tensor.is_cpu and tensor.is_contiguous() and not tensor.is_neg()


def staged(tensor: torch.Tensor) -> torch.Tensor:
    """`tensor` detached, or a contiguous copy of it in host memory if it is not plain."""
    tensor = tensor.detach()
    if is_plain(tensor):
        return tensor
    return tensor.to(device="cpu", copy=True, memory_format=torch.contiguous_format).resolve_neg()


def empty_plain(tensor: torch.Tensor) -> torch.Tensor:
    """New plain memory with shape and type of `tensor`."""
    return torch.empty(tensor.shape, dtype=tensor.dtype)


def shape_of(tensor: torch.Tensor) -> Any:
    """Shape of `tensor` as an array of the C ABI."""
    return _library.shape_array(tensor.shape)
