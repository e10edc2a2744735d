"""Scripts that repeat themselves and then do not. Every value is small and whole, so sums are exact. Each part begins
with enough equal steps for a replay to have begun."""

from __future__ import annotations

import torch

import farandole.torch as hvd

STEPS = 30


def step(names: list[str], elements: int = 100, reverse: bool = False) -> None:
    """Sums one tensor per name over all ranks, all at once, in this order or the other."""
    rank, size = hvd.rank(), hvd.size()
    tensors = {name: torch.full((elements,), float(rank + index)) for index, name in enumerate(names)}
    order = reversed(names) if reverse else names
    handles = {name: hvd.allreduce_async_(tensors[name], name=name, op=hvd.Sum) for name in order}
    for index, name in enumerate(names):
        expected = sum(range(size)) + size * index
        assert hvd.synchronize(handles[name]).tolist() == [expected] * elements, name


def repeat(names: list[str], elements: int = 100) -> None:
    for _ in range(STEPS):
        step(names, elements)


def new_tensor() -> None:
    repeat(["a", "b", "c"])
    step(["a", "b", "c", "new"])
    repeat(["a", "b", "c"])


def dropped_tensor() -> None:
    repeat(["a", "b", "c"])
    step(["a", "c"])
    repeat(["a", "b", "c"])


def other_shape() -> None:
    repeat(["a", "b"])
    repeat(["a", "b"], elements=200)


def other_order() -> None:
    for number in range(2 * STEPS):
        step(["a", "b", "c", "d"], reverse=(number + hvd.rank()) % 3 == 0)


def accumulation() -> None:
    for number in range(4 * STEPS):
        if number % 4 == 3:
            step(["gradient"])


def something_between() -> None:
    for number in range(3 * STEPS):
        step(["a", "b"])
        if number % STEPS == STEPS - 1:
            hvd.barrier()
            gathered = hvd.allgather(torch.full((hvd.rank() + 1,), hvd.rank()))
            assert gathered.numel() == sum(range(hvd.size() + 1))


def mismatch_on_one() -> None:
    repeat(["a", "b"])
    try:
        hvd.allreduce(torch.ones(5 if hvd.rank() == 0 else 100), name="a", op=hvd.Sum)
        raise AssertionError("ranks disagreed about a shape")
    except hvd.TensorMismatchError as error:
        assert "[5]" in str(error) and "[100]" in str(error), error
    repeat(["a", "b"])


def waits_between() -> None:
    """Rank 0 waits for `a` before it submits `b`, the others submit both."""
    repeat(["a", "b"])
    for _ in range(3):
        if hvd.rank() == 0:
            step(["a"])
            a_then = torch.zeros(100) + 1.0
            assert hvd.allreduce(a_then, name="b", op=hvd.Sum).tolist() == [sum(range(hvd.size())) + hvd.size()] * 100
        else:
            step(["a", "b"])


PARTS = [
    new_tensor,
    dropped_tensor,
    other_shape,
    other_order,
    accumulation,
    something_between,
    mismatch_on_one,
    waits_between,
]


def main() -> None:
    hvd.init()
    for part in PARTS:
        part()
        print(f"{part.__name__} done on rank {hvd.rank()}", flush=True)
    hvd.shutdown()


if __name__ == "__main__":
    main()
