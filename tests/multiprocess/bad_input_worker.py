"""Bad input to every public function: the documented exception, a sentence that helps, on every rank that is concerned,
and the job goes on. `python bad_input_worker.py here|ranks|phases|threads|fork` for one of the tables.
"""

from __future__ import annotations

import os
import re
import sys
import threading
import traceback
from functools import partial
from typing import Any, Callable

import no_compiler
import torch

import farandole.torch as hvd

Case = tuple[str, str, Callable[[], Any]]

ONES = torch.ones(2, 2)
SCALAR = torch.tensor(1.0)
COMPLEX = torch.ones(2, dtype=torch.complex64)
META = torch.ones(2, device="meta")
EXPANDED = torch.ones(1).expand(3)
SPARSE = torch.eye(2).to_sparse()
BOOL = torch.ones(2, dtype=torch.bool)


def reductions() -> list[Case]:
    """Of every form of allreduce and reducescatter, alone and in groups."""
    cases: list[Case] = []
    for name in ("allreduce", "allreduce_", "allreduce_async", "allreduce_async_", "reducescatter"):
        function = getattr(hvd, name)
        cases += [
            (f"{name} of a list", "expected a torch.Tensor, got list", lambda f=function: f([1.0])),
            (f"{name} of None", "expected a torch.Tensor, got NoneType", lambda f=function: f(None)),
            (f"{name} of complex numbers", "torch.complex64 is not supported", lambda f=function: f(COMPLEX)),
            (f"{name} of a sparse tensor", "use to_dense", lambda f=function: f(SPARSE)),
            (f"{name} of a meta tensor", "has no values", lambda f=function: f(META)),
            (f"{name} averages truth", "truth values have no average", lambda f=function: f(BOOL)),
            (f"{name} with a number as name", "name must be a str", lambda f=function: f(ONES, name=3)),
            (f"{name} with a list as name", "name must be a str", lambda f=function: f(ONES, name=["a"])),
            (f"{name} with NUL in the name", "NUL", lambda f=function: f(ONES, name="a\0b")),
            (f"{name} with a long name", "a name has 1 to", lambda f=function: f(ONES, name="n" * 100_000)),
            (f"{name} with op 17", "Adasum, Min, Max or Product, got 17", lambda f=function: f(ONES, op=17)),
            (f"{name} with op 'sum'", "got 'sum'", lambda f=function: f(ONES, op="sum")),
            (f"{name} with factor 'x'", "prescale_factor must be", lambda f=function: f(ONES, prescale_factor="x")),
            (f"{name} with factor None", "postscale_factor must", lambda f=function: f(ONES, postscale_factor=None)),
            (f"{name} with factor nan", "finite", lambda f=function: f(ONES, prescale_factor=float("nan"))),
            (f"{name} with set 1", "must be a ProcessSet, got int", lambda f=function: f(ONES, process_set=1)),
            (f"{name} with set None", "must be a ProcessSet", lambda f=function: f(ONES, process_set=None)),
            (f"{name} in an unknown set", "register", lambda f=function: f(ONES, process_set=hvd.ProcessSet([0]))),
        ]
    for name in ("grouped_allreduce", "grouped_allreduce_", "grouped_reducescatter", "grouped_allgather"):
        function = getattr(hvd, name)
        cases += [
            (f"{name} of a tensor", "a list of tensors, got Tensor", lambda f=function: f(ONES)),
            (f"{name} of a number", "a list of tensors, got int", lambda f=function: f(3)),
            (f"{name} of nothing", "at least one tensor", lambda f=function: f([])),
            (f"{name} with a number inside", "expected a torch.Tensor", lambda f=function: f([ONES, 3])),
            (f"{name} with complex numbers inside", "complex64", lambda f=function: f([ONES, COMPLEX])),
            (f"{name} in set 1", "must be a ProcessSet", lambda f=function: f([ONES], process_set=1)),
            (f"{name} with a number as name", "name must be a str", lambda f=function: f([ONES], name=3)),
        ]
    return [
        *cases,
        ("average and op", "only one of them", lambda: hvd.allreduce(ONES, average=True, op=hvd.Sum)),
        ("allreduce without compressor", "compression must be", lambda: hvd.allreduce(ONES, compression=None)),
        ("grouped without compressor", "compression must be", lambda: hvd.grouped_allreduce([ONES], compression=3)),
        ("Adasum of whole numbers", "floating-point", lambda: hvd.allreduce(ONES.int(), op=hvd.Adasum)),
        ("scaled truth", "cannot be scaled", lambda: hvd.allreduce(BOOL, op=hvd.Sum, prescale_factor=2)),
        ("expanded in place", "share memory", lambda: hvd.allreduce_(EXPANDED)),
        ("a tensor twice in place", "share their memory", lambda: hvd.grouped_allreduce_([ONES, ONES])),
        ("reducescatter of a scalar", "at least one dimension", lambda: hvd.reducescatter(SCALAR)),
        ("reducescatter by Min", "average and sum", lambda: hvd.reducescatter(ONES, op=hvd.Min)),
        ("scalar in a reducescatter", "at least one dim", lambda: hvd.grouped_reducescatter([ONES, SCALAR])),
        (
            "sparse allreduce of a dense tensor",
            "sparse_coo, got",
            lambda: hvd.sparse_allreduce_async(ONES, "s", hvd.Sum),
        ),
        ("sparse allreduce of a list", "sparse_coo, got list", lambda: hvd.sparse_allreduce_async([1], "s", hvd.Sum)),
        ("sparse allreduce by Max", "summed and averaged", lambda: hvd.sparse_allreduce_async(SPARSE, "s", hvd.Max)),
        ("sparse average of ints", "no average", lambda: hvd.sparse_allreduce_async(SPARSE.int(), "s", hvd.Average)),
    ]


def movements() -> list[Case]:
    """Of allgather, alltoall and broadcast."""
    bad_splits = {
        "too many": ([1, 1, 0], "3 numbers of rows for a process set of 2"),
        "negative": ([-1, 2], "negative, or more than the 2 rows"),
        "too large a sum": ([2, 1], "more than the 2 rows"),
        "huge": ([1 << 70, 0], "vector of integers"),
        "fractions": ([0.5, 0.5], "vector of integers"),
        "fractions in a tensor": (torch.ones(2), "vector of integers, got torch.float32"),
        "a matrix": (torch.ones(1, 2, dtype=torch.int32), "of 2 dimensions"),
        "a number": (2, "vector of integers"),
        "text": ("ab", "vector of integers"),
    }
    bad_roots = {
        "2": (2, "root rank 2 is not a member"),
        "-1": (-1, "root rank -1"),
        "2^32": (1 << 32, "not a rank of any job"),
        "0.0": (0.0, "must be an int"),
        "None": (None, "must be an int"),
    }
    cases: list[Case] = [
        ("allgather of a scalar", "at least one dimension", lambda: hvd.allgather(SCALAR)),
        ("allgather of a list", "expected a torch.Tensor", lambda: hvd.allgather([1])),
        ("allgather of complex numbers", "not supported", lambda: hvd.allgather(COMPLEX)),
        ("allgather in set 1", "must be a ProcessSet", lambda: hvd.allgather(ONES, process_set=1)),
        ("scalar in a group", "at least one dimension", lambda: hvd.grouped_allgather([ONES, SCALAR])),
        ("alltoall of a scalar", "at least one dimension", lambda: hvd.alltoall(SCALAR)),
        ("alltoall of a list", "expected a torch.Tensor", lambda: hvd.alltoall([1])),
        ("alltoall of 3 rows", "3 rows cannot be divided among 2", lambda: hvd.alltoall(torch.ones(3))),
        ("alltoall in set 1", "must be a ProcessSet", lambda: hvd.alltoall(ONES, process_set=1)),
        ("broadcast of a list", "expected a torch.Tensor", lambda: hvd.broadcast([1], 0)),
        ("broadcast of complex numbers", "not supported", lambda: hvd.broadcast(COMPLEX, 0)),
        ("broadcast_ of an expanded tensor", "share memory", lambda: hvd.broadcast_(EXPANDED, 0)),
        ("broadcast in set 1", "must be a ProcessSet", lambda: hvd.broadcast(ONES, 0, process_set=1)),
        ("barrier in set 1", "must be a ProcessSet", lambda: hvd.barrier(1)),
        ("synchronize text", "not given out", lambda: hvd.synchronize("x")),
        ("poll of the future", "not given out", lambda: hvd.poll(1 << 60)),
    ]
    for what, (splits, text) in bad_splits.items():
        cases.append((f"alltoall, splits {what}", text, lambda s=splits: hvd.alltoall(ONES, splits=s)))
        cases.append((f"alltoall_async, splits {what}", text, lambda s=splits: hvd.alltoall_async(ONES, splits=s)))
    for what, (root, text) in bad_roots.items():
        cases.append((f"broadcast from {what}", text, lambda r=root: hvd.broadcast(ONES, r)))
        cases.append((f"broadcast_async_ from {what}", text, lambda r=root: hvd.broadcast_async_(ONES, r)))
        cases.append((f"broadcast_object from {what}", text, lambda r=root: hvd.broadcast_object(1, r)))
        cases.append(
            (f"broadcast_parameters from {what}", text, lambda r=root: hvd.broadcast_parameters({"a": ONES}, r))
        )
    return cases


def others() -> list[Case]:
    """Of process sets, parameters, timelines."""
    sgd = torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=1)
    return [
        ("a set of text", "list of ranks as int", lambda: hvd.ProcessSet(["0"])),
        ("a set of a number", "list of ranks as int", lambda: hvd.ProcessSet(0)),
        ("an empty set", "at least one rank", lambda: hvd.add_process_set([])),
        ("a set of a stranger", "in 0..1", lambda: hvd.add_process_set([2])),
        ("a set of a huge rank", "in 0..1", lambda: hvd.add_process_set([1 << 40])),
        ("a set with a rank twice", "each rank once", lambda: hvd.add_process_set([0, 0])),
        ("a set of all", "exactly these ranks", lambda: hvd.add_process_set([1, 0])),
        ("removal of a number", "must be a ProcessSet", lambda: hvd.remove_process_set(1)),
        ("a timeline without path", "str or PathLike", lambda: hvd.start_timeline(3)),
        ("parameters from a generator", "invalid params", lambda: hvd.broadcast_parameters((p for p in []), 0)),
        ("parameters that are none", "'a' of params", lambda: hvd.broadcast_parameters({"a": 3}, 0)),
        ("parameters twice", "several entries", lambda: hvd.broadcast_parameters([("a", ONES), ("a", ONES)], 0)),
        ("complex parameters", "'a' of params", lambda: hvd.broadcast_parameters({"a": COMPLEX}, 0)),
        ("no optimizer", "torch.optim.Optimizer", lambda: hvd.broadcast_optimizer_state("sgd", 0)),
        ("state from rank 9", "root rank 9", lambda: hvd.broadcast_optimizer_state(sgd, 9)),
    ]


def refused(what: str, text: str, call: Callable[[], Any], kind: type = ValueError) -> None:
    try:
        result = call()
    except kind as error:
        assert re.search(re.escape(text), str(error)), f"{what}: {error}"
        assert len(str(error)) > 15, f"{what}: {error} helps nobody"
    else:
        raise AssertionError(f"{what}: no error, but {result!r}")


def goes_on() -> None:
    assert hvd.allreduce(torch.ones(3), op=hvd.Sum).tolist() == [hvd.size()] * 3


def check_here() -> int:
    """Each rank finds out by itself, at once, and nothing stays behind."""
    hvd.init()
    cases = reductions() + movements() + others()
    for i, case in enumerate(cases):
        refused(*case)
        if i % 20 == 0:
            goes_on()
    goes_on()
    return len(cases)


def check_ranks() -> int:
    """What ranks disagree about: all of them are told, with the ranks and their values, and the job goes on."""
    hvd.init()
    first = hvd.rank() == 0
    only = hvd.add_process_set([0])

    def either(a: Any, b: Any) -> Any:
        return a if first else b

    cases: list[Case] = [
        ("type", "float32 on rank 0", lambda: hvd.allreduce(either(ONES, ONES.double()), name="x")),
        ("shape", "[2, 2] on rank 0", lambda: hvd.allreduce(either(ONES, torch.ones(3)), name="x")),
        ("operation", "on rank 0", lambda: hvd.allreduce(ONES, op=either(hvd.Sum, hvd.Max), name="x")),
        ("factor", "on rank 0", lambda: hvd.allreduce(ONES, prescale_factor=either(1, 2), name="x")),
        ("root", "on rank 0", lambda: hvd.broadcast(ONES, either(0, 1), name="x")),
        ("columns", "on rank 0", lambda: hvd.allgather(either(ONES, torch.ones(2, 3)), name="x")),
        ("columns to all", "on rank 0", lambda: hvd.alltoall(either(ONES, torch.ones(2, 3)), name="x")),
        ("reducescatter", "on rank 0", lambda: hvd.reducescatter(ONES, op=either(hvd.Sum, hvd.Average), name="x")),
        ("group", "", lambda: hvd.grouped_allreduce(either([ONES, ONES], [ONES, SCALAR]), name="x")),
        ("gathered group", "", lambda: hvd.grouped_allgather(either([ONES, ONES], [ONES, ONES.int()]), name="x")),
        (
            "scattered group",
            "",
            lambda: hvd.grouped_reducescatter(either([ONES, ONES], [ONES, torch.ones(5)]), name="x"),
        ),
        (
            "sparse",
            "sizes",
            lambda: hvd.sparse_allreduce_async(either(SPARSE, torch.eye(3).to_sparse()), "x", hvd.Sum)(),
        ),
        ("ranks of a set", "rank", lambda: hvd.add_process_set(either([1], [0]))),
    ]
    for case in cases:
        refused(*case, kind=hvd.TensorMismatchError)
        goes_on()
    # Only the rank outside of the set is told.
    if first:
        assert hvd.allreduce(ONES, process_set=only).tolist() == ONES.tolist()
    else:
        refused("not a member", "not a member", lambda: hvd.allreduce(ONES, process_set=only))
        refused("no rank there", "not a member", lambda: only.rank())
    refused("root outside", "not a member", lambda: hvd.broadcast(ONES, 1, process_set=only))
    # An object that cannot travel.
    lock = threading.Lock()
    for call in (lambda: hvd.broadcast_object(either(lock, None)), lambda: hvd.allgather_object(either(lock, 1))):
        kind = either(TypeError, hvd.HorovodInternalError)
        refused("a lock", either("cannot pickle", "object of rank 0"), call, kind)
    goes_on()
    return len(cases)


def phases() -> list[Callable[[], Any]]:
    """Every function that needs init."""
    queries = ["rank", "size", "local_rank", "local_size", "cross_rank", "cross_size", "is_homogeneous"]
    plain = [*queries, "mpi_threads_supported", "join", "barrier", "stop_timeline"]
    calls: list[Callable[[], Any]] = [getattr(hvd, name) for name in plain]
    for name in hvd.__all__:
        if name.startswith("grouped_"):
            calls.append(partial(getattr(hvd, name), [ONES]))
        elif name.startswith("broadcast") and name.endswith(("cast", "cast_", "async", "async_", "object")):
            calls.append(partial(getattr(hvd, name), ONES, 0))
        elif name.startswith(("allreduce", "reducescatter", "allgather", "alltoall")):
            calls.append(partial(getattr(hvd, name), ONES))
    sgd = torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=1)
    return [
        *calls,
        lambda: hvd.sparse_allreduce_async(SPARSE, "s", hvd.Sum),
        lambda: hvd.broadcast_parameters({"a": ONES}, 0),
        lambda: hvd.broadcast_optimizer_state(sgd, 0),
        lambda: hvd.DistributedOptimizer(torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=1)),
        lambda: hvd.add_process_set([0]),
        lambda: hvd.remove_process_set(hvd.ProcessSet([0])),
        lambda: hvd.start_timeline("timeline.json"),
        lambda: hvd.global_process_set.size(),
        lambda: hvd.global_process_set.rank(),
    ]


def check_phases() -> int:
    """Before init and after shutdown, and init again."""
    calls = phases()
    for _ in range(2):
        for call in calls:
            refused("no init", "Farandole has not been initialized; use hvd.init()", call)
            refused("no init", "initialized", call, hvd.NotInitializedError)
        assert not hvd.is_initialized()
        hvd.init()
        goes_on()
        late = hvd.allreduce_async(ONES, name="late") if hvd.rank() == 0 else 0
        hvd.barrier()
        hvd.shutdown()
        if late:
            refused("a former life", "shut down", partial(hvd.synchronize, late), hvd.HorovodInternalError)
    return len(calls)


def check_threads() -> int:
    """Several threads at once, with names of their own; some of them with bad input."""
    hvd.init()
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for turn in range(30):
                value = torch.full((5,), float(number + turn))
                assert hvd.allreduce(value, name=f"thread{number}", op=hvd.Average).tolist() == value.tolist()
                refused("bad", "expected a torch.Tensor", lambda: hvd.allreduce([number]))
                assert hvd.broadcast_object(turn, name=f"object{number}") == turn
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures
    goes_on()
    return len(threads)


def check_fork() -> int:
    """In a child of fork() every function says so, and the parent goes on."""
    hvd.init()
    open_handle = hvd.allreduce_async(ONES, name="open")
    calls = [*phases(), hvd.init, hvd.shutdown, lambda: hvd.poll(open_handle), lambda: hvd.synchronize(open_handle)]
    child = os.fork()
    if child == 0:
        code = 1
        try:
            for call in calls:
                refused("forked", "forked", call, hvd.NotInitializedError)
            code = int(hvd.is_initialized())
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    assert hvd.synchronize(open_handle).tolist() == ONES.tolist()
    goes_on()
    return len(calls)


def main(which: str) -> None:
    count = {
        "here": check_here,
        "ranks": check_ranks,
        "phases": check_phases,
        "threads": check_threads,
        "fork": check_fork,
    }[which]()
    print(f"refused {count} here", flush=True)
    hvd.shutdown()


if __name__ == "__main__":
    no_compiler.leave_out()
    main(sys.argv[1])
