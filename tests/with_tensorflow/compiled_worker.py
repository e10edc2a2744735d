"""Collectives in functions with jit_compile=True against numpy. Prints what it has checked."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import tensorflow as tf
from collectives_worker import everyone, mine, own_rows, raises, same, values

import farandole.tensorflow as hvd
from farandole.tensorflow import plugin


def compiled(function: Callable[..., Any]) -> Any:
    return tf.function(function, jit_compile=True)


def case_collectives() -> None:
    size, rank = hvd.size(), hvd.rank()
    for dtype in (tf.float16, tf.bfloat16, tf.float32, tf.float64, tf.int32, tf.uint8, tf.int64):
        for shape in ((), (3,), (size, 2), (0, 2)):
            same(
                compiled(lambda x: hvd.allreduce(x, op=hvd.Sum))(mine(shape, dtype)),
                np.sum(everyone(shape, dtype), axis=0, dtype=dtype.as_numpy_dtype),
                (shape, dtype),
            )
    for dtype in (tf.float32, tf.bool, tf.uint32, tf.complex64):
        place = ((2 * size, 2), dtype)
        every = everyone(*place)
        function = compiled(lambda x: (hvd.broadcast(x, size - 1), hvd.allgather(x), hvd.alltoall(x)))
        got = function(mine(*place))
        same(got[0], values(size - 1, *place), dtype)
        same(got[1], np.concatenate(every), dtype)
        same(got[2], np.concatenate([each[2 * rank : 2 * rank + 2] for each in every]), dtype)
    place = ((5, 2), tf.float32)
    got = compiled(lambda x: hvd.reducescatter(x, op=hvd.Sum))(mine(*place))
    same(got, np.sum(everyone(*place), axis=0)[own_rows(5)], "reducescatter")
    places = [((3,), tf.float32), ((2, 2), tf.int32)]
    got = compiled(lambda t: hvd.grouped_allreduce(t, op=hvd.Sum, name="group"))([mine(*place) for place in places])
    for each, place in zip(got, places):
        same(each, np.sum(everyone(*place), axis=0, dtype=place[1].as_numpy_dtype), place)
    numbers = compiled(lambda: (hvd.size_op(), hvd.rank_op(), hvd.local_size_op(), hvd.process_set_included_op()))
    assert [int(each) for each in numbers()] == [size, rank, hvd.local_size(), 1]


def case_gradients() -> None:
    """The tape in the function and around it."""
    size, rank = hvd.size(), hvd.rank()
    x = mine((2 * size, 2), tf.float64)
    weights = tf.constant(np.arange(4.0 * size).reshape(2 * size, 2) + 1) * (rank + 1)
    mean = (np.arange(4.0 * size).reshape(2 * size, 2) + 1) * (size + 1) / 2
    functions: list[tuple[Callable[[Any], Any], Any]] = [
        (lambda x: hvd.allreduce(x, op=hvd.Sum) * weights, mean * size),
        (lambda x: hvd.broadcast(x, 0) * weights, mean if rank == 0 else 0 * mean),
        (lambda x: hvd.allgather(x) ** 2, 2 * x),
        (lambda x: hvd.alltoall(x) * (rank + 1.0), np.repeat(np.arange(size) + 1.0, 2)[:, None] * np.ones((1, 2))),
        (
            lambda x: hvd.reducescatter(x, op=hvd.Sum) * (rank + 1.0),
            size * np.repeat(np.arange(size) + 1.0, 2)[:, None] * np.ones((1, 2)),
        ),
    ]
    for number, (function, wanted) in enumerate(functions):

        def inside(x: Any, function: Any = function) -> Any:
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = tf.reduce_sum(function(x))
            return tape.gradient(y, x)

        assert np.allclose(compiled(inside)(x), wanted), number
        outer = compiled(function)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.reduce_sum(outer(x))
        assert np.allclose(tape.gradient(y, x), wanted), number


def case_training() -> None:
    """A step with the tape, batch normalisation and an update of variables, as without XLA."""
    found = []
    for wrap in (tf.function, compiled):
        random = np.random.default_rng(1)
        layer = hvd.SyncBatchNormalization()
        layer.build((None, 3))
        weight = tf.Variable(random.standard_normal((4, 3)).astype(np.float32))
        x = tf.constant(np.random.default_rng(hvd.rank()).standard_normal((5, 4)).astype(np.float32))

        @wrap
        def step(x: Any, weight: Any = weight, layer: Any = layer) -> Any:
            with hvd.DistributedGradientTape(tf.GradientTape()) as tape:
                loss = tf.reduce_mean(tf.tanh(layer(x @ weight, training=True)) ** 3)
            (gradient,) = tape.gradient(loss, [weight])
            weight.assign_sub(0.5 * gradient)
            return loss

        losses = [float(step(x)) for _ in range(5)]
        assert hvd.broadcast_object(weight.numpy().tobytes(), 0) == weight.numpy().tobytes()
        found.append((losses, weight.numpy(), layer.moving_variance.numpy()))
    for plain, other in zip(*found):
        assert np.allclose(plain, other, rtol=1e-4, atol=1e-5), found


def case_loops_and_branches() -> None:
    x = mine((3,), tf.float32)
    mean = np.mean(everyone((3,), tf.float32), axis=0)

    @compiled
    def loop(x: Any) -> Any:
        first = hvd.allreduce(x, op=hvd.Max, name="before")
        _, last = tf.while_loop(lambda i, _: i < 5, lambda i, y: (i + 1, hvd.allreduce(y, name="in")), [0, x])
        return first, last, hvd.allreduce(last, op=hvd.Sum, name="after")

    first, last, after = loop(x)
    same(first, np.max(everyone((3,), tf.float32), axis=0), "before")
    assert np.allclose(last, mean) and np.allclose(after, mean * hvd.size())
    branch = compiled(lambda x, yes: tf.cond(yes, lambda: hvd.allreduce(x), lambda: x))
    assert np.allclose(branch(x, tf.constant(True)), mean)
    same(branch(x, tf.constant(False)), x.numpy(), "no branch")


def case_many_in_one_order() -> None:
    """None depends on another one, and XLA may have one thread."""

    def slow(x: Any, index: int) -> Any:
        # More to compute on one rank before some.
        return tf.reduce_sum(tf.linalg.matmul(x, x)) * 0.0 + float(index) if (hvd.rank() + index) % 2 else x[0, 0]

    x = tf.ones([300, 300])
    function = compiled(
        lambda x: [hvd.allreduce(slow(x, i) * 0.0 + float(i), op=hvd.Sum, name=f"t{i}") for i in range(20)]
    )
    for _ in range(5):
        assert [float(each) for each in function(x)] == [i * hvd.size() for i in range(20)]


def case_effects_stay() -> None:
    """A collective whose result nobody uses runs, and that of a constant every time."""
    if hvd.size() == 1:
        return

    @compiled
    def function(x: Any) -> Any:
        hvd.allreduce(tf.constant([1.0]), op=hvd.Sum, name="unused")
        return x

    function(tf.ones([1]))
    hvd.allreduce(tf.ones([1]), name="meet")
    begin = time.monotonic()
    if hvd.rank() == hvd.size() - 1:
        time.sleep(0.5)
    function(tf.ones([1]))
    assert time.monotonic() - begin > 0.4


def case_names_of_a_second_trace() -> None:
    """Ranks trace the function differently often."""
    function = tf.function(lambda x: hvd.allreduce(x, op=hvd.Sum), jit_compile=True)
    if hvd.rank() == 0:
        function.get_concrete_function(tf.TensorSpec([7], tf.float32))
        function.get_concrete_function(tf.TensorSpec([9], tf.float32))
    assert np.allclose(function(tf.ones([3])), hvd.size())


def case_errors() -> None:
    x = mine((4,), tf.float32)
    raises(
        ValueError,
        "all of which XLA",
        tf.function(lambda x: hvd.allreduce(x), jit_compile=True, input_signature=[tf.TensorSpec([None], tf.float32)]),
        x,
    )
    raises(ValueError, "cast them", compiled(lambda x: hvd.allreduce(x)), tf.cast(x, tf.complex64))
    raises(ValueError, "at least one dimension", compiled(hvd.allgather), x[0])
    splits = [4] + [0] * (hvd.size() - 1)
    raises(NotImplementedError, "jit_compile", compiled(lambda x: hvd.alltoall(x, splits)), x)
    if hvd.size() > 1:
        uneven = tf.ones((hvd.rank() + 1, 2))
        raises(tf.errors.OpError, "farandole error -4", compiled(lambda x: hvd.allreduce(x, name="uneven")), uneven)
        # The sum of the ranks' rows is on none of them what it would be if all had as many.
        uneven = tf.ones((2 ** hvd.rank(), 2))
        raises(tf.errors.OpError, "where the function was compiled for", compiled(hvd.allgather), uneven)
    assert np.allclose(compiled(lambda x: hvd.allreduce(x))(tf.ones([2])), 1.0)


def case_a_tensorflow_without_the_registry() -> None:
    class Without:
        @staticmethod
        def farandole_tensorflow_register_xla(target: bytes) -> bytes:
            return b"there is none"

    library, plugin._library, plugin._has_target = plugin._library, Without, False
    try:
        raises(
            NotImplementedError,
            "no collectives in functions with jit_compile=True: there is none",
            compiled(lambda x: hvd.allreduce(x)),
            tf.ones([2]),
        )
    finally:
        plugin._library, plugin._has_target = library, True


def main() -> None:
    hvd.init()
    for name, case in list(globals().items()):
        if name.startswith("case_"):
            case()
            os.write(1, b"passed %s\n" % name.encode())
    hvd.shutdown()


if __name__ == "__main__":
    main()
