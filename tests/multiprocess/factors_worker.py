"""Factors, on the first and last rank: the bits of what a script would multiply itself in torch."""

from __future__ import annotations

from collections.abc import Callable

import no_compiler
import torch

import farandole.torch as hvd

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
WHOLE = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
# torch gained it in 2.3.
WHOLE += (torch.uint16,) if hasattr(torch, "uint16") else ()
FACTORS = ((0.1, 1.0), (1.0, 1 / 3), (1.1, 1.0), (2.3, 0.7), (1e-3, 1e3))

checks = 0


def operands(dtype: torch.dtype, count: int, seed: int) -> list[torch.Tensor]:
    """One for each of the two. Whole numbers and what becomes of them fit their types."""
    generator = torch.Generator().manual_seed(seed)
    if dtype.is_floating_point:
        return [(torch.randn(count, generator=generator, dtype=torch.float64) * 50).to(dtype) for _ in range(2)]
    low = -20 if dtype.is_signed else 0
    return [torch.randint(low, 21, (count,), generator=generator).to(dtype) for _ in range(2)]


def scaled(tensor: torch.Tensor, factor: float) -> torch.Tensor:
    """`tensor * factor`, in its type."""
    if factor == 1.0 or tensor.dtype.is_floating_point:
        return tensor * factor if factor != 1.0 else tensor
    return (tensor.double() * factor).trunc().to(torch.int64).to(tensor.dtype)


def expected(tensors: list[torch.Tensor], pre: float, post: float) -> torch.Tensor:
    dtype = tensors[0].dtype
    first, second = (scaled(tensor, pre) for tensor in tensors)
    both = first + second if dtype.is_floating_point else (first.long() + second.long()).to(dtype)
    return scaled(both, post)


def check(actual: torch.Tensor, wanted: torch.Tensor, what: object) -> None:
    global checks
    checks += 1
    assert actual.dtype == wanted.dtype and actual.shape == wanted.shape, what
    same = actual.contiguous().view(torch.uint8).eq(wanted.contiguous().view(torch.uint8))
    assert same.all(), (what, actual[actual != wanted][:3], wanted[actual != wanted][:3])


def rows_of_mine(tensor: torch.Tensor, mine: int) -> torch.Tensor:
    return torch.tensor_split(tensor, 2)[mine]


def check_dtype(dtype: torch.dtype, ranks: hvd.ProcessSet, mine: int) -> None:
    for count in (1, 5003):
        for pre, post in FACTORS:
            tensors, others = operands(dtype, count, seed=count), operands(dtype, count + 5, seed=3)
            wanted, of_others = expected(tensors, pre, post), expected(others, pre, post)
            arguments = {"op": hvd.Sum, "prescale_factor": pre, "postscale_factor": post, "process_set": ranks}
            sent = [tensors[mine], others[mine]]
            one = hvd.allreduce_async(tensors[mine], **arguments)
            group = hvd.grouped_allreduce_async(sent, **arguments)
            rows = hvd.reducescatter_async(tensors[mine], **arguments)
            rows_of_group = hvd.grouped_reducescatter_async(sent, **arguments)
            what = (dtype, count, pre, post)
            check(hvd.synchronize(one), wanted, what)
            for got, whole in zip(hvd.synchronize(group), (wanted, of_others)):
                check(got, whole, ("group", *what))
            check(hvd.synchronize(rows), rows_of_mine(wanted, mine), ("rows", *what))
            for got, whole in zip(hvd.synchronize(rows_of_group), (wanted, of_others)):
                check(got, rows_of_mine(whole, mine), ("rows of a group", *what))


def check_together(dtype: torch.dtype, ranks: hvd.ProcessSet, mine: int) -> None:
    """Several factors and averages on the way at once, so that they are executed together."""
    asked: list[tuple[int, torch.Tensor, object]] = []
    for round_ in range(2):
        for number, (pre, post) in enumerate(FACTORS):
            tensors = operands(dtype, 300 + number, seed=round_)
            for op in (hvd.Sum, hvd.Average) if dtype.is_floating_point else (hvd.Sum,):
                # The mean of two numbers is exact.
                wanted = expected(tensors, pre, 1.0) / 2 if op == hvd.Average else expected(tensors, pre, 1.0)
                name = f"{dtype} {round_} {number} {op}"
                handle = hvd.allreduce_async(
                    tensors[mine], name=name, op=op, prescale_factor=pre, postscale_factor=post, process_set=ranks
                )
                asked.append((handle, scaled(wanted, post), name))
    for handle, wanted, what in asked:
        check(hvd.synchronize(handle), wanted, what)


def check_predivided_gradients(ranks: hvd.ProcessSet, mine: int) -> None:
    for factor in (3.0, 7.0):
        weights = [torch.nn.Parameter(torch.zeros(count)) for count in (5, 3000)]
        optimizer = hvd.DistributedOptimizer(
            torch.optim.SGD(weights, lr=1.0),
            named_parameters=[(str(i), weight) for i, weight in enumerate(weights)],
            gradient_predivide_factor=factor,
            process_set=ranks,
        )
        gradients = [operands(torch.float32, weight.numel(), seed=9) for weight in weights]
        sum((weight * pair[mine]).sum() for weight, pair in zip(weights, gradients)).backward()
        optimizer.synchronize()
        for weight, pair in zip(weights, gradients):
            check(weight.grad, expected(pair, 1 / factor, 1.0) / 2 * factor, ("gradient", factor))


def both_in(check_all: Callable[[hvd.ProcessSet, int], None]) -> None:
    """All ranks if they are two, and else a process set of two."""
    if hvd.size() == 2:
        return check_all(hvd.global_process_set, hvd.rank())
    ranks = hvd.add_process_set([0, hvd.size() - 1])
    if ranks.included():
        check_all(ranks, ranks.rank())
    hvd.barrier()


def check_all(ranks: hvd.ProcessSet, mine: int) -> None:
    for dtype in (*FLOATS, *WHOLE):
        check_dtype(dtype, ranks, mine)
        check_together(dtype, ranks, mine)
    check_predivided_gradients(ranks, mine)


no_compiler.leave_out()
hvd.init()
both_in(check_all)
print(f"checked {checks} rank {hvd.rank()} of {hvd.size()}", flush=True)
hvd.shutdown()
