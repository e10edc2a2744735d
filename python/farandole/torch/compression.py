"""Compression of tensors for the way, as in horovod.torch.compression."""

from __future__ import annotations

from typing import Any

import torch


class Compressor:
    """What `compression=` takes: a class with these two static methods."""

    @staticmethod
    def compress(tensor: torch.Tensor) -> tuple[torch.Tensor, object]:
        """Returns the tensor to send and a context for `decompress`."""
        raise NotImplementedError("a Compressor defines compress()")

    @staticmethod
    def decompress(tensor: torch.Tensor, ctx: Any) -> torch.Tensor:
        """Returns the received tensor in its original form."""
        raise NotImplementedError("a Compressor defines decompress()")


class NoneCompressor(Compressor):
    """Sends tensors as they are."""

    @staticmethod
    def compress(tensor: torch.Tensor) -> tuple[torch.Tensor, None]:
        """Returns `tensor`."""
        return tensor, None

    @staticmethod
    def decompress(tensor: torch.Tensor, ctx: object) -> torch.Tensor:
        """Returns `tensor`."""
        return tensor


class FP16Compressor(Compressor):
    """Sends floating-point tensors of any precision as float16; others as they are."""

    @staticmethod
    def compress(tensor: torch.Tensor) -> tuple[torch.Tensor, torch.dtype | None]:
        """Returns `tensor` in float16 and its dtype."""
        if not tensor.dtype.is_floating_point:
            return tensor, None
        return tensor.to(torch.float16), tensor.dtype

    @staticmethod
    def decompress(tensor: torch.Tensor, ctx: torch.dtype | None) -> torch.Tensor:
        """Returns `tensor` in the dtype `ctx`."""
        return tensor if ctx is None else tensor.to(ctx)


class BF16Compressor(Compressor):
    """Sends floating-point tensors of any precision as bfloat16, which has the range of float32; others as they are."""

    @staticmethod
    def compress(tensor: torch.Tensor) -> tuple[torch.Tensor, torch.dtype | None]:
        """Returns `tensor` in bfloat16 and its dtype."""
        if not tensor.dtype.is_floating_point:
            return tensor, None
        return tensor.to(torch.bfloat16), tensor.dtype

    @staticmethod
    def decompress(tensor: torch.Tensor, ctx: torch.dtype | None) -> torch.Tensor:
        """Returns `tensor` in the dtype `ctx`."""
        return tensor if ctx is None else tensor.to(ctx)


class Compression:
    """The compressors that come with the package. bf16 is ours, the others are Horovod's."""

    none = NoneCompressor
    fp16 = FP16Compressor
    bf16 = BF16Compressor


def compress(tensor: torch.Tensor, compression: type[Compressor]) -> tuple[torch.Tensor, object]:
    """`compression.compress(tensor)`.

    Raises:
        ValueError: `tensor` is no tensor, or `compression` does not compress.
    """
    if not isinstance(tensor, torch.Tensor):
        raise ValueError(f"expected a torch.Tensor, got {type(tensor).__name__}")
    if not hasattr(compression, "compress") or not hasattr(compression, "decompress"):
        raise ValueError(f"compression must be one of hvd.Compression, or a Compressor, got {compression!r}")
    return compression.compress(tensor)
