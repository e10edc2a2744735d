"""torch's tensors as `farandole.core` needs them: element type, shape, and contiguous memory of the host or of a CUDA
device."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Sequence
from typing import Any, Callable

import torch

from farandole.core import dtypes
from farandole.core.collectives import Collectives
from farandole.library import abi, gpus
from farandole.library.submission import OnDevice

DTYPES = {
    torch.uint8: dtypes.UINT8,
    torch.int8: dtypes.INT8,
    torch.int16: dtypes.INT16,
    torch.int32: dtypes.INT32,
    torch.int64: dtypes.INT64,
    torch.float16: dtypes.FLOAT16,
    torch.float32: dtypes.FLOAT32,
    torch.float64: dtypes.FLOAT64,
    torch.bool: dtypes.BOOL,
    torch.bfloat16: dtypes.BFLOAT16,
}
# torch gained it in 2.3.
if hasattr(torch, "uint16"):
    DTYPES[torch.uint16] = dtypes.UINT16

_CPU = torch.device("cpu")

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


def _stream_of_object(device: int) -> int:
    return torch.cuda.current_stream(device).cuda_stream


# Address of torch's current stream on a device; where torch has it, without an object for it, once for each gradient.
raw_stream: Callable[[int], int] = getattr(torch._C, "_cuda_getCurrentRawStream", _stream_of_object)


class OnCuda(OnDevice):
    """Where a tensor on a CUDA device is, and the stream that was torch's current one there."""

    __slots__ = ()

    def __init__(self, device: int) -> None:
        super().__init__(device, raw_stream(device))

    def current_stream(self) -> int:
        """That of the calling thread now."""
        return raw_stream(self.device)


@functools.lru_cache(maxsize=1)
def takes_cuda() -> bool:
    """Whether the library works on the memory of CUDA devices, so that tensors there need not be copied to the host.
    Loads NCCL if there is one. Asked for with the first tensor on a GPU: CUDA is initialised by then."""
    if torch.version.cuda is None:
        return False
    driver = gpus.cuda_driver()
    if not driver.number:
        warnings.warn(
            f"torch copies tensors on GPUs to host memory and back, for farandole: {driver.text}", stacklevel=2
        )
        return False
    gpus.nccl()
    gpus.set_reclaim(_give_up_cache)
    return True


def _give_up_cache(device: int) -> None:
    """Of all devices: torch has nothing for one."""
    try:
        torch.cuda.empty_cache()
    except RuntimeError:
        # Refused while a graph is being captured. What needs memory says that there is none.
        pass


def place_of(tensor: torch.Tensor) -> OnCuda | None:
    """Where plain memory is; None: in the host's."""
    return OnCuda(tensor.get_device()) if tensor.is_cuda else None


def is_plain(tensor: torch.Tensor) -> bool:
    """Whether the library can work on the memory of `tensor` itself."""
    return (tensor.is_cpu or (tensor.is_cuda and takes_cuda())) and tensor.is_contiguous() and not tensor.is_neg()


def staged(tensor: torch.Tensor) -> torch.Tensor:
    """`tensor` detached, or a contiguous copy of it if it is not plain: on the same device if the library works there,
    otherwise in host memory.

    Raises:
        ValueError: it has no values (a meta tensor).
    """
    tensor = tensor.detach()
    if is_plain(tensor):
        return tensor
    if tensor.is_meta:
        raise ValueError("a tensor on the device 'meta' has no values; move the model to a real device first")
    return tensor.to(device=_device_for(tensor), copy=True, memory_format=torch.contiguous_format).resolve_neg()


def _device_for(tensor: torch.Tensor) -> torch.device | str:
    return tensor.device if tensor.is_cuda and takes_cuda() else "cpu"


class _TorchTensors:
    """See `farandole.core.tensors.Tensors`."""

    def view(self, tensor: torch.Tensor, in_place: bool = False) -> tuple[torch.Tensor, int, int, Any, OnCuda | None]:
        code = dtype_code(tensor)
        source = tensor
        if not is_plain(tensor):
            if in_place and any(stride == 0 and size > 1 for stride, size in zip(tensor.stride(), tensor.shape)):
                raise ValueError(
                    "elements of this tensor share memory (it was expanded), so results cannot replace its values; use "
                    "clone()"
                )
            source = staged(tensor)
        return source, source.data_ptr(), code, shape_of(tensor), place_of(source)

    def empty(self, tensor: torch.Tensor, shape: Sequence[int] | None = None) -> tuple[torch.Tensor, int]:
        shape = tensor.shape if shape is None else shape
        # Not torch's default device, which a script may have set.
        result = torch.empty(shape, dtype=tensor.dtype, device=_CPU if tensor.is_cpu else _device_for(tensor))
        return result, result.data_ptr()

    def deliver(self, result: torch.Tensor, tensor: torch.Tensor, in_place: bool) -> torch.Tensor:
        if result is tensor:
            return tensor
        if not in_place:
            return result if result.device == tensor.device else result.to(tensor.device)
        with torch.no_grad():
            return tensor.copy_(result)


collectives = Collectives(_TorchTensors())


def shape_of(tensor: torch.Tensor) -> Any:
    """Shape of `tensor` as an array of the C ABI, which nobody may change."""
    return _array_of(tensor.shape)


@functools.lru_cache(maxsize=4096)
def _array_of(shape: torch.Size) -> Any:
    return abi.shape_array(shape)
