"""The core of the front ends, without a framework."""

from __future__ import annotations

import ctypes
import itertools
import subprocess
import sys
import threading
from collections import OrderedDict
from types import ModuleType
from typing import Any

import pytest

from farandole.core import arrays, dtypes, handles, objects, reduce_ops
from farandole.exceptions import PeerLostError
from farandole.library import abi, errors, submission
from farandole.process_sets import global_process_set
from farandole.torch import memory

ALONE = """
import sys
from farandole import elastic
from farandole.core import arrays, handles, objects
from farandole.elastic.handlers import HandledState
from farandole.elastic.sampler import ElasticSampler
from farandole.session.init import init, shutdown
init()
assert objects.allgather_object({"epoch": 3}) == [{"epoch": 3}] and objects.broadcast_object("same") == "same"
state = HandledState([], {"epoch": 1})
state.epoch = 2
state.restore()
assert state.epoch == 1
assert list(ElasticSampler(range(3), shuffle=False)) == [0, 1, 2]
shutdown()
assert not [name for name in sys.modules if name.split(".")[0] in ("torch", "numpy")]
"""


def test_objects_states_and_samplers_need_no_framework() -> None:
    subprocess.run([sys.executable, "-c", ALONE], check=True, timeout=60)


def test_arrays_are_tensors(hvd: ModuleType) -> None:
    numbers = arrays.integers([3, -4])
    arguments = ("numbers", reduce_ops.Sum, 2.0, 1.0, global_process_set)
    handles.finish(*arrays.collectives.allreduce(numbers, True, *arguments))
    assert list(numbers) == [6, -8]
    # Not in place the array is left alone.
    assert list(handles.finish(*arrays.collectives.allreduce(numbers, False, *arguments))) == [12, -16]
    assert list(numbers) == [6, -8]
    octets = (ctypes.c_uint8 * 3)(1, 2, 255)
    gathered = handles.synchronize(handles.track(*arrays.collectives.allgather(octets, "octets", global_process_set)))
    assert bytes(gathered) == b"\x01\x02\xff"


def test_sizes_of_types() -> None:
    for dtype, number in memory.DTYPES.items():
        assert dtypes.SIZES[number] == dtype.itemsize


def test_an_object_that_cannot_be_pickled(hvd: ModuleType) -> None:
    with pytest.raises(TypeError, match="generator"):
        objects.broadcast_object(each for each in ())
    with pytest.raises(TypeError, match="generator"):
        objects.allgather_object(each for each in ())


def test_releasing_abandoned_operations_may_be_interrupted_by_itself(
    hvd: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by a collection of garbage whose finalizers abandon more."""
    library, released = abi.load(), []

    def wait(handle: int, timeout_ms: int) -> int:
        if handle == 1001:
            handles.abandon(2001)
            handles.release_abandoned()
        return abi.OK

    monkeypatch.setattr(library, "wait", wait)
    monkeypatch.setattr(library, "release", released.append)
    for handle in (1000, 1001, 1002):
        handles.abandon(handle)
    handles.release_abandoned()
    assert sorted(released) == [1000, 1001, 1002, 2001] and not handles._abandoned


def test_abandoned_operations_are_released(hvd: ModuleType) -> None:
    numbers = arrays.integers([1])
    started = [handles.track(*arrays.collectives.allgather(numbers, f"left.{i}", global_process_set)) for i in range(3)]
    for handle in started:
        handles.abandon(handle)
    assert all(handles.synchronize(handle) is None for handle in started)
    while handles._abandoned:
        handles.release_abandoned()


def test_shutdown_releases_what_nobody_has_asked_for(hvd: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each keeps what it has received."""
    numbers = arrays.integers([1])
    started = [handles.track(*arrays.collectives.allgather(numbers, f"kept.{i}", global_process_set)) for i in range(3)]
    handles.abandon(started[1])
    library, released = abi.load(), []
    monkeypatch.setitem(handles._enqueued, started[2], handles._pending.pop(started[2])[1])
    release = library.release
    monkeypatch.setattr(library, "release", lambda handle: released.append(handle) or release(handle))
    hvd.shutdown()
    assert sorted(released) == sorted(started)
    hvd.init()


class _Behind:
    """A library whose device is at work on handle 7, which nobody has waited for, for two more waits."""

    def __init__(self) -> None:
        self.waits: list[int] = []
        self.released: list[int] = []

    def wait(self, handle: int, timeout_ms: int) -> int:
        self.waits.append(timeout_ms)
        return abi.PENDING if len(self.waits) < 3 else abi.OK

    def release(self, handle: int) -> int:
        self.released.append(handle)
        return abi.OK


def test_a_name_that_the_device_is_still_at_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    library = _Behind()
    monkeypatch.setattr(abi, "load", lambda: library)
    handles.abandon(7, ("gradient",))
    place = submission.OnDevice(0, 0)
    answers = iter([abi.DUPLICATE_NAME, 8])
    assert handles.on_device(place, lambda: next(answers)) == 8
    assert library.waits == [abi.SLICE_MS] * 3 and library.released == [7]
    # Nothing is left that could be of this name: the script has submitted it twice.
    assert handles.on_device(place, lambda: abi.DUPLICATE_NAME) == abi.DUPLICATE_NAME


class _Device:
    """A library whose device has ended operations as far as `done`, those of `failed` with an error. While it is at
    work, it ends one more with each wait that lasts."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.done = 0
        self.at_work = True
        self.failed: set[int] = set()
        self.kept: set[int] = set()
        self.waits = 0
        self.enqueued = 0
        self.calls: list[Any] = []  # that wait on streams
        monkeypatch.setattr(abi, "load", lambda: self)
        monkeypatch.setattr(abi, "loaded", lambda: self)
        monkeypatch.setattr(errors, "peer_lost_told", False)
        monkeypatch.setattr(handles, "_enqueued", OrderedDict())
        monkeypatch.setattr(handles, "_failed", None)

    def wait(self, handle: int, timeout_ms: int) -> int:
        self.waits += 1
        if timeout_ms > 0 and self.at_work:
            self.done += 1
        if handle > self.done:
            return abi.PENDING
        return abi.PEER_LOST if handle in self.failed else abi.OK

    def release(self, handle: int) -> int:
        if handle > self.done:
            return abi.PENDING
        self.kept.discard(handle)
        return abi.OK

    def wait_each(self, address: int, count: int, stream: int, timeout_ms: int) -> int:
        run = list((ctypes.c_int64 * count).from_address(address))
        self.calls.append((*run, stream))
        return len(list(itertools.takewhile(lambda handle: handle <= self.enqueued, run)))

    def wait_on_stream(self, handle: int, stream: int, timeout_ms: int) -> int:
        self.calls.append(handle)
        return abi.OK

    def release_each(self, array: Any, count: int) -> int:
        left = [each for each in array if each > self.done or each in self.failed]
        self.kept.difference_update(set(array) - set(left))
        array[: len(left)] = left
        return len(left)

    def error_text(self) -> str:
        return "rank 2 was lost"

    def enqueue(self, handle: int, *tensors: Any) -> None:
        self.kept.add(handle)
        handles.release(handle, tensors)


class _Place(submission.OnDevice):
    def current_stream(self) -> int:
        return 7


def test_what_a_device_is_behind_with_is_forgotten_when_it_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    library = _Device(monkeypatch)
    for handle in range(1, 41):
        library.done = max(handle - 3, 0)
        library.enqueue(handle, "tensor", _Place(0, 7))
        assert len(library.kept) <= 6, "the device is three behind"
    assert not any(handles._enqueued.values()), "the stream of the tensors is behind the result"
    library.enqueue(41, "tensor", other := _Place(0, 8))
    assert handles._enqueued[41] == ("tensor", other), "they are from another stream"
    library.done = 41
    handles.release_abandoned()
    assert not library.kept and not handles._enqueued


def test_settling_waits_for_devices_and_tells_what_went_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    library = _Device(monkeypatch)
    handles.settle()
    assert library.waits == 0
    for handle in (1, 2, 3):
        library.enqueue(handle, _Place(0, 7))
    library.at_work = False
    assert not handles.settle(limit_s=0) and len(handles._enqueued) == 3
    library.at_work = True
    library.failed = {2}
    for _ in range(2):
        with pytest.raises(PeerLostError, match="rank 2 was lost"):
            handles.settle()
    assert not library.kept and not handles._enqueued


def test_a_failure_is_told_by_settling_whoever_looked_first(monkeypatch: pytest.MonkeyPatch) -> None:
    library = _Device(monkeypatch)
    library.failed = {1, 3}
    library.enqueue(1, _Place(0, 7))
    library.done = 1
    library.enqueue(2, _Place(0, 7))
    assert 1 not in handles._enqueued, "the next one has looked"
    with pytest.raises(PeerLostError):
        handles.settle()
    monkeypatch.setattr(handles, "_failed", None)
    library.enqueue(3, _Place(0, 7))
    library.done = 3
    handles.release_abandoned()
    assert not library.kept
    with pytest.raises(PeerLostError):
        handles.settle()


def test_what_was_waited_for_in_vain_keeps_its_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    _Device(monkeypatch)
    handles.release(1, ("tensor", place := _Place(0, 7)), waited=False)
    try:
        assert handles._abandoned[-1] == ((1,), ("tensor", place)) and not handles._enqueued
    finally:
        handles._abandoned.clear()


def test_several_are_waited_for_with_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    library = _Device(monkeypatch)
    places = {handle: _Place(int(handle == 3), 7) for handle in range(1, 7)}
    ahead = handles.InOrder(places.items())
    library.enqueued = 4
    for handle, place in places.items():
        ahead.wait(handle, ("tensor", place))
    ahead.wait(9, ("tensor", _Place(0, 7)))
    # 5 was not there when 4 was, and is waited for by itself; 6 comes behind it; 9 is none of them.
    assert library.calls == [(1, 2, 4, 5, 6, 7), (3, 7), (5, 6, 7), 5, (6, 7), 6, 9]


def test_what_was_waited_for_is_kept_though_its_end_is_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    library = _Device(monkeypatch)
    places = {1: _Place(0, 7), 2: _Place(0, 8), 3: _Place(0, 8)}
    library.kept = {1, 2, 3}
    ahead = handles.InOrder(places.items())
    for handle, place in places.items():
        ahead.release(handle, ("tensor", place))
    assert handles._enqueued == {1: (), 2: ("tensor", places[2]), 3: ("tensor", places[3])}
    library.done, library.failed = 2, {2}
    ahead.end()
    assert library.kept == {3} and list(handles._enqueued) == [3]
    # A signal comes when the library has forgotten it already.
    library.done = 3
    wait = library.wait
    monkeypatch.setattr(library, "wait", lambda handle, ms: abi.INVALID_ARGUMENT if handle == 3 else wait(handle, ms))
    with pytest.raises(PeerLostError, match="rank 2 was lost"):
        handles.settle()
    monkeypatch.setattr(handles, "_failed", None)
    handles.settle()
    assert not handles._enqueued


def test_two_threads_settle_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    library = _Device(monkeypatch)
    library.at_work = False
    library.enqueue(1, _Place(0, 7))
    settled: list[bool] = []
    threads = [threading.Thread(target=lambda: settled.append(handles.settle(30)), daemon=True) for _ in range(2)]
    for thread in threads:
        thread.start()
    threads[0].join(0.1)
    assert not settled, "neither has seen an end"
    library.at_work = True
    for thread in threads:
        thread.join(30)
    assert settled == [True, True] and not handles._enqueued


def test_a_name_in_host_memory_is_never_waited_for() -> None:
    handles.abandon(7, ("gradient",))
    try:
        assert handles.on_device(None, lambda: abi.DUPLICATE_NAME) == abi.DUPLICATE_NAME
    finally:
        handles._abandoned.clear()
