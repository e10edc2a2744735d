"""Smaller types on the way between ranks."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp


class Compressor:
    """What arrays of floating-point numbers become on the way; the result has their type again.

    Attributes:
        dtype: the type; None: their own.
    """

    dtype: Any = None

    @classmethod
    def compress(cls, array: Any) -> Any:
        """`array`, an array of JAX, in the type of the way."""
        if cls.dtype is None or not jnp.issubdtype(array.dtype, jnp.floating):
            return array
        return array.astype(cls.dtype)


class NoneCompressor(Compressor):
    """Leaves arrays as they are."""


class FP16Compressor(Compressor):
    """float16: 10 bits of precision, at most 65504."""

    dtype = jnp.float16


class BF16Compressor(Compressor):
    """bfloat16: 7 bits of precision, the range of float32."""

    dtype = jnp.bfloat16


class Compression:
    """What `compression` may be: `none`, `fp16` or `bf16`."""

    none = NoneCompressor
    fp16 = FP16Compressor
    bf16 = BF16Compressor
