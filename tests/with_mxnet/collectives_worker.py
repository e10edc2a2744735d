"""Every collective of farandole.mxnet against numpy. Prints what it has checked."""

from __future__ import annotations

import os
import zlib
from typing import Any

import mxnet as mx
import numpy as np
import random_calls
from mxnet import nd

import farandole.mxnet as hvd

FLOATS = ["float16", "float32", "float64"]
INTEGERS = ["int8", "uint8", "int32", "int64"]
SHAPES = [(1,), (5,), (3, 4), (2, 3, 4)]
OPS = {"Sum": hvd.Sum, "Average": hvd.Average, "Min": hvd.Min, "Max": hvd.Max, "Product": hvd.Product}
REDUCED = {"Sum": np.sum, "Average": np.mean, "Min": np.min, "Max": np.max, "Product": np.prod}


def values(rank: int, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """What `rank` gives: small whole numbers, so that every order of summation is exact."""
    random = np.random.default_rng([rank, zlib.crc32(f"{shape} {dtype}".encode())])
    return random.integers(0, 4, shape).astype(dtype)


def everyone(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    return np.stack([values(rank, shape, dtype) for rank in range(hvd.size())])


def mine(shape: tuple[int, ...], dtype: str) -> nd.NDArray:
    return nd.array(values(hvd.rank(), shape, dtype), dtype=dtype)


def same(got: nd.NDArray, wanted: np.ndarray, what: object) -> None:
    assert isinstance(got, nd.NDArray), what
    assert got.shape == wanted.shape and got.dtype == wanted.dtype, (what, got.shape, wanted.shape, got.dtype)
    assert np.array_equal(got.asnumpy(), wanted), (what, got.asnumpy(), wanted)


def raises(kind: type[Exception], text: str, function: object, *args: object, **kwargs: object) -> None:
    try:
        result = function(*args, **kwargs)
        if isinstance(result, nd.NDArray):
            result.asnumpy()
    except kind as error:
        assert text in str(error), error
        return
    raise AssertionError(f"no {kind.__name__}: {text}")


def case_allreduce() -> None:
    for name, op in OPS.items():
        # Thirds are not exact.
        types = FLOATS if name == "Average" else FLOATS + INTEGERS
        factor = 3 if name == "Average" and hvd.size() == 3 else 1
        for dtype in types:
            for shape in SHAPES:
                every = factor * everyone(shape, dtype).astype(np.float64)
                wanted = REDUCED[name](every, axis=0).astype(dtype)
                given = mine(shape, dtype) * factor
                before = given.asnumpy()
                same(hvd.allreduce(given, op=op, name="x"), wanted, (name, dtype, shape))
                assert np.array_equal(given.asnumpy(), before), "the argument stays"
                result = hvd.allreduce_(given, op=op, name="y")
                assert result is given
                same(given, wanted, (name, dtype, shape, "in place"))


def case_forty_at_a_time_in_any_order() -> None:
    """The engine runs them when it likes, and ranks call them in another order."""
    arrays = [mine((7,), "float32") * (i + 1) for i in range(40)]
    order = range(40) if hvd.rank() % 2 == 0 else range(39, -1, -1)
    for i in order:
        hvd.allreduce_(arrays[i], op=hvd.Sum, name=f"t{i}", priority=-i)
    nd.waitall()
    for i, array in enumerate(arrays):
        same(array, everyone((7,), "float32").sum(0) * np.float32(i + 1), i)


def case_without_names_in_the_order_of_calls() -> None:
    first, second = hvd.allreduce(mine((3,), "float32"), op=hvd.Sum), hvd.allreduce(mine((2, 2), "float64"), op=hvd.Sum)
    same(second, everyone((2, 2), "float64").sum(0), "second")
    same(first, everyone((3,), "float32").sum(0), "first")


def case_results_that_nobody_keeps() -> None:
    total = sum(hvd.allreduce(mine((1000, 10), "float32"), op=hvd.Sum, name=f"lost{i}").sum() for i in range(20))
    assert total.asscalar() == 20 * everyone((1000, 10), "float32").sum()


def case_factors() -> None:
    got = hvd.allreduce(mine((4,), "float32"), op=hvd.Sum, prescale_factor=2.0, postscale_factor=0.5, name="f")
    same(got, everyone((4,), "float32").sum(0), "factors")
    same(hvd.allreduce(mine((4,), "float32"), average=False), everyone((4,), "float32").sum(0), "average=False")


def case_arrays_in_blocks_of_onednn() -> None:
    """As a convolution leaves them, and the gradient of its input."""
    net = mx.gluon.nn.Conv2D(64, 3, in_channels=64)
    net.initialize(mx.init.One())
    x = nd.ones((8, 64, 16, 16))
    x.attach_grad()
    with mx.autograd.record():
        y = net(x)
    y.backward()
    nd.waitall()
    wanted = y.copy().asnumpy()
    same(hvd.allreduce(y, name="blocks"), wanted, "result of a convolution")
    wanted = x.grad.copy().asnumpy()
    hvd.allreduce_(x.grad, name="blocks")
    same(x.grad, wanted, "gradient of an input")


def case_one_array_twice_and_views() -> None:
    array = nd.array(np.arange(8, dtype="float32"))
    hvd.grouped_allreduce_([array[0:4], array[4:8]], op=hvd.Sum, name="views")
    same(array, np.arange(8, dtype="float32") * hvd.size(), "views")
    hvd.grouped_allreduce_([array, array], name="twice")
    same(array, np.arange(8, dtype="float32") * hvd.size(), "twice")


def case_two_networks_at_once() -> None:
    for _ in range(2):
        first, second = ({str(i): nd.ones((50,)) * (n + hvd.rank()) for i in range(30)} for n in (0, 10))
        hvd.broadcast_parameters(first)
        hvd.broadcast_parameters(second)
        assert all((each.asnumpy() == 0).all() for each in first.values())
        assert all((each.asnumpy() == 10).all() for each in second.values())


def case_groups() -> None:
    arrays = [mine(shape, dtype) for dtype in ("float32", "int64") for shape in SHAPES]
    wanted = [everyone(shape, dtype).sum(0, dtype=dtype) for dtype in ("float32", "int64") for shape in SHAPES]
    for got, each in zip(hvd.grouped_allreduce(arrays, op=hvd.Sum, name="g"), wanted):
        same(got, each, "group")
    hvd.grouped_allreduce_(arrays, op=hvd.Sum, name="h")
    for got, each in zip(arrays, wanted):
        same(got, each, "group in place")
    assert hvd.grouped_allreduce([]) == []


def case_allgather() -> None:
    for dtype in FLOATS + INTEGERS:
        same(hvd.allgather(mine((2, 3), dtype)), np.concatenate(everyone((2, 3), dtype)), dtype)
    rows = [values(rank, (rank + 1, 2), "float32") for rank in range(hvd.size())]
    given = nd.array(rows[hvd.rank()])
    same(hvd.allgather(given, name="uneven"), np.concatenate(rows), "uneven rows")
    one, two = hvd.grouped_allgather([given, given * 2])
    same(one, np.concatenate(rows), "group")
    same(two, np.concatenate(rows) * 2, "group")


def case_broadcast() -> None:
    for root in range(hvd.size()):
        for dtype in FLOATS + INTEGERS:
            given = mine((2, 3), dtype)
            same(hvd.broadcast(given, root, name="b"), values(root, (2, 3), dtype), dtype)
            same(given, values(hvd.rank(), (2, 3), dtype), "the argument stays")
            assert hvd.broadcast_(given, root) is given
            same(given, values(root, (2, 3), dtype), "in place")


def case_alltoall() -> None:
    size, rank = hvd.size(), hvd.rank()
    got = hvd.alltoall(mine((2 * size, 3), "float32"))
    same(got, np.concatenate([each[2 * rank : 2 * rank + 2] for each in everyone((2 * size, 3), "float32")]), "even")
    splits = [[(sender + to) % 3 + 1 for to in range(size)] for sender in range(size)]
    sent = [values(sender, (sum(splits[sender]), 2), "float32") for sender in range(size)]
    starts = [sum(splits[sender][:rank]) for sender in range(size)]
    wanted = np.concatenate([sent[s][starts[s] : starts[s] + splits[s][rank]] for s in range(size)])
    for given in (splits[rank], nd.array(splits[rank], dtype="int32")):
        got, counts = hvd.alltoall(nd.array(sent[rank]), given, name="splits")
        same(got, wanted, "splits")
        assert counts.asnumpy().tolist() == [splits[sender][rank] for sender in range(size)]


def case_reducescatter() -> None:
    for rows in (5, 2 * hvd.size()):
        least, more = divmod(rows, hvd.size())
        begin = hvd.rank() * least + min(hvd.rank(), more)
        own = slice(begin, begin + least + (hvd.rank() < more))
        same(
            hvd.reducescatter(mine((rows, 2), "float32"), op=hvd.Sum), everyone((rows, 2), "float32").sum(0)[own], rows
        )
        pair = hvd.grouped_reducescatter([mine((rows, 2), "float64")] * 2, op=hvd.Sum)
        same(pair[1], everyone((rows, 2), "float64").sum(0)[own], "group")


def case_objects() -> None:
    assert hvd.broadcast_object({"rank": hvd.rank()}, hvd.size() - 1) == {"rank": hvd.size() - 1}
    assert hvd.allgather_object(hvd.rank()) == list(range(hvd.size()))


def case_process_sets() -> None:
    if hvd.size() < 3:
        return
    some = hvd.add_process_set([0, 2])
    if hvd.rank() in (0, 2):
        got = hvd.allreduce(mine((3,), "float32"), op=hvd.Sum, process_set=some)
        same(got, values(0, (3,), "float32") + values(2, (3,), "float32"), "set")
    hvd.remove_process_set(some)
    raises(ValueError, "not registered", hvd.allreduce, mine((3,), "float32"), process_set=some)


def case_errors() -> None:
    x = mine((4,), "float32")
    raises(ValueError, "takes NDArrays", hvd.allreduce, np.ones(3))
    raises(ValueError, "op must be", hvd.allreduce, x, op=17)
    raises(ValueError, "no Adasum", hvd.allreduce, x, op=2)
    raises(ValueError, "name must be a str", hvd.allreduce, x, name=3)
    raises(ValueError, "root_rank must be an int", hvd.broadcast, x, "a")
    if hvd.size() == 1:
        return
    kind = hvd.TensorMismatchError if os.environ.get("MXNET_ENGINE_TYPE") == "NaiveEngine" else mx.base.MXNetError
    raises(kind, "Mismatched", hvd.allreduce, nd.ones((2 + hvd.rank(),)), name="shapes")
    same(hvd.allreduce(nd.ones((2,)), name="afterwards"), np.ones(2, np.float32), "afterwards")


class MXNet(random_calls.Front):
    """Also in place. Its arrays have at least one element."""

    hvd = hvd
    dtypes = FLOATS + INTEGERS
    forms = ["as given", "in place"]
    may_be_empty = False

    def tensor(self, value: np.ndarray, dtype: str, layout: str) -> nd.NDArray:
        return nd.array(value, dtype=dtype)

    def value(self, tensor: nd.NDArray) -> tuple[str, np.ndarray]:
        value = tensor.asnumpy()
        return value.dtype.name, value.astype(np.float64 if value.dtype.kind == "f" else np.int64)

    def run(self, call: random_calls.Call, given_tensor: Any, **arguments: Any) -> Any:
        mark = "_" if call.form == "in place" and hasattr(hvd, f"{call.operation}_") else ""
        given = arguments.pop("splits", None)
        if given is not None:
            arguments["splits"] = nd.array(given, dtype="int32")
        return getattr(hvd, call.operation + mark)(given_tensor, **arguments)


def case_random_calls() -> None:
    random_calls.check_all(MXNet(), 20)


def case_parameters_that_come_late() -> None:
    """gluon knows shapes with the first batch."""
    mx.random.seed(hvd.rank())
    net = mx.gluon.nn.HybridSequential()
    net.add(mx.gluon.nn.Dense(3, activation="relu", in_units=4), mx.gluon.nn.Dense(2))
    net.initialize(mx.init.Xavier())
    hvd.broadcast_parameters(net.collect_params(), prefix="late.")
    net(nd.ones((1, 4)))
    own = [param.data().asnumpy() for param in net.collect_params().values()]
    for every in zip(*hvd.allgather_object(own)):
        assert all(np.array_equal(each, every[0]) for each in every)
    loose = {"a": nd.ones((2,)) * hvd.rank(), "b": nd.ones((3,)) * hvd.rank()}
    hvd.broadcast_parameters(loose, hvd.size() - 1)
    assert (loose["b"].asnumpy() == hvd.size() - 1).all()
    raises(ValueError, "by name", hvd.broadcast_parameters, [nd.ones((1,))])


hvd.init()
for case in [name for name in dir() if name.startswith("case_")]:
    globals()[case]()
    print("passed", case, flush=True)
# What the engine has not run yet is not lost.
slow = [hvd.allreduce(nd.dot(nd.ones((300, 300)), nd.ones((300, 300))), name=f"last{i}") for i in range(20)]
hvd.shutdown()
assert all((each.asnumpy() == 300).all() for each in slow)
