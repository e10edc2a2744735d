"""What the C ABI is handed lives until it has read it, whatever other threads of the process do meanwhile."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import Any

import pytest
import torch

from farandole.library import abi, submission
from farandole.torch import memory

# As many as the caches of names and shapes hold.
OTHERS = 4096
SHAPE = (3, 1, 2)
TENSOR = torch.zeros(SHAPE)


class OtherThread:
    """Stands in for the library's `submit`: other threads run just before it, and use as many new names and shapes as
    are cached. Notes what C would read then, and submits nothing."""

    def __init__(self) -> None:
        self.read: list[tuple[bytes | None, list[int], list[int]]] = []
        self.group: bytes | None = None

    def __call__(self, packed: bytes, count: int, group: Any, handles: Any) -> int:
        kept = [submission.text(f"allreduce.other {i:04}") for i in range(OTHERS)]
        shapes = [memory.shape_of(torch.empty((i, 7, 7), device="meta")) for i in range(OTHERS)]
        splits = [abi.shape_array([i + 9]) for i in range(OTHERS)]
        size = submission._STRUCT.size
        for begin in range(0, count * size, size):
            _, _, name, shape, split, dims, splits_count, *_ = submission._STRUCT.unpack_from(packed, begin)
            self.read.append((_string(name), _numbers(shape, dims), _numbers(split, splits_count)))
        self.group = _string(group)
        del kept, shapes, splits
        return abi.INVALID_ARGUMENT


def _string(address: int | None) -> bytes | None:
    return ctypes.string_at(address) if address else None


def _numbers(address: int, count: int) -> list[int]:
    return list((ctypes.c_int64 * count).from_address(address)) if count else []


@pytest.fixture
def other(hvd: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Iterator[OtherThread]:
    stand_in = OtherThread()
    monkeypatch.setattr(abi.load(), "submit", stand_in)
    yield stand_in


@pytest.mark.parametrize(
    ("operation", "splits"),
    [
        ("allreduce_async", []),
        ("allreduce_async_", []),
        ("allgather_async", []),
        ("reducescatter_async", []),
        ("broadcast_async", []),
        ("alltoall_async", [3]),
    ],
)
def test_names_shapes_and_splits_live_until_c_has_read_them(
    operation: str, splits: Sequence[int], hvd: ModuleType, other: OtherThread
) -> None:
    more: dict[str, Any] = {"broadcast_async": {"root_rank": 0}, "alltoall_async": {"splits": splits}}.get(
        operation, {}
    )
    with pytest.raises(ValueError):
        getattr(hvd, operation)(TENSOR, name="weight 0000", **more)
    name = f"{operation.replace('_async', '').rstrip('_')}.weight 0000".encode()
    assert other.read == [(name, list(SHAPE), list(splits))]


@pytest.mark.parametrize("operation", ["allreduce", "allgather", "reducescatter"])
def test_those_of_groups_live_too(operation: str, hvd: ModuleType, other: OtherThread) -> None:
    begin: Callable[..., int] = getattr(hvd, f"grouped_{operation}_async")
    with pytest.raises(ValueError):
        begin([TENSOR, torch.zeros(5)], name="weights")
    assert other.read == [(None, list(SHAPE), []), (None, [5], [])]
    assert other.group == f"grouped_{operation}.weights".encode()


def test_a_name_that_is_no_text_is_refused(hvd: ModuleType) -> None:
    with pytest.raises(ValueError, match="a name is text in UTF-8; 'allreduce.gr.udc80d' is not"):
        hvd.allreduce(TENSOR, name="gr\udc80d")
