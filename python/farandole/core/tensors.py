"""What a front end says about the tensors of its framework."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, Protocol

from farandole.library.submission import OnDevice


class Tensors(Protocol):
    """The tensors of a framework, as `Collectives` needs them. A module may be one.

    Plain memory is what the library works on: contiguous, of the host or of a CUDA device. It is given as the object
    that it belongs to, which keeps it alive, and its address.
    """

    def view(
        self, tensor: Any, in_place: bool = False
    ) -> tuple[Any, int, int, ctypes.Array[ctypes.c_int64], OnDevice | None]:
        """Plain memory with the values of `tensor`: object, address, number of the type (`dtypes`), shape (as
        `abi.shape_array` makes it), and on a device where it is. The object is `tensor` itself or a copy, which may be
        overwritten.

        Args:
            in_place: a result of the same shape is going to replace the values.

        Raises:
            ValueError: not a tensor that the library can take, or whose values can be replaced.
        """

    def empty(self, tensor: Any, shape: Sequence[int] | None = None) -> tuple[Any, int]:
        """New plain memory where `view` finds that of `tensor`, of its type, and of its shape unless another is given:
        object and address."""

    def deliver(self, result: Any, tensor: Any, in_place: bool) -> Any:
        """What the caller gets for `tensor`: `result`, an object of `view` or `empty`, on the device of `tensor`; or,
        in place, `tensor` with the values of `result`."""
