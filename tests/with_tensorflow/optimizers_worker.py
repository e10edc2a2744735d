"""Optimizers of TensorFlow 1, eager, in a tf.function and in a session; the tapes' options."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import tensorflow as tf
from collectives_worker import WAYS, raises

import farandole.tensorflow as hvd

v1 = tf.compat.v1
SGD = v1.train.GradientDescentOptimizer


def factors() -> np.ndarray:
    return np.arange(hvd.size()) + 1.0


def combined(op: int) -> float:
    """Of the gradients rank + 1."""
    return factors().sum() if op == hvd.Sum else factors().mean()


def in_a_session(steps: int, optimizer: Callable[[], Any], after: Callable[[Any], None] | None = None) -> list[Any]:
    """Values of (dense, table) after each step with the gradients rank + 1, and the global step."""
    with tf.Graph().as_default():
        dense, table = v1.get_variable("dense", initializer=[1.0, 2.0]), v1.get_variable("t", initializer=tf.ones([4]))
        made = optimizer()
        if after is not None:
            after(dense)
        loss = (tf.reduce_sum(dense) + tf.reduce_sum(tf.gather(table, [hvd.rank() % 4]))) * (hvd.rank() + 1.0)
        global_step = v1.train.get_or_create_global_step()
        train = made.minimize(loss, global_step=global_step)
        results = []
        with v1.Session() as session:
            session.run([v1.global_variables_initializer(), v1.local_variables_initializer()])
            for _ in range(steps):
                session.run(train)
                results.append(session.run([dense, table, global_step]))
    return results


def called(steps: int, optimizer: Callable[[], Any], wrap: Callable[[Any], Any]) -> list[Any]:
    dense, table, global_step = tf.Variable([1.0, 2.0]), tf.Variable(tf.ones([4])), tf.Variable(0, dtype=tf.int64)
    made = optimizer()

    def loss() -> Any:
        return (tf.reduce_sum(dense) + tf.reduce_sum(tf.gather(table, [hvd.rank() % 4]))) * (hvd.rank() + 1.0)

    @wrap
    def step() -> None:
        made.minimize(loss, global_step=global_step, var_list=[dense, table])

    results = []
    for _ in range(steps):
        step()
        results.append([dense.numpy(), table.numpy(), global_step.numpy()])
    return results


EVERYWHERE: dict[str, Callable[[int, Callable[[], Any]], list[Any]]] = {
    "session": in_a_session,
    "eager": lambda steps, optimizer: called(steps, optimizer, lambda function: function),
    "function": lambda steps, optimizer: called(steps, optimizer, tf.function),
}


def wanted(change: float, op: int) -> tuple[np.ndarray, np.ndarray]:
    """dense and table when the gradient of each rank is `change` times what it is in one pass."""
    table = np.ones(4)
    for rank in range(hvd.size()):
        table[rank % 4] -= change * (rank + 1) / (1 if op == hvd.Sum else hvd.size())
    return np.array([1.0, 2.0]) - change * combined(op), table


def close(found: Any, expected: Any, what: object, tolerance: float = 1e-5) -> None:
    for got, each in zip(found, expected):
        assert np.allclose(got, each, atol=tolerance), (what, found, expected)


def case_steps() -> None:
    options: list[dict[str, Any]] = [
        {},
        {"op": hvd.Sum},
        {"sparse_as_dense": True, "gradient_predivide_factor": 2.0},
        {"groups": 2, "sparse_as_dense": True, "compression": hvd.Compression.fp16},
    ]
    for way, run in EVERYWHERE.items():
        for option in options:
            found = run(2, lambda option=option: hvd.DistributedOptimizer(SGD(0.25), **option))
            for step, (dense, table, global_step) in enumerate(found, 1):
                tolerance = 2e-3 if "compression" in option else 1e-5
                close(
                    (dense, table), wanted(0.25 * step, option.get("op", hvd.Average)), (way, option, step), tolerance
                )
                assert global_step == step


def case_several_passes() -> None:
    for way, run in EVERYWHERE.items():
        for average in (False, True):
            found = run(
                5,
                lambda average=average: hvd.DistributedOptimizer(
                    SGD(0.25), backward_passes_per_step=2, average_aggregated_gradients=average, sparse_as_dense=True
                ),
            )
            for number, (dense, table, global_step) in enumerate(found, 1):
                done = number // 2
                change = 0.25 * done * (1 if average else 2)
                close((dense, table), wanted(change, hvd.Average), (way, average, number))
                assert global_step == done, (way, number, global_step)
    raises(
        ValueError,
        "sparse_as_dense",
        called,
        1,
        lambda: hvd.DistributedOptimizer(SGD(1.0), backward_passes_per_step=2),
        lambda function: function,
    )


def case_state_of_the_wrapped_optimizer() -> None:
    """Slots of momentum: two steps with the gradient g change by g and 1.5 g."""
    for way, run in EVERYWHERE.items():
        optimizers: list[Any] = []

        def make(optimizers: list[Any] = optimizers) -> Any:
            optimizers.append(hvd.DistributedOptimizer(v1.train.MomentumOptimizer(0.25, 0.5), name="own"))
            return optimizers[-1]

        found = run(2, make)
        assert np.allclose(found[1][0], np.array([1.0, 2.0]) - 0.25 * 2.5 * combined(hvd.Average)), way
        assert optimizers[0].get_slot_names() == ["momentum"] and optimizers[0].get_name() == "own"
        # Those of the graph that is the present one.
        assert len(optimizers[0].variables()) == (0 if way == "session" else 2), way


def case_local_variables() -> None:
    for scale in (True, False):
        made: list[Any] = []

        def make(made: list[Any] = made, scale: bool = scale) -> Any:
            made.append(hvd.DistributedOptimizer(SGD(1.0), scale_local_gradients=scale))
            return made[-1]

        (found,) = in_a_session(1, make, lambda dense, made=made: made[0].register_local_var(dense))
        own = (hvd.rank() + 1) / (hvd.size() if scale else 1)
        assert np.allclose(found[0], np.array([1.0, 2.0]) - own), (scale, found)
        assert np.allclose(found[1], wanted(1.0, hvd.Average)[1]), (scale, found)


def adasum(vectors: list[np.ndarray]) -> np.ndarray:
    """Of one or two, by Maleki et al., Scaling Distributed Training with Adaptive Summation, 2021."""
    if len(vectors) == 1:
        return vectors[0]
    a, b = vectors
    dot = a @ b
    return (1 - dot / (2 * (a @ a))) * a + (1 - dot / (2 * (b @ b))) * b


def case_adasum() -> None:
    """Each rank makes `passes` steps of its own, with other gradients in every one of them."""
    if hvd.size() > 2:
        return

    def gradient(rank: int, number: int) -> np.ndarray:
        return np.array([1.0 + rank, 1.0 - rank, float(number)])

    for wrap in WAYS.values():
        for passes in (1, 2):
            weights, number = tf.Variable(np.zeros(3)), tf.Variable(np.zeros(()))
            made = hvd.DistributedOptimizer(SGD(0.5), op=hvd.Adasum, backward_passes_per_step=passes)

            @wrap
            def step(weights: Any = weights, number: Any = number, made: Any = made) -> None:
                own = tf.stack([1.0 + tf.constant(hvd.rank(), tf.float64), 1.0 - hvd.rank(), number])
                made.apply_gradients(made.compute_gradients(lambda: tf.reduce_sum(weights * own), [weights]))

            together, own = np.zeros(3), np.zeros(3)
            for each in range(4):
                number.assign(float(each))
                step()
                own = own - 0.5 * gradient(hvd.rank(), each)
                if each % passes == passes - 1:
                    since = range(each - passes + 1, each + 1)
                    changes = [-0.5 * sum(gradient(rank, i) for i in since) for rank in range(hvd.size())]
                    together = own = together + adasum(changes)
                assert np.allclose(weights.numpy(), own), (passes, each, weights.numpy(), own)


def case_adasum_in_a_session() -> None:
    found = in_a_session(2, lambda: hvd.DistributedOptimizer(SGD(0.25), op=hvd.Adasum))
    if hvd.size() == 1:
        close(found[1], wanted(0.5, hvd.Sum), "alone")
    elif hvd.size() == 2:
        # What two parallel vectors become: half the sum. Rows of other ranks are orthogonal: the sum.
        close(found[0], wanted(0.25, hvd.Average)[:1], "dense")
        assert np.allclose(found[1][1][:2], [1 - 0.5, 1 - 1.0]), found
    assert found[1][2] == 2


def case_adasum_of_a_tape() -> None:
    if hvd.size() > 2:
        return
    one, other = tf.Variable([1.0, 2.0]), tf.Variable([[3.0]])
    for wrap in WAYS.values():

        @wrap
        def gradients() -> Any:
            with hvd.DistributedGradientTape(tf.GradientTape(), op=hvd.Adasum) as tape:
                loss = one[0] * (1.0 + hvd.rank()) + one[1] * (1.0 - hvd.rank()) + tf.reduce_sum(other)
            return tape.gradient(loss, [one, other])

        got = gradients()
        vectors = [np.array([1.0 + rank, 1.0 - rank]) for rank in range(hvd.size())]
        assert np.allclose(got[0], adasum(vectors)), got
        assert np.allclose(got[1], [[1.0]]), got
        single = wrap(lambda: hvd.allreduce(tf.constant([1.0 + hvd.rank(), 1.0 - hvd.rank()]), op=hvd.Adasum))()
        assert np.allclose(single, adasum(vectors)), single


def case_global_variables() -> None:
    root = hvd.size() - 1
    with tf.Graph().as_default():
        variable = v1.get_variable("v", initializer=float(hvd.rank()))
        whole = v1.get_variable("w", initializer=hvd.rank(), dtype=tf.int32)
        hook = hvd.BroadcastGlobalVariablesHook(root)
        v1.train.get_or_create_global_step()
        with v1.train.MonitoredTrainingSession(hooks=[hook]) as session:
            assert session.run([variable, whole]) == [root, root]
        give = hvd.broadcast_global_variables(0)
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            session.run(give)
            assert session.run([variable, whole]) == [0, 0]
        again = tf.Graph()
        with again.as_default():
            v1.get_variable("v", initializer=1.0)
            hook.begin()
            assert hook.bcast_op.graph is again
    raises(RuntimeError, "does not support eager execution", hvd.broadcast_global_variables, 0)


def case_partial_tape() -> None:
    layers = [tf.keras.layers.Dense(2, kernel_initializer="ones") for _ in range(2)]
    for layer in layers:
        layer.build((None, 2))
    variables = [layer.kernel for layer in layers]
    for scale in (True, False):
        for local in (layers[0], layers[:1]):
            with hvd.PartialDistributedGradientTape(
                tf.GradientTape(), local_layers=local, scale_local_gradients=scale
            ) as tape:
                loss = sum(tf.reduce_sum(tf.convert_to_tensor(v)) for v in variables) * (hvd.rank() + 1.0)
            got = tape.gradient(loss, variables)
            own = (hvd.rank() + 1) / (hvd.size() if scale else 1)
            assert np.allclose(got[0], own) and np.allclose(got[1], factors().mean()), (scale, got)
    with hvd.PartialDistributedGradientTape(tf.GradientTape(), local_layers=layers[0]) as tape:
        loss = sum(tf.reduce_sum(tf.convert_to_tensor(v)) for v in variables) * (hvd.rank() + 1.0)
    local, shared = tape.get_local_and_global_gradients(loss, variables)
    assert len(local) == len(shared) == 1 and np.allclose(shared[0], factors().mean())
    assert np.allclose(local[0], (hvd.rank() + 1) / hvd.size())
    raises(
        ValueError,
        "local_layers consists of Keras layers",
        lambda: hvd.PartialDistributedGradientTape(tf.GradientTape(), local_layers=[3]),
    )


def case_groups_of_a_tape() -> None:
    variables = [tf.Variable([float(i)]) for i in range(5)]
    for groups in (1, 2, 9, [variables[3:], variables[:1]], None):
        for wrap in WAYS.values():

            @wrap
            def gradients(groups: Any = groups) -> Any:
                with hvd.DistributedGradientTape(tf.GradientTape(), groups=groups) as tape:
                    loss = sum(v[0] * (i + 1.0) for i, v in enumerate(variables)) * (hvd.rank() + 1.0)
                return tape.gradient(loss, variables)

            got = gradients()
            assert np.allclose(np.ravel(got), factors().mean() * np.arange(1.0, 6.0)), (groups, got)
    names = "FarandoleAllreduce"
    function = tf.function(
        lambda: hvd.DistributedGradientTape(Given(variables), groups=[variables[3:], variables[:1]]).gradient(
            None, variables
        )
    )
    calls = [op for op in function.get_concrete_function().graph.get_operations() if op.type == names]
    # One rank has nobody to call.
    assert sorted(len(op.inputs) for op in calls) == ([1, 1, 1, 2] if hvd.size() > 1 else []), calls
    for wrong in (0.5, True, -1, [variables[0]], [variables, variables[:1]]):
        raises(ValueError, "groups", lambda wrong=wrong: hvd.DistributedGradientTape(None, groups=wrong))
        raises(ValueError, "groups", lambda wrong=wrong: hvd.DistributedOptimizer(SGD(1.0), groups=wrong))


class Given:
    """A tape whose gradients are constants."""

    def __init__(self, variables: list[Any]) -> None:
        self.variables = variables

    def gradient(self, *_: Any) -> list[Any]:
        return [tf.ones([1]) for _ in self.variables]


def case_process_sets() -> None:
    if hvd.size() < 3:
        return
    some = hvd.add_process_set([0, 2])
    for options in ({}, {"backward_passes_per_step": 1, "op": hvd.Adasum}):
        for run in EVERYWHERE.values():
            (found,) = run(1, lambda options=options: hvd.DistributedOptimizer(SGD(1.0), process_set=some, **options))
            factor = 2.0 if hvd.rank() == 1 or not options else 2.0
            assert np.allclose(found[0], np.array([1.0, 2.0]) - factor), (options, found)
    weight = tf.Variable([1.0])
    with hvd.DistributedGradientTape(tf.GradientTape(), process_set=some) as tape:
        loss = weight * (hvd.rank() + 1.0) ** 2
    assert np.allclose(tape.gradient(loss, weight), 4.0 if hvd.rank() == 1 else 5.0)
    hvd.remove_process_set(some)


def case_optimizers_of_keras() -> None:
    """Go to the front end for Keras, with what was asked for."""
    for options, wanted in (({}, factors().mean()), ({"op": hvd.Sum}, factors().sum())):
        optimizer = hvd.DistributedOptimizer(tf.keras.optimizers.SGD(1.0), **options)
        assert isinstance(optimizer, tf.keras.optimizers.SGD)
        variable = tf.Variable([1.0, 2.0])
        optimizer.apply_gradients([(tf.ones([2]) * (hvd.rank() + 1.0), variable)])
        assert np.allclose(variable, np.array([1.0, 2.0]) - wanted), (options, variable)


def case_wrong_arguments() -> None:
    for text, function in (
        ("backward_passes_per_step", lambda: hvd.DistributedOptimizer(SGD(1.0), backward_passes_per_step=0)),
        ("op of an optimizer", lambda: hvd.DistributedOptimizer(SGD(1.0), op=hvd.Max)),
        ("op != Average", lambda: hvd.DistributedOptimizer(SGD(1.0), op=hvd.Sum, gradient_predivide_factor=2.0)),
        ("must be positive", lambda: hvd.DistributedOptimizer(SGD(1.0), gradient_predivide_factor=0.0)),
        ("an optimizer of Keras or of tf.compat.v1.train, got int", lambda: hvd.DistributedOptimizer(3)),
        ("wrap it once", lambda: hvd.DistributedOptimizer(hvd.DistributedOptimizer(SGD(1.0)))),
    ):
        raises(ValueError, text, function)


def main() -> None:
    hvd.init()
    for name, case in list(globals().items()):
        if name.startswith("case_"):
            case()
            os.write(1, b"passed %s\n" % name.encode())
    hvd.shutdown()


if __name__ == "__main__":
    main()
