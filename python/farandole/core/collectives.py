"""The collectives on tensors of any framework. They start an operation and return what `handles` needs for its end."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from ctypes import c_int64
from typing import Any, Callable

from farandole import process_sets
from farandole.core import dtypes, handles
from farandole.core.calls import Call, laid_names
from farandole.core.tensors import Tensors
from farandole.library import abi, errors, submission, waiting
from farandole.library.submission import (
    ALLGATHER,
    ALLREDUCE,
    ALLTOALL,
    BROADCAST,
    REDUCESCATTER,
    OnDevice,
    packed,
    submit,
)
from farandole.process import basics
from farandole.process.basics import library_in_use
from farandole.process_sets import ProcessSet, global_process_set

# What a submission returned, the tensors whose memory it uses, and what makes the result once it is done.
Begun = tuple[int, tuple[Any, ...], handles.Finish]
# The same of a group, with the handles of all.
BegunGroup = tuple[int, tuple[Any, ...], handles.Finish, tuple[int, ...]]

_Viewed = tuple[Any, int, int, Any, "OnDevice | None"]

_ROWS_MAX = (1 << 63) - 1


def wire_name(operation: str, name: str | None) -> submission.Text | None:
    """The name of a submission as the C ABI takes it; None: it makes one.

    Raises:
        ValueError: not a str, or one with a NUL character.
    """
    if name is None or name == "":
        return None
    if not isinstance(name, str):
        raise ValueError(f"name must be a str, got {type(name).__name__}")
    return submission.text(f"{operation}.{name}")


def _factor(value: float, which: str) -> float:
    """A factor of a reduction as float; whether it is finite the library looks itself."""
    try:
        return float(value)
    except (TypeError, ValueError):
        raise ValueError(f"{which} must be a number, got {value!r}") from None


def _reducing(op: int, prescale_factor: float, postscale_factor: float) -> tuple[int, float, float]:
    return op, _factor(prescale_factor, "prescale_factor"), _factor(postscale_factor, "postscale_factor")


def checked_root(root_rank: int) -> int:
    """`root_rank` as the C ABI takes it, which says whether there is such a rank."""
    try:
        root = operator.index(root_rank)
    except TypeError:
        raise ValueError(f"root_rank must be an int, got {root_rank!r}") from None
    if abs(root) > 0x7FFFFFFF:
        raise ValueError(f"root_rank={root} is not a rank of any job")
    return root


def _splits_array(splits: Any) -> Any:
    """`splits` as the C ABI takes them; None, for the same number of rows to each, if they are empty."""
    try:
        values = [operator.index(split) for split in (splits.tolist() if hasattr(splits, "tolist") else splits)]
    except (TypeError, ValueError):
        values = [_ROWS_MAX + 1]
    if any(abs(value) > _ROWS_MAX for value in values):
        raise ValueError(f"splits is a vector of integers, got {splits!r}")
    return abi.shape_array(values) if values else None


def _own_rows(shape: Sequence[int], set_id: int) -> tuple[int, ...]:
    """The shape of the rows that this process gets of a reducescatter.

    Raises:
        ValueError: there is no such set, or this process is not a member.
    """
    library = abi.load()
    size, position = library.process_set_size(set_id), library.process_set_rank(set_id)
    if size < 0 or position < 0:
        errors.raise_error(min(size, position))
    rows, *others = shape
    return (rows // size + (position < rows % size), *others)


def _submit(place: OnDevice | None, *arguments: Any, **more: Any) -> int:
    """`submit` of what lies at `place`."""
    more["place"] = place
    submission = packed(*arguments, **more)
    return handles.on_device(place, lambda: submit(submission))


class Collectives:
    """The collectives of one framework.

    Arguments that all share:
        name: the same on all ranks, or None: named by order of submission.
        in_place: the result replaces the values of the tensor.
        process_set: the ranks that take part.

    All raise:
        ValueError: a tensor or an argument that is wrong, or not initialised.
    """

    def __init__(self, tensors: Tensors) -> None:
        self._tensors = tensors

    def allreduce(
        self,
        tensor: Any,
        in_place: bool,
        name: str | None,
        op: int,
        prescale_factor: float,
        postscale_factor: float,
        process_set: ProcessSet,
    ) -> Begun:
        """Starts postscale_factor * reduce(prescale_factor * tensor)."""
        source, address, dtype, shape, place = self._tensors.view(tensor, in_place)
        library_in_use()
        target, to = self._target(tensor, source, address, in_place)
        arguments = (
            ALLREDUCE,
            wire_name("allreduce", name),
            address,
            to,
            dtype,
            shape,
            process_sets.id_of(process_set),
            *_reducing(op, prescale_factor, postscale_factor),
        )
        handle = submit(packed(*arguments)) if place is None else _submit(place, *arguments)
        kept = (source, target, tensor, place)
        return handle, kept, lambda _: self._tensors.deliver(target, tensor, in_place)

    def broadcast(
        self, tensor: Any, in_place: bool, root_rank: int, name: str | None, process_set: ProcessSet
    ) -> Begun:
        """Starts to copy the values of `root_rank`."""
        source, address, dtype, shape, place = self._tensors.view(tensor, in_place)
        library_in_use()
        target, to = self._target(tensor, source, address, in_place)
        wanted, set_id, root = wire_name("broadcast", name), process_sets.id_of(process_set), checked_root(root_rank)
        handle = _submit(place, BROADCAST, wanted, address, to, dtype, shape, set_id, root_rank=root)
        kept = (source, target, tensor, place)
        return handle, kept, lambda _: self._tensors.deliver(target, tensor, in_place)

    def allgather(self, tensor: Any, name: str | None, process_set: ProcessSet, operation: str = "allgather") -> Begun:
        """Starts the concatenation of the tensors of all ranks along dimension 0.

        Args:
            operation: what its name begins with on the wire, where it is to meet another operation of that name.
        """
        source, address, dtype, shape, place = self._view_rows(tensor, "allgather")
        set_id = process_sets.id_of(process_set)
        handle = _submit(place, ALLGATHER, wire_name(operation, name), address, 0, dtype, shape, set_id)
        return handle, (source, place), lambda done: self._received(done, tensor, dtype, place)

    def alltoall(
        self,
        tensor: Any,
        splits: Iterable[int] | None,
        name: str | None,
        process_set: ProcessSet,
        counts: Callable[[list[int]], Any],
    ) -> Begun:
        """Starts to send rows of `tensor` to every rank and to get theirs.

        Args:
            counts: what the caller is given of how many rows have come from each rank, if there are `splits`.
        """
        source, address, dtype, shape, place = self._view_rows(tensor, "alltoall")
        given = None if splits is None else _splits_array(splits)
        set_id = process_sets.id_of(process_set)
        wanted = wire_name("alltoall", name)
        handle = _submit(place, ALLTOALL, wanted, address, 0, dtype, shape, set_id, splits=given)
        library = library_in_use()
        size = library.process_set_size(set_id)

        def finish(done: int) -> Any:
            result = self._received(done, tensor, dtype, place)
            if splits is None:
                return result
            received = (c_int64 * size)()
            if library.result_splits(done, received) != abi.OK:
                raise RuntimeError(library.error_text())
            return result, counts(list(received))

        return handle, (source, place), finish

    def reducescatter(
        self,
        tensor: Any,
        name: str | None,
        op: int,
        prescale_factor: float,
        postscale_factor: float,
        process_set: ProcessSet,
    ) -> Begun:
        """Starts the reduction of `tensor`, of whose rows each rank gets some."""
        source, address, dtype, shape, place = self._view_rows(tensor, "reducescatter")
        set_id = process_sets.id_of(process_set)
        target, to = self._tensors.empty(tensor, _own_rows(shape, set_id))
        handle = _submit(
            place,
            REDUCESCATTER,
            wire_name("reducescatter", name),
            address,
            to,
            dtype,
            shape,
            set_id,
            *_reducing(op, prescale_factor, postscale_factor),
        )
        return handle, (source, target, place), lambda _: self._tensors.deliver(target, tensor, False)

    def grouped_allreduce(
        self,
        tensors: Sequence[Any],
        in_place: bool,
        name: str | None,
        op: int,
        prescale_factor: float,
        postscale_factor: float,
        process_set: ProcessSet,
        *,
        layout: str = "",
        places: Sequence[OnDevice | None] = (),
    ) -> BegunGroup:
        """`allreduce` of each: none before all are there.

        Args:
            layout: as in `farandole.core.calls.Call`; not without a name.
            places: of each, where they did not come to be on the streams that are current now.
        """
        viewed = [self._tensors.view(tensor, in_place) for tensor in tensors]
        if places:
            viewed = [(*each[:4], place) for each, place in zip(viewed, places)]
        targets = [self._target(tensor, each[0], each[1], in_place) for tensor, each in zip(tensors, viewed)]
        wanted, reducing = wire_name("grouped_allreduce", name), _reducing(op, prescale_factor, postscale_factor)
        names: Sequence[submission.Text] = ()
        if name and layout:
            wanted = submission.text(Call(ALLREDUCE, name, layout=layout).group)
            names = [submission.text(f"allreduce.{each}") for each in laid_names(name, len(tensors))]
        return self._start_group(
            ALLREDUCE, wanted, tensors, viewed, targets, in_place, process_set, *reducing, names=names
        )

    def grouped_allgather(self, tensors: Sequence[Any], name: str | None, process_set: ProcessSet) -> BegunGroup:
        """`allgather` of each."""
        viewed = [self._view_rows(tensor, "allgather") for tensor in tensors]
        wanted = wire_name("grouped_allgather", name)
        return self._start_group(ALLGATHER, wanted, tensors, viewed, None, False, process_set)

    def grouped_reducescatter(
        self,
        tensors: Sequence[Any],
        name: str | None,
        op: int,
        prescale_factor: float,
        postscale_factor: float,
        process_set: ProcessSet,
    ) -> BegunGroup:
        """`reducescatter` of each."""
        viewed = [self._view_rows(tensor, "reducescatter") for tensor in tensors]
        set_id = process_sets.id_of(process_set)
        targets = [self._tensors.empty(at, _own_rows(each[3], set_id)) for at, each in zip(tensors, viewed)]
        wanted, reducing = wire_name("grouped_reducescatter", name), _reducing(op, prescale_factor, postscale_factor)
        return self._start_group(REDUCESCATTER, wanted, tensors, viewed, targets, False, process_set, *reducing)

    def _view_rows(self, tensor: Any, operation: str) -> _Viewed:
        viewed = self._tensors.view(tensor)
        if len(viewed[3]) == 0:
            raise ValueError(f"{operation} needs tensors with at least one dimension, got a scalar")
        library_in_use()
        return viewed

    def _target(self, tensor: Any, source: Any, address: int, in_place: bool) -> tuple[Any, int]:
        """Plain memory for a result of the shape of `tensor`, whose values lie in `source`."""
        if in_place or source is not tensor:
            return source, address
        return self._tensors.empty(tensor)

    def _received(self, done: int, tensor: Any, dtype: int, place: OnDevice | None) -> Any:
        """The result that belongs to a handle, of the type of `tensor`."""
        library = abi.load()
        shape = library.result_dimensions(done)
        result, address = self._tensors.empty(tensor, shape)
        bytes_ = dtypes.SIZES[dtype]
        for extent in shape:
            bytes_ *= extent
        if place is None:
            code = library.result_copy(done, address, bytes_)
        else:
            code = library.result_copy_on_stream(done, address, bytes_, place.current_stream())
        if code != abi.OK:
            errors.raise_error(code)
        return self._tensors.deliver(result, tensor, False)

    def _start_group(
        self,
        operation: int,
        name: submission.Text | None,
        tensors: Sequence[Any],
        viewed: Sequence[_Viewed],
        targets: Sequence[tuple[Any, int]] | None,
        in_place: bool,
        process_set: ProcessSet,
        *reducing: Any,
        names: Sequence[submission.Text] = (),
    ) -> BegunGroup:
        """Starts an operation of each.

        Args:
            targets: memory for the results; None: the library has it, as their shapes are not known yet.
            reducing: reduce operation and factors.
        """
        library_in_use()
        addresses = [0] * len(viewed) if targets is None else [to for _, to in targets]
        parts = [(address, to, dtype, shape, at) for (_, address, dtype, shape, at), to in zip(viewed, addresses)]
        place = next((each[4] for each in viewed if each[4] is not None), None)
        given: Sequence[int] = ()

        def submit_all() -> int:
            nonlocal given
            set_id = process_sets.id_of(process_set)
            code, given = submission.submit_group(operation, name, parts, set_id, *reducing, names=names)
            return code

        code = handles.on_device(place, submit_all)
        if code < 0:
            errors.raise_error(code)

        def finish(_: int) -> tuple[Any, ...]:
            if targets is None:
                received = zip(given, tensors, viewed)
                return tuple(self._received(done, at, each[2], each[4]) for done, at, each in received)
            return tuple(self._tensors.deliver(target, at, in_place) for (target, _), at in zip(targets, tensors))

        return given[0], (viewed, targets, tensors, place), finish, tuple(given[1:])


def barrier(process_set: ProcessSet = global_process_set) -> None:
    """Waits until all members of the process set have called it.

    Args:
        process_set: the ranks that take part; all of them have to call. Default: all ranks of the job.

    Raises:
        ValueError: not initialised.
        HorovodInternalError: a peer was lost.
    """
    library_in_use()
    handles.finish(submission.submit_plain(submission.BARRIER, process_sets.id_of(process_set)), (), lambda _: None)


def join(device: int = -1) -> int:
    """Says that this rank has no more data, and waits until all ranks have said so.

    Until then this rank takes part in the allreduces of the others with zeros. Of allgather, broadcast
    and the other collectives only those are possible meanwhile that it has submitted before.

    Args:
        device: ignored; Horovod has it.

    Returns:
        The rank that joined last.

    Raises:
        ValueError: not initialised.
        HorovodInternalError: a peer was lost.
    """
    global _joins
    library_in_use()
    last = waiting.value_of(submission.submit_plain(submission.JOIN))
    _joins += 1
    return last


def joins() -> int:
    """How often this job has joined: the same on all ranks."""
    return _joins


def _forget_joins() -> None:
    global _joins
    _joins = 0


_joins = 0
basics.after_shutdown(_forget_joins)
