"""Random calls of every collective, compared with numpy. All ranks draw the same examples: what is drawn depends
neither on the run nor on the rank. A failing example is printed; making it smaller would need all ranks.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import collective_reference as reference
import torch
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import farandole.torch as hvd

DTYPES = [
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.float64,
    torch.int32,
    torch.int64,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.bool,
]
REDUCTIONS = {
    "allreduce": ["Average", "Sum", "Min", "Max", "Product"],
    "grouped_allreduce": ["Average", "Sum", "Min", "Max", "Product"],
    "reducescatter": ["Average", "Sum"],
    "grouped_reducescatter": ["Average", "Sum"],
}
OPERATIONS = [*REDUCTIONS, "allgather", "grouped_allgather", "broadcast", "alltoall"]
FACTORS = [(1.0, 1.0), (0.5, 1.0), (1.0, 4.0), (2.0, 0.25)]
LAYOUTS = ["contiguous", "transposed", "every other", "offset"]
FORMS = ["sync", "async", "sync in place", "async in place"]

shapes = st.lists(st.integers(0, 5), max_size=3).map(tuple) | st.sampled_from([(1000,), (3, 700), (1, 1, 1, 2)])


@dataclass
class Call:
    """One collective call, the same on all ranks."""

    operation: str
    set_index: int
    dtype: torch.dtype
    layout: str
    form: str
    seed: int
    shapes: list[tuple[int, ...]]  # of a group several
    rows: list[int]  # of each member, for what may differ
    reduction: str
    factors: tuple[float, float]
    splits: str  # none, empty, given
    matrix: list[list[int]]  # rows from each member to each
    root: int


@st.composite
def calls(draw: st.DrawFn, operation: str, size: int, sets: int) -> Call:
    dtype = draw(st.sampled_from(DTYPES))
    count = draw(st.integers(1, 3)) if operation.startswith("grouped") else 1
    reduction = draw(st.sampled_from(REDUCTIONS.get(operation, ["Sum"])))
    factors = draw(st.sampled_from(FACTORS))
    if dtype is torch.bool:
        reduction, factors = "Sum" if reduction == "Average" else reduction, FACTORS[0]
    if reduction == "Product" and factors[0] > 1:
        factors = FACTORS[0]  # products of larger numbers do not fit into 8 bits
    rows = st.lists(st.integers(0, 4), min_size=size, max_size=size)
    return Call(
        operation=operation,
        set_index=draw(st.integers(0, sets - 1)),
        dtype=dtype,
        layout=draw(st.sampled_from(LAYOUTS)),
        form=draw(st.sampled_from(FORMS)),
        seed=draw(st.integers(0, 1 << 20)),
        shapes=draw(st.lists(shapes, min_size=count, max_size=count)),
        rows=draw(rows),
        reduction=reduction,
        factors=factors,
        splits=draw(st.sampled_from(["none", "empty", "given"])),
        matrix=draw(st.lists(rows, min_size=size, max_size=size)),
        root=draw(st.integers(0, size - 1)),
    )


def laid_out(tensor: torch.Tensor, layout: str) -> torch.Tensor:
    """The same values at other places of memory."""
    if layout == "transposed" and tensor.dim() >= 2:
        return tensor.transpose(0, -1).clone(memory_format=torch.contiguous_format).transpose(0, -1)
    if layout == "every other" and tensor.dim():
        room = torch.zeros(*tensor.shape[:-1], tensor.shape[-1] * 2, dtype=tensor.dtype)
        room[..., ::2] = tensor
        return room[..., ::2]
    if layout == "offset":
        room = torch.zeros(tensor.numel() + 1, dtype=tensor.dtype)
        room[1:] = tensor.flatten()
        return room[1:].reshape(tensor.shape)
    return tensor.clone()


def run(call: Call, given_tensor: Any, **arguments: Any) -> Any:
    """The collective in the form of the call; looks whether the right tensors were changed."""
    in_place = "in place" in call.form and hasattr(hvd, f"{call.operation}_")
    mark = "_" if in_place else ""
    tensors = given_tensor if isinstance(given_tensor, list) else [given_tensor]
    before = [tensor.clone() for tensor in tensors]
    if "async" in call.form:
        result = hvd.synchronize(getattr(hvd, f"{call.operation}_async{mark}")(given_tensor, **arguments))
    else:
        result = getattr(hvd, call.operation + mark)(given_tensor, **arguments)
    if in_place:
        results = result if isinstance(given_tensor, list) else [result]
        assert all(new is tensor for new, tensor in zip(results, tensors))
    else:
        for tensor, was in zip(tensors, before):
            reference.check_equal(tensor, was)
    return result


class Players:
    """The members of the call's process set, as this rank sees them."""

    def __init__(self, call: Call, process_set: hvd.ProcessSet) -> None:
        self.call, self.process_set = call, process_set
        self.count, self.position = process_set.size(), process_set.rank()
        self.group = call.operation.startswith("grouped")

    def inputs(self, each: list[list[tuple[int, ...]]], product: bool = False) -> tuple[list, Any]:
        """Of each tensor of the group those of all members, and what this rank passes."""
        all_inputs = [
            reference.inputs(self.call.seed + i, shapes_of_members, self.call.dtype, product)
            for i, shapes_of_members in enumerate(each)
        ]
        own = [laid_out(tensors[self.position], self.call.layout) for tensors in all_inputs]
        return all_inputs, own if self.group else own[0]

    def check_reduction(self) -> None:
        call = self.call
        scatter = "reducescatter" in call.operation
        wanted = [shape or (1,) if scatter else shape for shape in call.shapes]
        all_inputs, own = self.inputs([[shape] * self.count for shape in wanted], call.reduction == "Product")
        result = run(
            call,
            own,
            op=getattr(hvd, call.reduction),
            prescale_factor=call.factors[0],
            postscale_factor=call.factors[1],
            process_set=self.process_set,
        )
        for actual, tensors in zip(result if self.group else [result], all_inputs):
            expected = reference.reduced(tensors, call.reduction, *call.factors)
            if scatter:
                expected = reference.own_rows(expected, self.position, self.count)
            reference.check_close(actual, expected, call.dtype)

    def check_allgather(self) -> None:
        rows = self.call.rows
        each = [
            [((rows[m] + i) % 5, *shape[1:]) for m in range(self.count)] for i, shape in enumerate(self.call.shapes)
        ]
        all_inputs, own = self.inputs(each)
        result = run(self.call, own, process_set=self.process_set)
        for actual, tensors in zip(result if self.group else [result], all_inputs):
            reference.check_equal(actual, torch.cat(tensors))

    def check_broadcast(self) -> None:
        root = self.call.root % self.count
        all_inputs, own = self.inputs([[self.call.shapes[0]] * self.count])
        result = run(self.call, own, root_rank=self.process_set.ranks[root], process_set=self.process_set)
        reference.check_equal(result, all_inputs[0][root])

    def check_alltoall(self) -> None:
        call, count = self.call, self.count
        matrix = [row[:count] for row in call.matrix[:count]]
        unsent = call.rows[0] if call.splits == "given" else 0
        if call.splits != "given":
            matrix = [[row[0]] * count for row in matrix]
        all_inputs, own = self.inputs([[(sum(row) + unsent, *call.shapes[0][1:]) for row in matrix]])
        splits = {"none": None, "empty": [], "given": torch.tensor(matrix[self.position], dtype=torch.int32)}
        result = run(call, own, splits=splits[call.splits], process_set=self.process_set)
        expected, expected_splits = reference.exchanged(all_inputs[0], matrix, self.position)
        if call.splits != "none":
            result, received = result
            reference.check_equal(received, torch.tensor(expected_splits, dtype=torch.int32))
        reference.check_equal(result, expected)


def check(call: Call, process_set: hvd.ProcessSet) -> None:
    if not process_set.included():
        return
    players = Players(call, process_set)
    if call.operation in REDUCTIONS:
        players.check_reduction()
    elif "allgather" in call.operation:
        players.check_allgather()
    elif call.operation == "broadcast":
        players.check_broadcast()
    else:
        players.check_alltoall()


def main(examples: int) -> None:
    hvd.init()
    size = hvd.size()
    subsets = [[0], [0, size - 1], list(range(1, size))]
    unique = {tuple(ranks): ranks for ranks in subsets if len(ranks) < size}
    sets = [hvd.global_process_set, hvd.global_process_set, *map(hvd.add_process_set, unique.values())]
    drawn: list[str] = []
    for operation in OPERATIONS:

        @settings(
            max_examples=examples,
            derandomize=True,
            database=None,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(calls(operation, size, len(sets)))
        def examples_of_all_ranks(call: Call) -> None:
            drawn.append(repr(call))
            check(call, sets[call.set_index])

        examples_of_all_ranks()
    # All ranks have drawn the same.
    assert hvd.broadcast_object(drawn) == drawn
    print("operations", len(OPERATIONS), "rank", hvd.rank(), "of", size, flush=True)
    hvd.shutdown()


if __name__ == "__main__":
    main(int(sys.argv[1]))
