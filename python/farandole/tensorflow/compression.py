"""Smaller types on the way between ranks."""

from __future__ import annotations

from typing import Any

import tensorflow as tf


class Compressor:
    """What tensors become on the way. A subclass defines both."""

    @staticmethod
    def compress(tensor: Any) -> tuple[Any, Any]:
        """What goes on the way, and what `decompress` needs."""
        raise NotImplementedError("a Compressor defines compress()")

    @staticmethod
    def decompress(tensor: Any, ctx: Any) -> Any:
        """What has come, in its first type."""
        raise NotImplementedError("a Compressor defines decompress()")


class NoneCompressor(Compressor):
    """Leaves tensors as they are."""

    @staticmethod
    def compress(tensor: Any) -> tuple[Any, Any]:
        """The tensor itself."""
        return tensor, None

    @staticmethod
    def decompress(tensor: Any, ctx: Any) -> Any:
        """The tensor itself."""
        return tensor


class FP16Compressor(Compressor):
    """Floating-point numbers go as float16: 10 bits of precision, at most 65504."""

    @staticmethod
    def compress(tensor: Any) -> tuple[Any, Any]:
        """The tensor as float16, and its type."""
        return (tf.cast(tensor, tf.float16), tensor.dtype) if tensor.dtype.is_floating else (tensor, None)

    @staticmethod
    def decompress(tensor: Any, ctx: Any) -> Any:
        """The tensor in its first type."""
        return tensor if ctx is None else tf.cast(tensor, ctx)


class Compression:
    """What `compression` may be: `none` or `fp16`."""

    none = NoneCompressor
    fp16 = FP16Compressor
