"""What the collectives are to give, computed by numpy from the inputs of all members.

Numbers are small and whole, and factors powers of two, so that only averages and what 16 bits do not hold are rounded.
"""

from __future__ import annotations

import numpy as np
import torch

# Relative error of one rounding.
EPSILON = {torch.float16: 2**-10, torch.bfloat16: 2**-7, torch.float32: 2**-23, torch.float64: 2**-52}


def inputs(seed: int, shapes: list[tuple[int, ...]], dtype: torch.dtype, product: bool = False) -> list[torch.Tensor]:
    """A tensor for each member, of these shapes. Nothing that is reduced or scaled leaves 8 bits."""
    generator = np.random.default_rng(seed)
    low, high = (1, 3) if product else (-7, 8)
    if dtype in (torch.uint8, torch.bool):
        low, high = (0, 2) if dtype is torch.bool else (max(low, 0), high)
    return [torch.from_numpy(generator.integers(low, high, shape)).to(dtype) for shape in shapes]


def as_numpy(tensor: torch.Tensor) -> np.ndarray:
    """Exactly its values."""
    return tensor.to(torch.float64 if tensor.dtype.is_floating_point else torch.int64).numpy()


def reduced(tensors: list[torch.Tensor], op: str, prescale: float, postscale: float) -> np.ndarray:
    """postscale * op(prescale * tensor); whole numbers are truncated after each factor."""
    whole = not tensors[0].dtype.is_floating_point
    values = [as_numpy(tensor) * prescale for tensor in tensors]
    if whole:
        values = [np.trunc(value) for value in values]
    if tensors[0].dtype is torch.bool:
        op = {"Sum": "Max", "Product": "Min"}.get(op, op)
    combine = {"Min": np.minimum, "Max": np.maximum, "Product": np.multiply}.get(op, np.add)
    result = np.asarray(values[0], dtype=np.float64)
    for value in values[1:]:
        result = combine(result, value)
    result = result * postscale
    if op == "Average":
        result = result / len(tensors)
    return np.trunc(result) if whole else result


def own_rows(value: np.ndarray, member: int, members: int) -> np.ndarray:
    """Of a reducescatter."""
    return np.array_split(value, members)[member]


def exchanged(tensors: list[torch.Tensor], splits: list[list[int]], member: int) -> tuple[torch.Tensor, list[int]]:
    """What a member gets in an alltoall, and how many rows from each."""
    starts = [sum(row[:member]) for row in splits]
    parts = [tensors[m][starts[m] : starts[m] + splits[m][member]] for m in range(len(tensors))]
    return torch.cat(parts), [row[member] for row in splits]


def check_close(actual: torch.Tensor, expected: np.ndarray, dtype: torch.dtype) -> None:
    """Shape and type are the same; the values are, too, or differ by what rounding explains."""
    assert actual.dtype == dtype and tuple(actual.shape) == expected.shape, (actual.dtype, actual.shape, expected.shape)
    if dtype.is_floating_point:
        bound = 8 * EPSILON[dtype] * np.maximum(np.abs(expected), 100.0)
        assert (np.abs(as_numpy(actual) - expected) <= bound).all(), (actual, expected)
    else:
        assert (as_numpy(actual) == expected).all(), (actual, expected)


def check_equal(actual: torch.Tensor, expected: torch.Tensor) -> None:
    """Shape, type and values are the same."""
    assert actual.dtype == expected.dtype and torch.equal(actual, expected), (actual, expected)
