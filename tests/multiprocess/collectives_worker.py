"""Every collective with every type on all ranks, compared with numpy on data from closed formulas."""

from __future__ import annotations

import no_compiler
import numpy as np
import torch
from gradients_worker import by_nccl

import farandole.torch as hvd

DEVICE = torch.empty(0).device
REDUCIBLE = [torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64]
MOVABLE = [*REDUCIBLE, torch.uint8, torch.int8, torch.int16, torch.bool]
# Relative error of one rounding; sums of up to four values of these sizes need a few of them.
EPSILON = {torch.float16: 2**-10, torch.bfloat16: 2**-7, torch.float32: 2**-23, torch.float64: 2**-52}
SHAPES = [(), (0, 3), (7,), (3, 5, 2), (70_001,)]


def data(rank: int, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Different in every cell and on every rank, exact in every type."""
    index = np.arange(int(np.prod(shape)), dtype=np.int64).reshape(shape)
    return torch.from_numpy(np.asarray((index * 31 + rank * 17) % 101 - 50)).to(DEVICE, dtype)


def as_numpy(tensor: torch.Tensor) -> np.ndarray:
    exact = torch.float64 if tensor.dtype.is_floating_point else torch.int64
    return tensor.to(exact).cpu().numpy()


def check(actual: torch.Tensor, expected: np.ndarray, dtype: torch.dtype, what: object) -> None:
    assert actual.dtype == dtype and tuple(actual.shape) == expected.shape, (what, actual.dtype, actual.shape)
    assert actual.device == DEVICE, (what, actual.device)
    if dtype.is_floating_point:
        bound = 8 * EPSILON[dtype] * np.maximum(np.abs(expected), 200.0)
        assert (np.abs(as_numpy(actual) - expected) <= bound).all(), what
    else:
        assert (as_numpy(actual) == expected).all(), what


def check_tensors_of_the_host() -> None:
    """Wherever others are, and whatever torch's default device is."""
    own, total = torch.full((5,), float(hvd.rank()), device="cpu"), sum(range(hvd.size()))
    for result in (hvd.allreduce(own, op=hvd.Sum), hvd.allgather(own).reshape(hvd.size(), 5).sum(0)):
        assert result.is_cpu and result.tolist() == [total] * 5, result
    count = torch.full((hvd.size(),), 1.0, device="cpu")
    received = hvd.alltoall(count), hvd.reducescatter(count, op=hvd.Sum)
    assert all(result.is_cpu for result in received) and received[1].tolist() == [hvd.size()], received


def truncated(value: np.ndarray, dtype: torch.dtype) -> np.ndarray:
    return value if dtype.is_floating_point else np.trunc(value)


def check_allreduce() -> None:
    rank, size = hvd.rank(), hvd.size()
    for dtype in REDUCIBLE:
        for shape in SHAPES:
            total = sum(as_numpy(data(r, shape, dtype)) for r in range(size))
            tensor = data(rank, shape, dtype)
            check(hvd.allreduce(tensor, op=hvd.Sum), np.asarray(total), dtype, ("sum", dtype, shape))
            average = np.asarray(truncated(total / size, dtype))
            check(hvd.allreduce(tensor), average, dtype, ("average", dtype, shape))
            assert torch.equal(tensor, data(rank, shape, dtype)), "the input was changed"
            assert hvd.allreduce_(tensor, op=hvd.Sum) is tensor
            check(tensor, np.asarray(total), dtype, ("in place", dtype, shape))
            scaled = sum(truncated(as_numpy(data(r, shape, dtype)) * 0.5, dtype) for r in range(size))
            result = hvd.allreduce(data(rank, shape, dtype), op=hvd.Sum, prescale_factor=0.5, postscale_factor=3.0)
            check(result, np.asarray(truncated(scaled * 3.0, dtype)), dtype, ("scaled", dtype, shape))


def adasum(gradients: list[np.ndarray]) -> np.ndarray:
    """Neighbours combined, then neighbours of the results; who has none goes on as it is."""
    while len(gradients) > 1:
        pairs = [gradients[i : i + 2] for i in range(0, len(gradients), 2)]
        gradients = [pair[0] if len(pair) == 1 else adasum_of_two(*pair) for pair in pairs]
    return gradients[0]


def adasum_of_two(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    dot, of_a, of_b = (float(np.sum(x * y)) for x, y in ((a, b), (a, a), (b, b)))
    return (1 - dot / (2 * of_a) if of_a else 1.0) * a + (1 - dot / (2 * of_b) if of_b else 1.0) * b


def check_adasum() -> None:
    rank, size = hvd.rank(), hvd.size()
    for dtype in EPSILON:
        # Often enough to be replayed.
        for _ in range(6):
            for shape in SHAPES:
                # Zero on rank 1, and different directions: each tensor of a group has its own dot products.
                inputs = [data(r, shape, dtype) * (r != 1) + r for r in range(size)]
                twice = [data(r + 3, shape, dtype) for r in range(size)]
                expected = [np.asarray(adasum([as_numpy(t) for t in tensors])) for tensors in (inputs, twice)]
                result = hvd.allreduce(inputs[rank], op=hvd.Adasum, name=f"adasum {dtype} {shape}")
                check(result, expected[0], dtype, ("adasum", dtype, shape))
                group = hvd.grouped_allreduce(
                    [inputs[rank], twice[rank]], op=hvd.Adasum, postscale_factor=2, name=f"adasums {dtype} {shape}"
                )
                check(group[0], 2 * expected[0], dtype, ("grouped adasum", dtype, shape))
                check(group[1], 2 * expected[1], dtype, ("grouped adasum", dtype, shape))


def check_other_operations() -> None:
    rank, size = hvd.rank(), hvd.size()
    numpy_of = {hvd.Min: np.minimum, hvd.Max: np.maximum, hvd.Product: np.multiply}
    for dtype in REDUCIBLE:
        for shape in SHAPES:
            for op, combine in numpy_of.items():
                # Small enough for products to be exact in every type.
                inputs = [data(r, shape, dtype) % 4 + 1 for r in range(size)]
                expected = as_numpy(inputs[0])
                for other in inputs[1:]:
                    expected = combine(expected, as_numpy(other))
                result = hvd.allreduce(inputs[rank], op=op)
                assert result.dtype == dtype and result.device == DEVICE
                assert np.array_equal(as_numpy(result), np.asarray(expected)), (op, dtype, shape)
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        for who in range(size):
            special = torch.tensor([float("nan"), -0.0] if rank == who else [1.0, 0.0], dtype=dtype)
            least, greatest = hvd.allreduce(special, op=hvd.Min), hvd.allreduce(special, op=hvd.Max)
            if by_nccl() and size > 1:
                # It has the rule of C's fmin: numbers win. About the sign of 0 it promises nothing.
                assert least.tolist() == [1, 0] and greatest.tolist() == [1, 0], (dtype, least, greatest)
                continue
            # NaN wins, and -0 is less than 0, whoever has it.
            assert least[0].isnan() and greatest[0].isnan(), (dtype, least, greatest)
            assert least[1].signbit() and (size == 1 or not greatest[1].signbit()), (dtype, least, greatest)


def check_allgather() -> None:
    rank, size = hvd.rank(), hvd.size()
    for dtype in MOVABLE:
        for rows in ([r + 1 for r in range(size)], [0] * size, [0 if r % 2 else 1000 * r + 5 for r in range(size)]):
            parts = [data(r, (rows[r], 3), dtype) for r in range(size)]
            result = hvd.allgather(parts[rank])
            # Which refuses tensors of two devices.
            assert torch.equal(result, torch.cat(parts)), ("allgather", dtype, rows)


def check_alltoall() -> None:
    rank, size = hvd.rank(), hvd.size()
    for dtype in MOVABLE:
        for unit in (1, 0, 4001):
            # Rank s sends (s + 2 d) % 3 units to rank d, and keeps two rows to itself.
            matrix = np.array([[(s + 2 * d) % 3 * unit for d in range(size)] for s in range(size)])
            tensors = [data(s, (int(matrix[s].sum()) + 2, 2), dtype) for s in range(size)]
            starts = np.concatenate([np.zeros((size, 1), np.int64), matrix.cumsum(axis=1)], axis=1)
            expected = torch.cat([tensors[s][starts[s][rank] : starts[s][rank + 1]] for s in range(size)])
            received, splits = hvd.alltoall(tensors[rank], splits=torch.tensor(matrix[rank], dtype=torch.int32))
            assert torch.equal(received, expected) and received.dtype == dtype, (dtype, unit)
            assert splits.dtype == torch.int32 and splits.tolist() == matrix[:, rank].tolist()
    even = torch.arange(size * 3).reshape(size * 3, 1) + 100 * rank
    expected = torch.cat([torch.arange(rank * 3, rank * 3 + 3).reshape(3, 1) + 100 * r for r in range(size)])
    assert torch.equal(hvd.alltoall(even), expected)
    assert torch.equal(hvd.synchronize(hvd.alltoall_async(even, name="even")), expected)
    assert hvd.alltoall(torch.empty(0, 5)).shape == (0, 5)


def check_gradients_of_alltoall() -> None:
    rank, size = hvd.rank(), hvd.size()
    tensor = torch.ones(size + 1, 2, requires_grad=True)
    received, _ = hvd.alltoall(tensor, splits=[1] * size)
    (received * (rank + 1)).sum().backward()
    # The row for rank d has come back with what d did to it; the last one went nowhere.
    assert tensor.grad[:, 0].tolist() == [*range(1, size + 1), 0]


def check_reducescatter() -> None:
    rank, size = hvd.rank(), hvd.size()
    for dtype in REDUCIBLE:
        for shape in [(0, 3), (1,), (7,), (3, 5, 2), (70_001,), (4 * size, 300)]:
            total = sum(as_numpy(data(r, shape, dtype)) for r in range(size))
            own = np.array_split(total, size)[rank]
            tensor = data(rank, shape, dtype)
            check(hvd.reducescatter(tensor, op=hvd.Sum), own, dtype, ("reducescatter", dtype, shape))
            assert torch.equal(tensor, data(rank, shape, dtype)), "the input was changed"
            average = truncated(own / size, dtype)
            check(hvd.reducescatter(tensor), average, dtype, ("average", dtype, shape))
    tensor = torch.ones(2 * size + 1, 3, requires_grad=True)
    result = hvd.reducescatter(tensor, op=hvd.Sum, postscale_factor=0.5)
    (result * (rank + 1)).sum().backward()
    owner = np.concatenate([[r] * len(part) for r, part in enumerate(np.array_split(np.zeros(2 * size + 1), size))])
    assert tensor.grad[:, 0].tolist() == [0.5 * size * (r + 1) for r in owner.tolist()], tensor.grad


def check_broadcast() -> None:
    rank, size = hvd.rank(), hvd.size()
    for root in range(size):
        for dtype in MOVABLE:
            for shape in SHAPES:
                expected = data(root, shape, dtype)
                tensor = data(rank, shape, dtype)
                assert torch.equal(hvd.broadcast(tensor, root), expected), ("broadcast", dtype, shape)
                assert torch.equal(tensor, data(rank, shape, dtype)), "the input was changed"
                assert hvd.broadcast_(tensor, root) is tensor
                assert torch.equal(tensor, expected), ("broadcast_", dtype, shape)


def check_many_at_once() -> None:
    """Submitted in another order on every rank."""
    rank, size = hvd.rank(), hvd.size()
    order = np.random.default_rng(rank).permutation(300)
    handles = {i: hvd.allreduce_async(torch.full((i % 50 + 1,), float(i + rank)), name=f"t{i}") for i in order}
    for i, handle in handles.items():
        assert (hvd.synchronize(handle) == i + (size - 1) / 2).all(), i


def check_views() -> None:
    rank, size = hvd.rank(), hvd.size()
    total = sum(data(r, (6, 4), torch.float32) for r in range(size))
    tensor = data(rank, (6, 4), torch.float32)
    assert torch.equal(hvd.allreduce(tensor.t(), op=hvd.Sum), total.t())
    hvd.allreduce_(tensor[:, ::2], op=hvd.Sum)
    assert torch.equal(tensor[:, ::2], total[:, ::2])
    assert torch.equal(tensor[:, 1::2], data(rank, (6, 4), torch.float32)[:, 1::2])


def check_gradients() -> None:
    """The derivative of the sum over all ranks of their results, divided by size where the interface averages."""
    rank, size = hvd.rank(), hvd.size()
    leaf = torch.full((3,), float(rank), dtype=torch.float64, requires_grad=True)
    (hvd.allreduce(leaf, op=hvd.Sum, prescale_factor=2.0) * (rank + 1)).sum().backward()
    assert (leaf.grad == 2.0 * sum(r + 1 for r in range(size))).all()

    leaf = torch.full((rank + 1, 2), 1.0, dtype=torch.float64, requires_grad=True)
    gathered = hvd.allgather(leaf, name="rows")
    weight = torch.arange(gathered.numel(), dtype=torch.float64).reshape(gathered.shape)
    (gathered * weight * (rank + 1)).sum().backward()
    start = sum(r + 1 for r in range(rank))
    mean = sum(r + 1 for r in range(size)) / size
    assert torch.allclose(leaf.grad, weight[start : start + rank + 1] * mean)

    leaf = torch.ones(2, dtype=torch.float64, requires_grad=True)
    (hvd.broadcast(leaf, root_rank=size - 1) * (rank + 1)).sum().backward()
    assert (leaf.grad == (mean if rank == size - 1 else 0.0)).all()


def check_objects() -> None:
    rank, size = hvd.rank(), hvd.size()
    obj = {"rank": rank, "data": list(range(rank * 1000))}
    assert hvd.broadcast_object(obj if rank == size - 1 else None, root_rank=size - 1)["rank"] == size - 1
    assert [o["rank"] for o in hvd.allgather_object(obj)] == list(range(size))


def check_state_transfer() -> None:
    for owner in (0, hvd.size() - 1):  # state exists on the root only, then on another rank only
        torch.manual_seed(hvd.rank())
        model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3))
        optimizer = torch.optim.Adam(model.parameters(), lr=0.1 * (hvd.rank() + 1), weight_decay=0.1)
        if hvd.rank() == owner:
            model(torch.randn(5, 4)).square().sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        hvd.broadcast_parameters(model.state_dict(), root_rank=0)
        weights = [p.detach().clone() for p in model.parameters()]
        hvd.broadcast_optimizer_state(optimizer, root_rank=0)
        assert all(torch.equal(w, p) for w, p in zip(weights, model.parameters())), "the weights were changed"
        ours = optimizer.state_dict()
        assert len(ours["state"]) == (4 if owner == 0 else 0)
        # An object that has tensors on a device keeps its number, which may be another one here.
        for theirs, values in hvd.allgather_object((ours, model.state_dict())):
            assert theirs["param_groups"] == ours["param_groups"]
            assert theirs["state"].keys() == ours["state"].keys()
            for mine, other in zip(ours["state"].values(), theirs["state"].values()):
                assert mine.keys() == other.keys() and all(torch.equal(mine[k].cpu(), other[k].cpu()) for k in mine)
            assert all(torch.equal(value.cpu(), model.state_dict()[key].cpu()) for key, value in values.items())


def main() -> None:
    hvd.init()
    checks = [value for name, value in globals().items() if name.startswith("check_")]
    for run in checks:
        run()
        hvd.barrier()
    print("checked", len(checks), "rank", hvd.rank(), "of", hvd.size(), flush=True)
    hvd.shutdown()


if __name__ == "__main__":
    no_compiler.leave_out()
    main()
