"""Three ranks that submit through the C ABI as a front end without handles does: each result is told by a callback.

Argument: what is to happen: "all" (every operation, errors of some, chains, shutdown), or "death" (rank 2 ends in the
middle). Says "ok WHAT" for each part, and "told CODE TEXT" where an operation fails.
"""

from __future__ import annotations

import ctypes
import os
import signal
import struct
import sys
import threading
import time

from farandole.library import abi
from farandole.library.submission import ALLGATHER, ALLREDUCE, ALLTOALL, BARRIER, BROADCAST, REDUCESCATTER
from farandole.process import basics
from farandole.session import init

FLOAT32, SUM = 7, 1
LATE_S = 60.0
ALLOCATE = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.POINTER(ctypes.c_int64))
DONE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)
# The whole of farandole_submission.
STRUCT = struct.Struct("=IiQQQiiiiddiIQiiQiiiiQQQQ")


class Operation:
    """One submission, and what its callbacks are told."""

    def __init__(self, kind: int, name: str, values: list[float], rows: int | None = None, **options: object) -> None:
        self.name = name.encode()
        self.values = (ctypes.c_float * max(len(values), 1))(*values)
        self.shape = (ctypes.c_int64 * 1)(len(values) if rows is None else rows)
        self.splits = (ctypes.c_int64 * len(options.get("splits", ())))(*options.get("splits", ()))
        self.in_place = kind in (ALLREDUCE, BROADCAST)
        self.kind = kind
        self.options = options
        self.result = self.values
        self.told: list[tuple[int, str]] = []
        self.over = threading.Event()
        self.callbacks = (ALLOCATE(self._allocate), DONE(self._done))

    def _allocate(self, _: int, dimensions: int, shape: ctypes.Array) -> int | None:
        if self.options.get("refuses") or dimensions != 1:
            return None
        self.result = (ctypes.c_float * shape[0])()
        return ctypes.addressof(self.result) or None

    def _done(self, _: int, code: int, text: bytes, event: int | None) -> None:
        self.told.append((code, text.decode() if event is None else "an event in host memory"))
        if "then" in self.options:
            self.options["then"]()
        self.over.set()

    def packed(self) -> bytes:
        place = ctypes.addressof(self.values)
        allocate, done = (ctypes.cast(each, ctypes.c_void_p).value for each in self.callbacks)
        return STRUCT.pack(
            *(STRUCT.size, self.kind, ctypes.cast(self.name, ctypes.c_void_p).value, ctypes.addressof(self.shape)),
            *(ctypes.addressof(self.splits) if len(self.splits) else 0, 1, len(self.splits), FLOAT32, SUM, 1.0, 1.0),
            *(int(self.options.get("root", 0)), 0, place, 0, 0, place if self.in_place else 0, 0, 0),
            *(0, int(self.options.get("owner", 0)), 0, 0 if self.in_place else allocate, done, 0),
        )

    def submit(self) -> Operation:
        code = abi.load().submit(self.packed(), 1, None, None)
        assert code == 0, abi.load().error_text()
        return self

    def wait(self) -> list[float]:
        """The values of the result."""
        self.wait_for(abi.OK)
        return list(self.result)

    def wait_for(self, code: int) -> str:
        assert self.over.wait(LATE_S), f"{self.name!r} has not ended"
        assert [told for told, _ in self.told] == [code], self.told
        return self.told[0][1]


def every_operation(rank: int) -> None:
    barrier = Operation(BARRIER, "barrier", [])
    gathered = Operation(ALLGATHER, "gather", [rank + 1.0] * rank)
    scattered = Operation(REDUCESCATTER, "scatter", [1.0, 2.0, 3.0, 4.0])
    exchanged = Operation(ALLTOALL, "exchange", [10.0 * rank + i for i in range(3)], splits=[1, 1, 1])
    summed = Operation(ALLREDUCE, "sum", [float(rank), 1.0])
    sent = Operation(BROADCAST, "send", [float(rank)], root=2)
    operations = [barrier, gathered, scattered, exchanged, summed, sent]
    # Each rank in an order of its own.
    for i in range(len(operations)):
        operations[(i * 5 + rank) % len(operations)].submit()
    barrier.wait_for(abi.OK)
    assert gathered.wait() == [2.0, 3.0, 3.0]
    assert scattered.wait() == [[3.0, 6.0], [9.0], [12.0]][rank]
    assert exchanged.wait() == [float(rank), 10.0 + rank, 20.0 + rank]
    assert summed.wait() == [3.0, 3.0]
    assert sent.wait() == [2.0]


def a_group(rank: int) -> None:
    members = [Operation(ALLREDUCE, f"member {i}", [float(rank + i)]) for i in range(20)]
    packed = b"".join(member.packed() for member in members)
    assert abi.load().submit(packed, len(members), b"group", None) == 0, abi.load().error_text()
    for i, member in enumerate(members):
        assert member.wait() == [3.0 + 3 * i]


def one_rank_without_memory(rank: int) -> None:
    for kind, expected in ((ALLGATHER, [0.0, 1.0, 2.0]), (ALLTOALL, None), (REDUCESCATTER, None)):
        values = [float(rank)] if kind == ALLGATHER else [float(rank)] * 3
        operation = Operation(kind, f"refused {kind}", values, refuses=rank == 1).submit()
        if rank == 1:
            text = operation.wait_for(abi.NO_MEMORY)
            assert f"refused {kind}" in text, text
        else:
            result = operation.wait()
            assert result == (expected or ([0.0, 1.0, 2.0] if kind == ALLTOALL else [3.0])), result
    assert Operation(ALLREDUCE, "behind", [1.0]).submit().wait() == [3.0]


def ranks_that_disagree(rank: int) -> None:
    wrong = Operation(ALLREDUCE, "wrong", [1.0] * (2 if rank == 1 else 1)).submit()
    right = Operation(ALLREDUCE, "right", [1.0]).submit()
    assert "rank 1" in wrong.wait_for(abi.MISMATCH)
    assert right.wait() == [3.0]


def a_chain(rank: int) -> None:
    """Long enough for a replay: each callback submits the next."""
    links: list[Operation] = []

    def next_link() -> None:
        if len(links) < 300:
            links.append(Operation(ALLREDUCE, f"link {len(links) % 3}", [float(rank)], then=next_link))
            links[-1].submit()

    next_link()
    for i in range(300):
        while len(links) <= i:
            links[-1].over.wait(LATE_S)
        assert links[i].wait() == [3.0]


def a_front_end_that_is_unloaded(rank: int) -> None:
    library = abi.load()
    owner = library.callbacks_begin()
    operations = [Operation(ALLREDUCE, f"late {i}", [1.0], owner=owner) for i in range(10)]
    if rank == 0:
        for operation in operations:
            operation.submit()
        assert library.callbacks_withdraw(owner, 1000) == abi.OK
    Operation(BARRIER, "withdrawn", []).submit().wait_for(abi.OK)
    if rank != 0:
        for operation in operations:
            operation.submit().wait()
    Operation(BARRIER, "over", []).submit().wait_for(abi.OK)
    assert all(len(operation.told) == (rank != 0) for operation in operations)
    if rank == 0:
        # Nobody told it, but it took place.
        assert [list(operation.values) for operation in operations] == [[3.0]] * 10
    else:
        assert library.callbacks_withdraw(owner, 1000) == abi.OK


def shutdown_with_open_operations(rank: int) -> None:
    again: list[int] = []
    never = Operation(ALLREDUCE, f"never {rank}", [1.0])

    def retry() -> None:
        again.append(abi.load().submit(never.packed(), 1, None, None))

    if rank == 0:
        never.options["then"] = retry
    never.submit()
    if rank != 0:
        # Rank 0 leaves first.
        assert "shutdown" in never.wait_for(abi.PEER_LOST)
        return
    init.shutdown()
    assert never.over.is_set(), "shutdown() was over before the callback"
    never.wait_for(abi.SHUT_DOWN)
    assert again and again[0] in (abi.SHUT_DOWN, abi.NOT_INITIALIZED), again


def main() -> None:
    init.init()
    rank = basics.rank()
    if sys.argv[1] == "all":
        for part in (
            every_operation,
            a_group,
            one_rank_without_memory,
            ranks_that_disagree,
            a_chain,
            a_front_end_that_is_unloaded,
            shutdown_with_open_operations,
        ):
            part(rank)
            print(f"ok {part.__name__}", flush=True)
        return
    assert Operation(ALLREDUCE, "first", [1.0]).submit().wait() == [3.0]
    if rank == 2:
        # Not before the others have submitted: who does so later is told by the submission.
        while not all(os.path.exists(f"submitted.{other}") for other in (0, 1)):
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGKILL)
    operation = Operation(ALLREDUCE, "second", [1.0]).submit()
    open(f"submitted.{rank}", "w").close()
    text = operation.wait_for(abi.PEER_LOST)
    print(f"told {abi.PEER_LOST} {text}", flush=True)


if __name__ == "__main__":
    main()
