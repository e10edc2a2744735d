"""Smaller types on the way between ranks."""

from __future__ import annotations

from typing import Any

import numpy as np


class NoneCompressor:
    """Leaves arrays as they are."""

    @staticmethod
    def compress(tensor: Any) -> tuple[Any, Any]:
        """The NDArray that travels, and what `decompress` needs."""
        return tensor, None

    @staticmethod
    def decompress(tensor: Any, context: Any) -> Any:
        """In the type that it had."""
        return tensor


class FP16Compressor(NoneCompressor):
    """float16 for wider floating-point numbers: 10 bits of precision, at most 65504."""

    @staticmethod
    def compress(tensor: Any) -> tuple[Any, Any]:
        """The NDArray that travels, and its type."""
        wide = tensor.dtype in (np.float32, np.float64)
        return (tensor.astype("float16"), tensor.dtype) if wide else (tensor, None)

    @staticmethod
    def decompress(tensor: Any, context: Any) -> Any:
        """In the type that it had."""
        return tensor if context is None else tensor.astype(context)


class Compression:
    """What `compression` may be: `none` or `fp16`."""

    none = NoneCompressor
    fp16 = FP16Compressor
