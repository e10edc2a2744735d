"""Three ranks that disagree about one tensor after the other. Prints what each rank is told."""

from __future__ import annotations

import time
from collections.abc import Callable

import no_compiler
import torch

import farandole.torch as hvd
from farandole.core import handles
from farandole.library import submission
from farandole.torch import memory


def other_kind(odd: bool) -> object:
    """The same name on the wire for two kinds of operation, which the Python interface never makes."""
    tensor = torch.ones(2)
    operation = submission.ALLGATHER if odd else submission.ALLREDUCE
    target = 0 if odd else tensor.data_ptr()
    name, shape = submission.text("kind"), memory.shape_of(tensor)
    handle = submission.submit(submission.packed(operation, name, tensor.data_ptr(), target, 7, shape, 0, hvd.Sum))
    return handles.synchronize(handles.track(handle, (tensor,), lambda _: None))


def cases(odd: bool) -> dict[str, Callable[[], object]]:
    """What each case submits; `odd` on the rank that differs."""
    dtype = torch.float64 if odd else torch.float32
    return {
        "dtype": lambda: hvd.allreduce(torch.ones(2, dtype=dtype), name="dtype"),
        "shape": lambda: hvd.allreduce(torch.ones((2, 3) if odd else (3, 2)), name="shape"),
        "dimensions": lambda: hvd.allreduce(torch.ones((6,) if odd else (3, 2)), name="dimensions"),
        "op": lambda: hvd.allreduce(torch.ones(2), name="op", op=hvd.Sum if odd else hvd.Average),
        "prescale": lambda: hvd.allreduce(torch.ones(2), name="prescale", prescale_factor=0.5 if odd else 2.0),
        "postscale": lambda: hvd.allreduce_(torch.ones(2), name="postscale", postscale_factor=0.5 if odd else 2.0),
        "root": lambda: hvd.broadcast(torch.ones(2), 2 if odd else 0, name="root"),
        "broadcast_dtype": lambda: hvd.broadcast_(torch.ones(2, dtype=dtype), 0, name="broadcast_dtype"),
        "broadcast_shape": lambda: hvd.broadcast(torch.ones(3 if odd else 2), 0, name="broadcast_shape"),
        "allgather_dtype": lambda: hvd.allgather(torch.ones(2, dtype=dtype), name="allgather_dtype"),
        "allgather_shape": lambda: hvd.allgather(torch.ones(2, 4 if odd else 5), name="allgather_shape"),
        "allgather_dimensions": lambda: hvd.allgather(
            torch.ones((2, 5, 1) if odd else (2, 5)), name="allgather_dimensions"
        ),
        "kind": lambda: other_kind(odd),
    }


def check_disagreement() -> None:
    odd = hvd.rank() == 1
    for name, submit in cases(odd).items():
        before = hvd.allreduce_async(torch.ones(5), name=f"before {name}", op=hvd.Sum)
        try:
            submit()
            print(f"case {name} | no error", flush=True)
        except hvd.TensorMismatchError as error:
            assert isinstance(error, hvd.HorovodInternalError)
            print(f"case {name} | {error}", flush=True)
        assert (hvd.synchronize(before) == 3).all()
        assert (hvd.allreduce(torch.ones(5), name=f"after {name}", op=hvd.Sum) == 3).all()


def check_optimizer() -> None:
    """One gradient differs; the error comes from step(), and the next step works."""
    odd = hvd.rank() == 1
    first, second = torch.nn.Parameter(torch.ones(4)), torch.nn.Parameter(torch.ones(3 if odd else 2))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([first, second], lr=1.0))
    try:
        (first.sum() + second.sum()).backward()
        optimizer.step()
        raise AssertionError("no error")
    except hvd.TensorMismatchError as error:
        print(f"case gradient | {error}", flush=True)
    second.requires_grad_(False)
    second.grad = None
    optimizer.zero_grad()
    first.sum().backward()
    optimizer.step()
    assert (first == 0).all()


def check_duplicate_name() -> None:
    tensor = torch.ones(4)
    if hvd.rank() == 0:
        handle = hvd.allreduce_async(tensor, name="twice", op=hvd.Sum)
        try:
            hvd.allreduce_async(torch.ones(4), name="twice", op=hvd.Sum)
            raise AssertionError("no error")
        except ValueError as error:
            print(f"duplicate {type(error).__name__} {error}", flush=True)
        hvd.barrier()
    else:
        hvd.barrier()
        handle = hvd.allreduce_async(tensor, name="twice", op=hvd.Sum)
    assert (hvd.synchronize(handle) == 3).all()
    assert (hvd.allreduce(tensor, name="twice", op=hvd.Sum) == 3).all()


def check_bad_root() -> None:
    try:
        hvd.broadcast(torch.ones(1), root_rank=3)
        raise AssertionError("no error")
    except ValueError as error:
        print(f"root {error}", flush=True)


def main() -> None:
    hvd.init()
    started = time.monotonic()
    check_disagreement()
    check_optimizer()
    check_duplicate_name()
    check_bad_root()
    hvd.barrier()
    print(f"seconds {time.monotonic() - started}")
    hvd.shutdown()


if __name__ == "__main__":
    no_compiler.leave_out()
    main()
