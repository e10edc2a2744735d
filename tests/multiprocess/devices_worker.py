"""Ranks whose tensors lie on devices of the fake CUDA driver, submitted as a front end does that waits on streams.

What is shown is how the package calls the library. `devices_worker.py nccl|staged`: with NCCL, or by way of the host.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Sequence

if sys.argv[1:] == ["staged"]:
    os.environ["FARANDOLE_NCCL_LIB"] = "/nowhere/libnccl.so.2"
# Ranks of one GPU, for NCCL on several hosts.
os.environ["NCCL_HOSTID"] = str(os.getpid())

import fake_devices  # noqa: E402
from fake_devices import ALL, SUM, Array, Here, collectives  # noqa: E402

from farandole import process_sets  # noqa: E402
from farandole.core import handles  # noqa: E402
from farandole.exceptions import TensorMismatchError  # noqa: E402
from farandole.library import gpus  # noqa: E402
from farandole.process import basics  # noqa: E402
from farandole.session import init  # noqa: E402


def reduced(values: Sequence[float], name: str) -> list[float]:
    """Their sum over the ranks, in place."""
    array = Array.of(values)
    handles.finish(*collectives.allreduce(array, True, name, SUM, 1.0, 1.0, ALL))
    return array.tolist()


def case_sums() -> None:
    total = sum(range(1, size + 1))
    assert reduced([rank + 1.0] * 5, "x") == [total] * 5
    target = handles.finish(*collectives.allreduce(Array.of([1.0, 2.0]), False, "y", SUM, 2.0, 1.0, ALL))
    assert target.tolist() == [2.0 * size, 4.0 * size]


def case_rows_of_unknown_number() -> None:
    mine = Array.of([float(rank)] * (rank + 1))
    gathered = handles.synchronize(handles.track(*collectives.allgather(mine, "rows", ALL)))
    assert gathered.tolist() == [float(r) for r in range(size) for _ in range(r + 1)]
    sent = Array.of([10.0 * rank + r for r in range(size)])
    received, counts = handles.synchronize(
        handles.track(*collectives.alltoall(sent, [1] * size, "each", ALL, lambda rows: rows))
    )
    assert received.tolist() == [10.0 * r + rank for r in range(size)] and counts == [1] * size


def case_other_operations() -> None:
    copied = Array.of([float(rank)] * 3)
    handles.finish(*collectives.broadcast(copied, True, size - 1, "root", ALL))
    assert copied.tolist() == [size - 1.0] * 3
    rows = Array.of([1.0] * (size + 1))
    part = handles.finish(*collectives.reducescatter(rows, "share", SUM, 1.0, 1.0, ALL))
    assert part.tolist() == [float(size)] * (2 if rank == 0 else 1)


def case_groups() -> None:
    arrays = [Array.of([1.0] * count) for count in (1, 3)]
    first, kept, finish, others = collectives.grouped_allreduce(arrays, True, "group", SUM, 1.0, 1.0, ALL)
    handles.synchronize(handles.track(first, kept, finish, others))
    assert [a.tolist() for a in arrays] == [[float(size)], [float(size)] * 3]


def case_groups_of_several_streams() -> None:
    """Each tensor comes after what is on its own stream, which the host has only put there."""
    own = Here.now()
    streams = [own, fake_devices.driver.stream()]
    count = 1000
    for step in range(20):
        arrays, hosts, places = [], [], []
        for i, stream in enumerate([0, 0, 1, 0, 1, 1]):
            Here.streams[0] = streams[stream]
            hosts.append((ctypes.c_float * count)(*[rank + i + step] * count))
            arrays.append(Array(count))
            places.append(Here(0))
            # The other stream comes to the last one long after the first stream.
            for _ in range(1 + 20 * stream):
                fake_devices.driver.call(
                    "cuMemcpyHtoDAsync", arrays[-1].address, ctypes.addressof(hosts[-1]), 4 * count, Here.now()
                )
        call = collectives.grouped_allreduce(arrays, True, "of several", SUM, 1.0, 1.0, ALL, places=places)
        handles.synchronize(handles.track(*call))
        for i, array in enumerate(arrays):
            assert array.tolist() == [sum(range(size)) + size * (i + step)] * count
        Here.streams[0] = own


def case_the_same_name_again_and_again() -> None:
    # The host may be ahead of the device, which is still at the last one of this name.
    for step in range(50):
        assert reduced([float(step)], "again") == [float(step * size)]


def case_another_stream_than_that_of_the_submission() -> None:
    submitted_on = Here.now()
    handle = handles.track(*collectives.allgather(Array.of([1.0]), "elsewhere", ALL))
    Here.streams[0] = fake_devices.driver.stream()
    assert handles.synchronize(handle).tolist() == [1.0] * size
    Here.streams[0] = submitted_on


def case_memory_of_another_stream_lives_as_long_as_it_is_used() -> None:
    submitted_on = Here.now()
    for step in range(20):
        # Nothing on the stream of this memory waits for the device, which frees it there.
        handle = handles.track(
            *collectives.allreduce(Array.of([1.0] * 1000), True, f"elsewhere {step}", SUM, 1.0, 1.0, ALL)
        )
        Here.streams[0] = fake_devices.driver.stream()
        handles.synchronize(handle)
        Here.streams[0] = submitted_on
    handles.settle()


def case_a_device_of_each_process_set() -> None:
    some = process_sets.add_process_set(list(range(size - 1))) if size > 1 else None
    for step in range(30):
        begun = []
        for device, members in enumerate([ALL, some]):
            if members is None or not members.included():
                continue
            with Here.on_device(device):
                array = Array.of([float(rank), step])
                call = collectives.allreduce(array, True, f"of device {device}", SUM, 1.0, 1.0, members)
                begun.append((device, members.size(), array, handles.track(*call)))
        # Both are under way.
        for device, members_size, array, handle in begun:
            handles.synchronize(handle)
            with Here.on_device(device):
                assert array.tolist() == [sum(range(members_size)), step * members_size]
    if some is not None:
        process_sets.remove_process_set(some)


def submitted_in_order(step: int, some: process_sets.ProcessSet | None) -> list[tuple[int, Array, Here, float]]:
    """Handle, array, place and sum of each; some on another device. Those of sum -1 fail."""
    begun = []
    for i in range(8):
        device = int(i % 3 == 2)
        members = some if device else ALL
        if members is None or not members.included():
            continue
        fails = size > 1 and i == 4
        with Here.on_device(device):
            array = Array.of([float(rank + i + step)] * (1000 + (fails and rank == 0)))
            handle, (*_, place), _ = collectives.allreduce(array, True, f"in order {i}", SUM, 1.0, 1.0, members)
        total = sum(range(members.size())) + members.size() * (i + step)
        begun.append((handle, array, place, -1.0 if fails else total))
    return begun


def case_waits_in_order() -> None:
    """What is read on the stream of each device that waits comes behind the result, and memory that comes from another
    stream lives until the device is done with it. All others are there, though one fails."""
    some = process_sets.add_process_set(list(range(size - 1))) if size > 1 else None
    own, others = Here.streams[:], [fake_devices.driver.stream(device) for device in range(fake_devices.DEVICES)]
    for step in range(20):
        begun = submitted_in_order(step, some)
        Here.streams[:] = others if step % 2 else own
        ahead = handles.InOrder((handle, place) for handle, _, place, _ in begun)
        while begun:
            handle, array, place, total = begun.pop(0)
            with Here.on_device(place.device):
                try:
                    ahead.wait(handle, (array, place))
                except TensorMismatchError:
                    assert total < 0
                    continue
                ahead.release(handle, (array, place))
                if begun or not step % 2:
                    assert array.tolist() == [total] * 1000, (step, total)
        ahead.end()
        Here.streams[:] = own
    handles.settle()
    assert not handles._enqueued
    if some is not None:
        process_sets.remove_process_set(some)


def case_what_a_framework_keeps_is_given_up() -> None:
    count, asked = 100_000, []
    kept = [Array(count * size) for _ in range(3)]

    def give_up(device: int) -> None:
        asked.append(device)
        kept.clear()
        fake_devices.driver.call("cuStreamSynchronize", Here.streams[device])

    gpus.set_reclaim(give_up)
    mine = Array.of([float(rank)] * count)
    handles.settle()
    fake_devices.limit_memory(0)
    gathered = handles.synchronize(handles.track(*collectives.allgather(mine, "large rows", ALL)))
    fake_devices.limit_memory(-1)
    gpus.set_reclaim(lambda device: None)
    assert asked == [0] and gathered.tolist()[::count] == [float(each) for each in range(size)]


def case_nothing_is_kept_for_ever() -> None:
    for step in range(200):
        reduced([1.0], f"once {step}")
    assert len(handles._enqueued) < 100
    handles.settle()
    assert not handles._enqueued and not handles._abandoned


init.init()
rank, size = basics.rank(), basics.size()
for name, case in list(globals().items()):
    if name.startswith("case_"):
        case()
        print(f"passed {name}", flush=True)
init.shutdown()
