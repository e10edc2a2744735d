"""Random calls of every collective, compared with numpy: one test for all front ends, which each describe themselves by
a `Front`. Rank 0 draws the examples for all: Hypothesis also tries numbers that it finds in the modules a process has
loaded, and these are not the same on all ranks. A failing example is printed; making it smaller would need all ranks.

Numbers are small and whole, and factors powers of two, so that only averages and what 16 bits do not hold are rounded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

# Relative error of one rounding.
EPSILON = {"float16": 2**-10, "bfloat16": 2**-7, "float32": 2**-23, "float64": 2**-52}
REDUCTIONS = {
    "allreduce": ["Average", "Sum", "Min", "Max", "Product"],
    "grouped_allreduce": ["Average", "Sum", "Min", "Max", "Product"],
    "reducescatter": ["Average", "Sum"],
    "grouped_reducescatter": ["Average", "Sum"],
}
OPERATIONS = [*REDUCTIONS, "allgather", "grouped_allgather", "broadcast", "alltoall"]
FACTORS = [(1.0, 1.0), (0.5, 1.0), (1.0, 4.0), (2.0, 0.25)]


class Front:
    """A front end, as the test sees it.

    Attributes:
        hvd: its module.
        dtypes: names of element types.
        forms: ways to make a call.
        layouts: ways in which an array lies in memory.
        splits: how the splits of an alltoall are given: "none", "empty" or "given".
        may_be_empty: arrays may have no element, or no dimension.
    """

    hvd: Any
    dtypes: list[str]
    forms: list[str]
    layouts = ["contiguous"]
    splits = ["none", "given"]
    may_be_empty = True

    def tensor(self, value: np.ndarray, dtype: str, layout: str) -> Any:
        """These whole numbers as one of `dtypes`."""
        raise NotImplementedError

    def value(self, tensor: Any) -> tuple[str, np.ndarray]:
        """Element type, and exactly its values, as float64 or int64."""
        raise NotImplementedError

    def run(self, call: Call, given_tensor: Any, **arguments: Any) -> Any:
        """The collective in the form of the call, of one tensor or a list of them."""
        raise NotImplementedError


@dataclass
class Call:
    """One collective call, the same on all ranks."""

    operation: str
    set_index: int
    dtype: str
    layout: str
    form: str
    seed: int
    shapes: list[tuple[int, ...]]  # of a group several
    rows: list[int]  # of each member, for what may differ
    reduction: str
    factors: tuple[float, float]
    splits: str
    matrix: list[list[int]]  # rows from each member to each
    root: int


@st.composite
def calls(draw: st.DrawFn, front: Front, operation: str, size: int, sets: int) -> Call:
    least = 0 if front.may_be_empty else 1
    dtype = draw(st.sampled_from(front.dtypes))
    count = draw(st.integers(1, 3)) if operation.startswith("grouped") else 1
    reduction = draw(st.sampled_from(REDUCTIONS.get(operation, ["Sum"])))
    factors = draw(st.sampled_from(FACTORS))
    if dtype == "bool":
        reduction, factors = "Sum" if reduction == "Average" else reduction, FACTORS[0]
    if reduction == "Product" and factors[0] > 1:
        factors = FACTORS[0]  # products of larger numbers do not fit into 8 bits
    rows = st.lists(st.integers(least, 4), min_size=size, max_size=size)
    small = st.lists(st.integers(least, 5), min_size=least, max_size=3).map(tuple)
    shapes = small | st.sampled_from([(1000,), (3, 700), (1, 1, 1, 2)])
    return Call(
        operation=operation,
        set_index=draw(st.integers(0, sets - 1)),
        dtype=dtype,
        layout=draw(st.sampled_from(front.layouts)),
        form=draw(st.sampled_from(front.forms)),
        seed=draw(st.integers(0, 1 << 20)),
        shapes=draw(st.lists(shapes, min_size=count, max_size=count)),
        rows=draw(rows),
        reduction=reduction,
        factors=factors,
        splits=draw(st.sampled_from(front.splits)),
        matrix=draw(st.lists(rows, min_size=size, max_size=size)),
        root=draw(st.integers(0, size - 1)),
    )


# ---- what the collectives are to give


def inputs(seed: int, shapes: list[tuple[int, ...]], dtype: str, product: bool = False) -> list[np.ndarray]:
    """Whole numbers for each member, of these shapes. Nothing that is reduced or scaled leaves 8 bits."""
    generator = np.random.default_rng(seed)
    low, high = (1, 3) if product else (-7, 8)
    if dtype == "bool" or dtype.startswith("uint"):
        low, high = (0, 2) if dtype == "bool" else (max(low, 0), high)
    return [generator.integers(low, high, shape) for shape in shapes]


def reduced(
    values: list[np.ndarray], dtype: str, op: str, prescale: float, postscale: float
) -> tuple[np.ndarray, np.ndarray]:
    """postscale * op(prescale * value), and by how much rounding may change it; whole numbers are truncated after each
    factor."""
    whole = dtype not in EPSILON
    scaled = [value * prescale for value in values]
    if whole:
        scaled = [np.trunc(value) for value in scaled]
    if dtype == "bool":
        op = {"Sum": "Max", "Product": "Min"}.get(op, op)
    combine = {"Min": np.minimum, "Max": np.maximum, "Product": np.multiply}.get(op, np.add)
    result = np.asarray(scaled[0], dtype=np.float64)
    for value in scaled[1:]:
        result = combine(result, value)
    result = result * postscale
    size = sum(np.abs(value) for value in scaled) * abs(postscale)
    if op == "Average":
        result = result / len(values)
    if whole:
        return np.trunc(result), np.zeros(result.shape)
    # Of a sum of n numbers each of n - 1 intermediate ones and the end are rounded.
    return result, (len(values) + 1) * EPSILON[dtype] * np.maximum(size, np.abs(result))


def own_rows(value: np.ndarray, member: int, members: int) -> np.ndarray:
    """Of a reducescatter."""
    return np.array_split(value, members)[member]


def exchanged(values: list[np.ndarray], splits: list[list[int]], member: int) -> tuple[np.ndarray, list[int]]:
    """What a member gets in an alltoall, and how many rows from each."""
    starts = [sum(row[:member]) for row in splits]
    parts = [values[m][starts[m] : starts[m] + splits[m][member]] for m in range(len(values))]
    return np.concatenate(parts), [row[member] for row in splits]


# ---- whether they do


class Members:
    """Those of the call's process set, as this rank sees them."""

    def __init__(self, front: Front, call: Call, process_set: Any) -> None:
        self.front, self.call, self.process_set = front, call, process_set
        self.count, self.position = process_set.size(), process_set.rank()
        self.group = call.operation.startswith("grouped")

    def inputs(self, each: list[list[tuple[int, ...]]], product: bool = False) -> tuple[list, Any]:
        """Of each tensor of the group those of all members, and what this rank passes."""
        call = self.call
        everyone = [inputs(call.seed + i, shapes, call.dtype, product) for i, shapes in enumerate(each)]
        own = [self.front.tensor(values[self.position], call.dtype, call.layout) for values in everyone]
        return everyone, own if self.group else own[0]

    def run(self, own: Any, **arguments: Any) -> Any:
        return self.front.run(self.call, own, process_set=self.process_set, **arguments)

    def check(self, actual: Any, expected: np.ndarray, rounding: np.ndarray | float = 0.0) -> None:
        """Shape and type are the same; the values are, too, or differ by no more than `rounding`."""
        dtype, value = self.front.value(actual)
        assert (dtype, value.shape) == (self.call.dtype, expected.shape), (dtype, value.shape, expected.shape)
        assert (np.abs(value - expected) <= rounding).all(), (value, expected)

    def check_reduction(self) -> None:
        call = self.call
        scatter = "reducescatter" in call.operation
        wanted = [shape or (1,) if scatter else shape for shape in call.shapes]
        if scatter and not self.front.may_be_empty:
            wanted = [(max(shape[0], self.count), *shape[1:]) for shape in wanted]
        everyone, own = self.inputs([[shape] * self.count for shape in wanted], call.reduction == "Product")
        op = getattr(self.front.hvd, call.reduction)
        result = self.run(own, op=op, prescale_factor=call.factors[0], postscale_factor=call.factors[1])
        for actual, values in zip(result if self.group else [result], everyone):
            expected, rounding = reduced(values, call.dtype, call.reduction, *call.factors)
            if scatter:
                expected = own_rows(expected, self.position, self.count)
                rounding = own_rows(rounding, self.position, self.count)
            self.check(actual, expected, rounding)

    def check_allgather(self) -> None:
        rows, least = self.call.rows, 0 if self.front.may_be_empty else 1
        each = [
            [(least + (rows[m] + i) % 5, *shape[1:]) for m in range(self.count)]
            for i, shape in enumerate(self.call.shapes)
        ]
        everyone, own = self.inputs(each)
        result = self.run(own)
        for actual, values in zip(result if self.group else [result], everyone):
            self.check(actual, np.concatenate(values))

    def check_broadcast(self) -> None:
        root = self.call.root % self.count
        everyone, own = self.inputs([[self.call.shapes[0]] * self.count])
        self.check(self.run(own, root_rank=self.process_set.ranks[root]), everyone[0][root])

    def check_alltoall(self) -> None:
        call, count = self.call, self.count
        matrix = [row[:count] for row in call.matrix[:count]]
        unsent = call.rows[0] if call.splits == "given" else 0
        if call.splits != "given":
            matrix = [[row[0]] * count for row in matrix]
        everyone, own = self.inputs([[(sum(row) + unsent, *call.shapes[0][1:]) for row in matrix]])
        splits = {"none": None, "empty": [], "given": matrix[self.position]}
        result = self.run(own, splits=splits[call.splits])
        expected, expected_splits = exchanged(everyone[0], matrix, self.position)
        if call.splits != "none":
            result, received = result
            counts = self.front.value(received)
            assert counts[0] == "int32" and counts[1].tolist() == expected_splits, (counts, expected_splits)
        self.check(result, expected)


def check(front: Front, call: Call, process_set: Any) -> None:
    if not process_set.included():
        return
    members = Members(front, call, process_set)
    if call.operation in REDUCTIONS:
        members.check_reduction()
    elif "allgather" in call.operation:
        members.check_allgather()
    elif call.operation == "broadcast":
        members.check_broadcast()
    else:
        members.check_alltoall()


def draw(front: Front, operation: str, size: int, sets: int, examples: int) -> list[Call]:
    """So many examples of a collective, the same in each run of the same modules."""
    drawn: list[Call] = []

    @settings(
        max_examples=examples,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(calls(front, operation, size, sets))
    def add(call: Call) -> None:
        drawn.append(call)

    add()
    return drawn


def check_all(front: Front, examples: int) -> None:
    """So many examples of each collective, in process sets that are made here. All ranks call this."""
    hvd = front.hvd
    size = hvd.size()
    subsets = [[0], [0, size - 1], list(range(1, size))]
    unique = {tuple(ranks): ranks for ranks in subsets if 0 < len(ranks) < size}
    made = list(map(hvd.add_process_set, unique.values()))
    sets = [hvd.global_process_set, hvd.global_process_set, *made]
    drawn = []
    if hvd.rank() == 0:
        drawn = [call for operation in OPERATIONS for call in draw(front, operation, size, len(sets), examples)]
    drawn = hvd.broadcast_object(drawn, root_rank=0)
    assert {call.operation for call in drawn} == set(OPERATIONS)
    for call in drawn:
        try:
            check(front, call, sets[call.set_index])
        except Exception as error:
            raise AssertionError(f"rank {hvd.rank()}: {call}") from error
    for process_set in made:
        hvd.remove_process_set(process_set)
