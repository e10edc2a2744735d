"""Every collective of farandole.tensorflow against numpy, eager and in a tf.function. Prints what it has checked."""

from __future__ import annotations

import os
import time
import zlib
from collections.abc import Callable
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import random_calls
import tensorflow as tf

import farandole.tensorflow as hvd

FLOATS = [tf.float16, tf.bfloat16, tf.float32, tf.float64]
INTEGERS = [tf.uint8, tf.int8, tf.uint16, tf.int16, tf.int32, tf.int64]
SHAPES = [(), (1,), (5,), (3, 4), (0, 3), (2, 0), (2, 3, 4)]
OPS = {"Sum": hvd.Sum, "Average": hvd.Average, "Min": hvd.Min, "Max": hvd.Max, "Product": hvd.Product}
REDUCED = {"Sum": np.sum, "Average": np.mean, "Min": np.min, "Max": np.max, "Product": np.prod}


def values(rank: int, shape: tuple[int, ...], dtype: tf.DType, seed: str = "") -> np.ndarray:
    """What `rank` gives: small whole numbers, so that every order of summation is exact."""
    random = np.random.default_rng([rank, zlib.crc32(f"{shape} {dtype.name} {seed}".encode())])
    return random.integers(0, 4, shape).astype(dtype.as_numpy_dtype)


def everyone(shape: tuple[int, ...], dtype: tf.DType, seed: str = "") -> list[np.ndarray]:
    return [values(rank, shape, dtype, seed) for rank in range(hvd.size())]


def mine(shape: tuple[int, ...], dtype: tf.DType, seed: str = "") -> tf.Tensor:
    return tf.constant(values(hvd.rank(), shape, dtype, seed), dtype)


def same(got: tf.Tensor, wanted: np.ndarray, what: object) -> None:
    found, wanted = got.numpy(), np.asarray(wanted)
    assert found.shape == wanted.shape and found.dtype == wanted.dtype, (what, found.shape, wanted.shape, found.dtype)
    assert np.array_equal(found, wanted), (what, found, wanted)


WAYS: dict[str, Callable[[Any], Any]] = {"eager": lambda function: function, "graph": tf.function}


def check(function: Callable[[Any], Any], given: list[tf.Tensor], wanted: list[np.ndarray], what: object) -> None:
    """Of each tensor in eager execution, and of all, each by itself, in one graph."""
    assert len(given) == len(wanted)
    for got, each in zip(map(function, given), wanted):
        same(got, each, what)
    together = tf.function(lambda tensors: [function(tensor) for tensor in tensors])(given)
    assert len(together) == len(wanted)
    for got, each in zip(together, wanted):
        same(got, each, what)


def case_allreduce() -> None:
    for name, op in OPS.items():
        # Thirds are not exact.
        types = FLOATS if name == "Average" else FLOATS + INTEGERS
        factor = 3 if name == "Average" and hvd.size() == 3 else 1
        places = [(shape, dtype) for dtype in types for shape in SHAPES]
        given = [tf.cast(factor, dtype) * mine(shape, dtype) for shape, dtype in places]
        every = [factor * np.stack(everyone(*place)).astype(np.float64) for place in places]
        wanted = [REDUCED[name](each, axis=0).astype(dtype.as_numpy_dtype) for each, (_, dtype) in zip(every, places)]
        check(lambda x, op=op: hvd.allreduce(x, op=op), given, wanted, name)


def case_groups_and_factors() -> None:
    places = [((3,), tf.float32), ((2, 2), tf.int32), ((), tf.float64)]
    for wrap in WAYS.values():
        function = wrap(lambda t: hvd.grouped_allreduce(t, op=hvd.Sum, prescale_factor=2.0, name="group"))
        for got, place in zip(function([mine(*place) for place in places]), places):
            same(got, 2 * np.sum(everyone(*place), axis=0, dtype=place[1].as_numpy_dtype), place)
        function = wrap(lambda t: hvd.grouped_allgather(t, name="group"))
        for got, place in zip(function([mine(*place) for place in places[:2]]), places):
            same(got, np.concatenate(everyone(*place)), place)
        got = wrap(lambda x: hvd.allreduce(x, op=hvd.Sum, compression=hvd.Compression.fp16))(mine((8,), tf.float32))
        same(got, np.sum(everyone((8,), tf.float32), axis=0), "fp16")


def case_allgather() -> None:
    types = [*FLOATS, *INTEGERS, tf.bool, tf.uint32, tf.uint64, tf.complex64]
    places = [(shape, dtype) for dtype in types for shape in [(1,), (3, 2), (0, 2), (2, 0)]]
    check(hvd.allgather, [mine(*place) for place in places], [np.concatenate(everyone(*p)) for p in places], "rows")
    rows = [values(rank, (rank, 2), tf.float32) for rank in range(hvd.size())]
    check(hvd.allgather, [tf.constant(rows[hvd.rank()])], [np.concatenate(rows)], "uneven rows")


def case_broadcast() -> None:
    places = [((2, 3), dtype) for dtype in [*FLOATS, *INTEGERS, tf.bool, tf.uint32]]
    for root in range(hvd.size()):
        wanted = [values(root, *place) for place in places]
        check(lambda x, root=root: hvd.broadcast(x, root), [mine(*place) for place in places], wanted, root)
    variables = [tf.Variable(mine((3,), tf.float32)), tf.Variable(mine((), tf.int64))]
    for give in (hvd.broadcast_variables, tf.function(hvd.broadcast_), hvd.broadcast_):
        variables[0].assign(mine((3,), tf.float32, "again"))
        give(variables, root_rank=hvd.size() - 1)
        same(variables[0], values(hvd.size() - 1, (3,), tf.float32, "again"), "variables")
        same(variables[1], values(hvd.size() - 1, (), tf.int64), "variables")


def case_alltoall() -> None:
    size, rank = hvd.size(), hvd.rank()
    places = [((2 * size, 3), dtype) for dtype in [*FLOATS, *INTEGERS, tf.bool]]
    wanted = [np.concatenate([each[2 * rank : 2 * rank + 2] for each in everyone(*place)]) for place in places]
    check(hvd.alltoall, [mine(*place) for place in places], wanted, "alltoall")
    splits = [[(sender + to) % 3 for to in range(size)] for sender in range(size)]
    sent = [values(sender, (sum(splits[sender]), 2), tf.float32) for sender in range(size)]
    starts = [sum(splits[sender][:rank]) for sender in range(size)]
    for wrap in WAYS.values():
        got, counts = wrap(lambda x: hvd.alltoall(x, splits[rank]))(tf.constant(sent[rank]))
        same(got, np.concatenate([sent[s][starts[s] : starts[s] + splits[s][rank]] for s in range(size)]), "splits")
        assert counts.dtype == tf.int32 and counts.numpy().tolist() == [splits[sender][rank] for sender in range(size)]


def own_rows(rows: int) -> slice:
    least, more = divmod(rows, hvd.size())
    begin = hvd.rank() * least + min(hvd.rank(), more)
    return slice(begin, begin + least + (hvd.rank() < more))


def case_reducescatter() -> None:
    places = [((rows, 2), dtype) for dtype in FLOATS + INTEGERS for rows in (1, 5, 2 * hvd.size())]
    wanted = [
        np.sum(everyone(shape, dtype), axis=0, dtype=dtype.as_numpy_dtype)[own_rows(shape[0])]
        for shape, dtype in places
    ]
    check(lambda x: hvd.reducescatter(x, op=hvd.Sum), [mine(*place) for place in places], wanted, "reducescatter")


def case_grouped_reducescatter() -> None:
    """With factors, means and gradients; the ranks' sums of a group go together."""
    size, rank = hvd.size(), hvd.rank()
    places = [((5, 2), tf.float32), ((2 * size,), tf.float64), ((1, 3), tf.float32)]
    given = [mine(*place) for place in places]
    sums = [np.sum(everyone(*place), axis=0) for place in places]
    own = [own_rows(place[0][0]) for place in places]
    options: list[tuple[dict[str, Any], float]] = [
        ({"op": hvd.Sum}, 1.0),
        ({}, 1.0 / size),
        ({"op": hvd.Sum, "prescale_factor": 2.0, "postscale_factor": 0.25}, 0.5),
        ({"op": hvd.Sum, "compression": hvd.Compression.fp16}, 1.0),
    ]
    for wrap in WAYS.values():
        for option, factor in options:
            got = wrap(lambda t, option=option: hvd.grouped_reducescatter(t, **option))(given)
            for each, total, rows, place in zip(got, sums, own, places):
                assert each.dtype == place[1] and np.allclose(each, total[rows] * factor), (option, place)

        @wrap
        def gradients(tensors: list[tf.Tensor]) -> Any:
            with tf.GradientTape() as tape:
                tape.watch(tensors)
                results = hvd.grouped_reducescatter(tensors, op=hvd.Sum, prescale_factor=0.5)
                loss = sum(tf.reduce_sum(tf.cast(each, tf.float64)) for each in results) * (rank + 1.0)
            return tape.gradient(loss, tensors)

        for gradient, (shape, _) in zip(gradients(given), places):
            owners = np.concatenate([[r + 1.0] * (shape[0] // size + (r < shape[0] % size)) for r in range(size)])
            assert np.allclose(gradient, 0.5 * size * owners.reshape(-1, *[1] * (len(shape) - 1)))
    assert hvd.grouped_reducescatter([]) == []


def gradient_of(function: Callable[[tf.Tensor], tf.Tensor], x: tf.Tensor) -> tf.Tensor:
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = function(x)
    return tape.gradient(y, x)


def case_gradients() -> None:
    """As Horovod has them."""
    size, rank = hvd.size(), hvd.rank()
    x = mine((6, 2), tf.float64)
    weights = tf.constant(np.arange(12.0).reshape(6, 2) + 1) * (rank + 1)
    first = np.arange(12.0).reshape(6, 2) + 1
    mean = first * (size + 1) / 2
    rows = [size * 2, 2]
    for wrap in WAYS.values():
        for op, factor in ((hvd.Sum, size), (hvd.Average, 1)):
            got = wrap(lambda x, op=op: gradient_of(lambda x: tf.reduce_sum(hvd.allreduce(x, op=op) * weights), x))(x)
            assert np.allclose(got, mean * factor), op
        got = wrap(lambda x: gradient_of(lambda x: tf.reduce_sum(hvd.broadcast(x, size - 1) * weights), x))(x)
        assert np.allclose(got, mean if rank == size - 1 else 0 * mean)
        got = wrap(lambda x: gradient_of(lambda x: tf.reduce_sum(hvd.allgather(x) ** 2), x))(x)
        assert np.allclose(got, 2 * x)
        y = mine((2 * size,), tf.float64, "y")
        got = wrap(lambda y: gradient_of(lambda y: tf.reduce_sum(hvd.alltoall(y) * (rank + 1.0)), y))(y)
        assert np.allclose(got, np.repeat(np.arange(size) + 1.0, 2))
        z = mine((rows[0], 2), tf.float64)
        for op, factor in ((hvd.Sum, size), (hvd.Average, 1)):
            got = wrap(
                lambda z, op=op: gradient_of(lambda z: tf.reduce_sum(hvd.reducescatter(z, op=op) * (rank + 1.0)), z)
            )(z)
            assert np.allclose(got, np.repeat(np.arange(size) + 1.0, 2)[:, None] * np.ones((1, 2)) * factor), op


LOCAL_TABLE = tf.Variable(tf.ones([4, 2]))


def gradient_of_a_local_table() -> Any:
    with hvd.DistributedGradientTape(tf.GradientTape()) as tape:
        loss = tf.reduce_sum(tf.gather(LOCAL_TABLE, [1, 2]))
    tape.register_local_source(LOCAL_TABLE)
    return tape.gradient(loss, LOCAL_TABLE)


def case_tape() -> None:
    size = hvd.size()
    table = tf.Variable(tf.ones([5, 2]))
    weight = tf.Variable([1.0, 2.0])
    unused = tf.Variable([1.0])
    own = tf.Variable([3.0])

    def gradients(**options: Any) -> list[Any]:
        with hvd.DistributedGradientTape(tf.GradientTape(), **options) as tape:
            picked = tf.gather(table, [hvd.rank() % 5, 4])
            loss = tf.reduce_sum(picked * weight) * (hvd.rank() + 1.0) + tf.reduce_sum(own)
        tape.register_local_source(own)
        return tape.gradient(loss, [table, weight, unused, own])

    factors = np.arange(size) + 1.0
    wanted = np.zeros((5, 2))
    for rank in range(size):
        wanted[rank % 5] += [factors[rank], 2 * factors[rank]]
        wanted[4] += [factors[rank], 2 * factors[rank]]
    for wrap in WAYS.values():
        local = wrap(gradient_of_a_local_table)()
        assert isinstance(local, tf.IndexedSlices) and np.allclose(local.values, 1 / size)
        for sparse_as_dense in (False, True):
            got = wrap(lambda s=sparse_as_dense: gradients(sparse_as_dense=s)[:2])()
            assert isinstance(got[0], tf.IndexedSlices) != sparse_as_dense
            assert np.allclose(tf.convert_to_tensor(got[0]), wanted / size)
            assert np.allclose(got[1], [2 * factors.mean()] * 2)
        assert gradients()[2] is None
        assert np.allclose(wrap(lambda: gradients(gradient_predivide_factor=2.0)[3])(), [1 / size])


def case_names_of_one_graph_differ() -> None:
    """Collectives that look alike are under way together, and ranks come to them in another order."""
    one, other = tf.Variable([1.0]), tf.Variable([1.0])
    table, second = tf.Variable(tf.ones([3, 1])), tf.Variable(tf.ones([3, 1]))

    def slow(x: tf.Tensor, when: int) -> tf.Tensor:
        pause = 0.2 if hvd.rank() % 2 == when else 0.0
        return tf.py_function(lambda value: (time.sleep(pause), value)[1], [x], tf.float32)

    @tf.function
    def function() -> list[Any]:
        results = []
        for when, variable, rows in ((0, one, table), (1, other, second)):
            with hvd.DistributedGradientTape(tf.GradientTape()) as tape:
                factor = slow(tf.constant(10.0**when), when)
                factor.set_shape([])
                loss = tf.reduce_sum(variable) * factor + tf.reduce_sum(tf.gather(rows, [0])) * factor
            results += tape.gradient(loss, [variable, rows])
        x = tf.ones([2])
        return [*results, hvd.allreduce(x, op=hvd.Sum), hvd.allreduce(x, op=hvd.Max)]

    got = function()
    assert [float(got[0][0]), float(got[2][0])] == [1.0, 10.0]
    assert float(tf.convert_to_tensor(got[1])[0, 0]) == 1.0 and float(tf.convert_to_tensor(got[3])[0, 0]) == 10.0
    assert [float(got[4][0]), float(got[5][0])] == [hvd.size(), 1.0]
    variables = [tf.Variable([float(hvd.rank())]), tf.Variable([10.0 + hvd.rank()])]

    @tf.function
    def give() -> None:
        for variable in variables:
            hvd.broadcast_variables([variable], 0)

    give()
    assert [float(variable[0]) for variable in variables] == [0.0, 10.0]
    raises(ValueError, "has the model been built", hvd.broadcast_variables, [], 0)


def case_numbers_of_a_graph() -> None:
    function = tf.function(lambda: (hvd.size_op(), hvd.rank_op(), hvd.local_size_op(), hvd.local_rank_op()))
    assert [int(each) for each in function()] == [hvd.size(), hvd.rank(), hvd.local_size(), hvd.local_rank()]
    assert int(hvd.process_set_included_op()) == 1


def case_many_at_a_time_in_any_order() -> None:
    """One inter-op thread would do: none waits in one."""
    order = np.random.default_rng(hvd.rank()).permutation(40)

    @tf.function
    def function(x: tf.Tensor) -> list[tf.Tensor]:
        results = {i: hvd.allreduce(x + float(i), op=hvd.Sum, name=f"t{i}") for i in order}
        return [results[i] for i in range(40)]

    for got, i in zip(function(mine((3,), tf.float32)), range(40)):
        same(got, np.sum(everyone((3,), tf.float32), axis=0) + i * hvd.size(), i)

    loop = tf.function(lambda x: tf.while_loop(lambda i, _: i < 5, lambda i, x: (i + 1, hvd.allreduce(x)), [0, x])[1])
    assert np.allclose(loop(mine((3,), tf.float32)), np.mean(everyone((3,), tf.float32), axis=0))


def case_constants_are_not_folded() -> None:
    function = tf.function(lambda: hvd.allreduce(tf.constant([1.0]), op=hvd.Sum, name="constant"))
    assert [float(function()[0]) for _ in range(3)] == [hvd.size()] * 3
    if hvd.size() == 1:
        return
    hvd.allreduce(tf.ones([1]), name="meet")
    begin = time.monotonic()
    if hvd.rank() == hvd.size() - 1:
        time.sleep(0.5)
    function()
    assert time.monotonic() - begin > 0.4


def case_graphs_of_version_1() -> None:
    with tf.Graph().as_default():
        x = tf.compat.v1.placeholder(tf.float32, [None])
        reduced, gathered = hvd.allreduce(x, op=hvd.Sum), hvd.allgather(x)
        variable = tf.compat.v1.get_variable("v", initializer=float(hvd.rank()))
        give = hvd.broadcast_variables([variable], 0)
        with tf.compat.v1.Session() as session:
            session.run(tf.compat.v1.global_variables_initializer())
            session.run(give)
            assert session.run(variable) == 0.0
            whole = tf.compat.v1.placeholder(tf.int32, [])
            pair = hvd.grouped_allreduce([x, whole], op=hvd.Sum, name="pair")
            (derived,) = tf.gradients(pair[0], [x])
            feed = {x: np.ones(2, np.float32), whole: 1}
            assert session.run(derived, feed).tolist() == [hvd.size()] * 2
            got = session.run([reduced, gathered], {x: values(hvd.rank(), (4,), tf.float32)})
    assert np.array_equal(got[0], np.sum(everyone((4,), tf.float32), axis=0))
    assert np.array_equal(got[1], np.concatenate(everyone((4,), tf.float32)))


def case_objects_and_sets() -> None:
    assert hvd.broadcast_object({"rank": hvd.rank()}, 0) == {"rank": 0}
    assert hvd.broadcast_object_fn(0)(hvd.rank()) == 0
    assert hvd.allgather_object(hvd.rank()) == list(range(hvd.size()))
    if hvd.size() < 3:
        return
    some = hvd.add_process_set([0, 2])
    if hvd.rank() in (0, 2):
        for wrap in WAYS.values():
            got = wrap(lambda x: hvd.allreduce(x, op=hvd.Sum, process_set=some))(mine((3,), tf.float32))
            same(got, values(0, (3,), tf.float32) + values(2, (3,), tf.float32), "set")
    old = tf.function(lambda x: hvd.allreduce(x, op=hvd.Sum, process_set=some))
    if hvd.rank() in (0, 2):
        old(mine((3,), tf.float32))
    hvd.remove_process_set(some)
    again = hvd.add_process_set([0, 1])
    if hvd.rank() in (0, 2):
        raises(tf.errors.InvalidArgumentError, "process set that is no more", old, mine((3,), tf.float32))
    hvd.remove_process_set(again)


class TensorFlow(random_calls.Front):
    """Eager and in functions."""

    hvd = hvd
    dtypes = [dtype.name for dtype in FLOATS + INTEGERS]
    forms = list(WAYS)

    def tensor(self, value: np.ndarray, dtype: str, layout: str) -> tf.Tensor:
        return tf.cast(tf.constant(value), dtype)

    def value(self, tensor: tf.Tensor) -> tuple[str, np.ndarray]:
        return tensor.dtype.name, tf.cast(tensor, tf.float64 if tensor.dtype.is_floating else tf.int64).numpy()

    def run(self, call: random_calls.Call, given_tensor: Any, **arguments: Any) -> Any:
        function = getattr(hvd, call.operation)
        return WAYS[call.form](lambda given: function(given, **arguments))(given_tensor)


def case_random_calls() -> None:
    random_calls.check_all(TensorFlow(), 20)


def raises(kind: type[Exception], text: str, function: Callable[..., Any], *args: Any) -> None:
    try:
        function(*args)
    except kind as error:
        assert text in str(error), error
        return
    raise AssertionError(f"no {kind.__name__}: {text}")


def case_errors() -> None:
    x = mine((4,), tf.float32)
    for wrap in WAYS.values():
        raises(tf.errors.InvalidArgumentError, "cast it", wrap(hvd.allreduce), tf.cast(x, tf.complex64))
        raises(tf.errors.InvalidArgumentError, "farandole error -1", wrap(hvd.allgather), x[0])
        raises(tf.errors.InvalidArgumentError, "root rank 77", wrap(lambda x: hvd.broadcast(x, 77)), x)
    raises(ValueError, "name must be a str", lambda: hvd.allreduce(x, name=3))
    raises(NotImplementedError, "sparse_as_dense", lambda: hvd.allreduce(tf.IndexedSlices(x, x), op=hvd.Max))
    if hvd.size() == 1:
        return
    uneven = tf.ones((hvd.rank() + 1, 2))
    for wrap in WAYS.values():
        raises(tf.errors.FailedPreconditionError, "farandole error -4", wrap(lambda x: hvd.allreduce(x)), uneven)


def main() -> None:
    hvd.init()
    for name, case in list(globals().items()):
        if name.startswith("case_"):
            case()
            os.write(1, b"passed %s\n" % name.encode())
    hvd.shutdown()


if __name__ == "__main__":
    main()
