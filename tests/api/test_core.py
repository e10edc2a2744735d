"""The core of the front ends, without a framework."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from types import ModuleType

import pytest

from farandole.core import arrays, dtypes, handles, objects, reduce_ops
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


def test_abandoned_operations_are_released(hvd: ModuleType) -> None:
    numbers = arrays.integers([1])
    started = [handles.track(*arrays.collectives.allgather(numbers, f"left.{i}", global_process_set)) for i in range(3)]
    for handle in started:
        handles.abandon(handle)
    assert all(handles.synchronize(handle) is None for handle in started)
    while handles._abandoned:
        handles.release_abandoned()
