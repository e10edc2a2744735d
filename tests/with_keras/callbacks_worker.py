"""Cases of callbacks, states, functions and files. Prints what it has checked. argv: the way; see models.py."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import Any

from models import IS_KERAS2, TOLERANCE, WAY, fit, hvd, keras, network, numbers, own_part, raises, same, whole_data
from models import np as np

from farandole.core.objects import allgather_object, broadcast_object

O = keras.optimizers  # noqa: E741
C = hvd.callbacks


class Seen(keras.callbacks.Callback):
    """What a training looks like at the beginning of its first batch, and the rates of all batches."""

    def __init__(self) -> None:
        super().__init__()
        self.first: list[np.ndarray] = []
        self.rates: list[float] = []
        self.weights: list[np.ndarray] = []

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        if not self.first:
            self.first = numbers(everything(self.model))

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.rates.append(float(numbers([self.model.optimizer.learning_rate])[0]))
        self.weights.append(numbers(self.model.weights)[0])


def everything(model: Any) -> list[Any]:
    found = model.optimizer.variables
    return [*model.weights, *(found() if callable(found) and not isinstance(found, list) else found)]


def case_all_begin_with_weights_and_optimizer_of_the_root() -> None:
    root = hvd.size() - 1
    x, y = own_part(whole_data(2, hvd.size())[0]), own_part(whole_data(2, hvd.size())[1])
    model = network(hvd.DistributedOptimizer(O.Adam(0.01 * (hvd.rank() + 1))), number=hvd.rank())
    # So that the optimizer has a state, another one on each rank.
    plain = network(O.Adam(0.01 * (hvd.rank() + 1)), number=hvd.rank())
    fit(plain, x, y, epochs=hvd.rank() + 1)
    model.optimizer.build(model.trainable_variables)
    for variable, value in zip(everything(model), numbers(everything(plain))):
        variable.assign(value)
    wanted = broadcast_object(numbers(everything(model)), root)
    if hvd.rank() != root:
        assert any(np.abs(one - other).max() > 1e-3 for one, other in zip(wanted, numbers(everything(model))))
    seen = Seen()
    fit(model, x, y, callbacks=[C.BroadcastGlobalVariablesCallback(root), seen])
    same(seen.first, wanted, 0.0, "at the first batch")
    ends = allgather_object([each.tobytes() for each in numbers(everything(model))])
    assert all(each == ends[0] for each in ends)


def case_what_is_not_built_is_broadcast_after_the_first_batch() -> None:
    model = network(O.SGD(0.1), number=hvd.rank())
    callback = C.BroadcastGlobalVariablesCallback(0, local_variables=[model.weights[3]])
    unbuilt = keras.Sequential([keras.layers.Dense(3)])
    unbuilt.compile(optimizer=O.SGD(0.1), loss="mse")
    # One rank has a model without variables.
    callback.set_model(unbuilt if hvd.rank() == 0 else model)
    callback.on_train_begin()
    assert not callback.broadcast_done
    model.weights[3].assign(np.full(2, float(hvd.rank())))
    wanted = broadcast_object(numbers(model.weights[:3]), 0)
    callback.set_model(model)
    callback.on_train_batch_end(0)
    assert callback.broadcast_done
    same(numbers(model.weights), [*wanted, np.full(2, float(hvd.rank()))], 0.0, "all but the local one")
    if hvd.size() > 1 and not IS_KERAS2:
        other = keras.Sequential([keras.Input((5,)), keras.layers.Dense(6 + hvd.rank())])
        other.compile(optimizer=O.SGD(0.1), loss="mse")
        callback = C.BroadcastGlobalVariablesCallback(0)
        callback.set_model(other)
        text = "its own error says which" if hvd.rank() == 0 else "number 0 differs"
        raises(ValueError, text, callback.on_train_begin)


def case_metrics_are_averages() -> None:
    size, rank = hvd.size(), hvd.rank()
    logs = {"loss": 1.0 + rank, "accuracy": np.float32(rank), "table": np.ones(3)}
    C.MetricAverageCallback().on_epoch_end(0, logs)
    assert logs["loss"] == 1 + (size - 1) / 2 and logs["accuracy"] == (size - 1) / 2 and len(logs["table"]) == 3
    if size > 1:
        logs = {"loss": 1.0, **({"val_loss": 2.0} if rank == 0 else {})}
        raises(ValueError, "differ in val_loss", C.MetricAverageCallback().on_epoch_end, 3, logs)
    x, y = own_part(whole_data(3, size)[0]), own_part(whole_data(3, size)[1])
    model = network(hvd.DistributedOptimizer(O.SGD(0.1)))
    own = fit(network(hvd.DistributedOptimizer(O.SGD(0.1))), x, y).history["loss"][0]
    loss = fit(model, x, y, callbacks=[C.MetricAverageCallback()]).history["loss"][0]
    assert abs(loss - np.mean(allgather_object(own))) < 1e-6, (loss, own)


def rates_of(callback: Any, epochs: int, **options: Any) -> list[float]:
    """In four batches an epoch."""
    x, y = own_part(whole_data(4, hvd.size())[0]), own_part(whole_data(4, hvd.size())[1])
    seen = Seen()
    history = fit(network(O.SGD(7.0)), x, y, epochs=epochs, callbacks=[callback, seen], **options).history
    assert len(history["lr"]) == epochs and abs(history["lr"][-1] - seen.rates[-1]) < 1e-9
    return seen.rates


def case_rates() -> None:
    size = hvd.size()
    warmup = C.LearningRateWarmupCallback(0.8, warmup_epochs=2, verbose=1)
    wanted = {
        1: [0.8] * 8,
        2: [0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8],
        3: [0.8 / 3 + 0.2 / 3 * i for i in range(1, 9)],
    }
    got = rates_of(warmup, 3)
    assert np.allclose(got, [*wanted[size], 0.8, 0.8, 0.8, 0.8], atol=1e-6), got
    stairs = C.LearningRateScheduleCallback(0.4, lambda epoch: 0.5**epoch, start_epoch=1, end_epoch=3)
    got = rates_of(stairs, 4)
    assert np.allclose(got, [7.0] * 4 + [0.2] * 4 + [0.1] * 8, atol=1e-6), got
    smooth = C.LearningRateScheduleCallback(0.4, lambda epoch: 1 + epoch, staircase=False, steps_per_epoch=4)
    assert np.allclose(rates_of(smooth, 1), [0.4, 0.5, 0.6, 0.7], atol=1e-6)
    constant = C.LearningRateScheduleCallback(0.4, 0.25, staircase=False)
    assert np.allclose(rates_of(constant, 1), [0.1] * 4, atol=1e-6)
    raises(ValueError, "initial_lr is required", C.LearningRateScheduleCallback, None, 0.5)
    raises(ValueError, "warmup_epochs", C.LearningRateWarmupCallback, 0.1, warmup_epochs=0)
    unknown = C.LearningRateWarmupCallback(0.1)
    unknown.set_params({"steps": None})
    raises(ValueError, "give steps_per_epoch to LearningRateWarmupCallback", unknown.on_train_begin)


def case_momentum_is_corrected() -> None:
    """One weight with the gradient 1 in every step, so that everything can be computed by hand."""
    x = np.ones((4 * 3, 1))
    for corrected in (True, False):
        for make in [O.SGD, *([O.legacy.SGD] if IS_KERAS2 else [])]:
            layer = keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")
            model = keras.Sequential([keras.Input((1,)), layer])
            model.compile(optimizer=make(1.0, momentum=0.5), loss=lambda y, p: p)
            rate = C.LearningRateScheduleCallback(1.0, lambda e: [1.0, 0.5, 0.1][int(e)], momentum_correction=corrected)
            seen = Seen()
            fit(model, x[:4], x[:4], epochs=3, callbacks=[rate, seen])
            weight, velocity, before = 0.0, 0.0, 1.0
            for rate_now, got in zip((1.0, 0.5, 0.1), seen.weights):
                velocity = 0.5 * (rate_now / before if corrected else 1.0) * velocity - rate_now
                weight, before = weight + velocity, rate_now
                assert abs(float(got[0, 0]) - weight) < 1e-6, (corrected, make, got, weight)


def case_the_best_model_is_kept() -> None:
    folder = Path(f"best{hvd.rank()}")
    folder.mkdir()
    x, y = own_part(whole_data(3, hvd.size())[0]), own_part(whole_data(3, hvd.size())[1])
    best = C.BestModelCheckpoint(monitor="loss")
    model = network(O.SGD(0.05))
    raises(ValueError, "set it, as in", fit, model, x, y, callbacks=[best])
    best.filepath = str(folder / "best.keras")
    # It gets worse when the rate explodes.
    worse = C.LearningRateScheduleCallback(0.05, lambda epoch: 1.0 if epoch < 2 else 200.0)
    kept: dict[int, list[np.ndarray]] = {}
    each = keras.callbacks.LambdaCallback(on_epoch_end=lambda e, logs: kept.update({e: numbers(model.weights)}))
    losses = fit(model, x, y, epochs=4, callbacks=[worse, best, each]).history["loss"]
    place = int(np.argmin(losses))
    assert place < 3, losses
    same(numbers(keras.models.load_model(best.filepath).weights), kept[place], 0.0, losses)


def case_functions() -> None:
    size, rank = hvd.size(), hvd.rank()
    value = np.arange(4.0) + rank
    mean = np.arange(4.0) + (size - 1) / 2

    def equals(got: Any, wanted: Any) -> None:
        got = np.asarray(got if not hasattr(got, "numpy") else got.numpy())
        assert got.shape == np.shape(wanted) and np.allclose(got, wanted), (got, wanted)

    equals(hvd.allreduce(value, name="a"), mean)
    equals(hvd.allreduce(value, name="b", average=False), mean * size)
    equals(hvd.allreduce(value, name="c", op=hvd.Sum, prescale_factor=0.5, postscale_factor=4.0), mean * size * 2)
    equals(hvd.allreduce(value, name="d", compression=hvd.Compression.fp16), mean)
    equals(hvd.allgather(value[: rank + 1], name="e"), np.concatenate([np.arange(r + 1.0) + r for r in range(size)]))
    equals(hvd.broadcast(value, size - 1, name="f"), np.arange(4.0) + size - 1)
    whole = np.arange(size * 2.0)
    equals(hvd.reducescatter(whole, name="g", op=hvd.Sum), size * whole[2 * rank : 2 * rank + 2])
    equals(hvd.reducescatter(whole, name="h"), whole[2 * rank : 2 * rank + 2])
    raises(RuntimeError, "BroadcastGlobalVariablesCallback", hvd.broadcast_global_variables, 0)


def case_files_are_keras_own() -> None:
    """The parent looks at `saved.*` where farandole cannot be imported."""
    x, y = own_part(whole_data(3, hvd.size())[0]), own_part(whole_data(3, hvd.size())[1])
    makes: dict[str, Any] = {"adam": lambda: O.Adam(0.01), "sgd": lambda: O.SGD(0.01, momentum=0.9)}
    if IS_KERAS2:
        makes["legacy"] = lambda: O.legacy.Adam(0.01)
    else:
        makes["accumulates"] = lambda: O.Adam(0.01, gradient_accumulation_steps=2)
        makes["scaled"] = lambda: O.LossScaleOptimizer(O.SGD(0.01, momentum=0.9))
    for name, make in makes.items():
        # Keras 2 itself does not load the state of legacy optimizers.
        whole = (lambda given: given.weights) if name == "legacy" else everything
        model = network(hvd.DistributedOptimizer(make()))
        fit(model, x, y, epochs=2)
        path = f"own{hvd.rank()}.keras"
        model.save(path)
        if hvd.rank() == 0:
            shutil.copy(path, f"saved.{name}.keras")
            np.savez(f"saved.{name}.npz", *numbers(whole(model)))
        loaded = hvd.load_model(path, compression=hvd.Compression.none)
        same(numbers(whole(loaded)), numbers(whole(model)), 0.0, name)
        assert type(loaded.optimizer) is type(model.optimizer), name
        fit(loaded, x, y)
        if name != "legacy":
            fit(model, x, y)
            same(numbers(loaded.weights), numbers(model.weights), TOLERANCE, name)
        ends = allgather_object([each.tobytes() for each in numbers(loaded.weights)])
        assert all(each == ends[0] for each in ends), name


class Mine(O.SGD):
    """An optimizer of a user."""


def case_optimizers_of_users() -> None:
    model = network(hvd.DistributedOptimizer(Mine(0.01)))
    model.optimizer.build(model.trainable_variables)
    path = f"mine{hvd.rank()}.keras"
    model.save(path)
    loaded = hvd.load_model(path, custom_optimizers=[Mine])
    assert isinstance(loaded.optimizer, Mine) and loaded.optimizer.farandole is not None


def case_states() -> None:
    x, y = own_part(whole_data(3, hvd.size())[0]), own_part(whole_data(3, hvd.size())[1])
    model = network(hvd.DistributedOptimizer(O.Adam(0.01)), number=hvd.rank())
    state = hvd.elastic.KerasState(model, batch=0, epoch=0)
    begin = numbers(everything(model))
    fit(model, x, y)
    state.epoch = 5
    state.restore()
    assert state.epoch == 0
    same(numbers(everything(model)), begin, 0.0, "restored")
    fit(model, x, y)
    state.epoch = 3 + hvd.rank()
    state.save()
    saved = numbers(everything(model))
    fit(model, x, y)
    state.restore()
    same(numbers(everything(model)), saved, 0.0, "saved")
    wanted = broadcast_object(saved, 0)
    state.sync()
    assert state.epoch == 3
    same(numbers(everything(model)), wanted, 0.0, "of rank 0")
    fit(model, x, y)
    state.restore()
    same(numbers(everything(model)), wanted, 0.0, "saved when synchronised")
    if IS_KERAS2 and WAY == "tf.keras":
        # One batch too many is added up, which is forgotten: a step begins anew by the count.
        model = network(hvd.DistributedOptimizer(O.SGD(0.1), backward_passes_per_step=2))
        state = hvd.elastic.KerasState(model)
        fit(model, x, y)
        assert int(model.optimizer._farandole_sums._count) % 2 == 1
        state.restore()
        assert int(model.optimizer._farandole_sums._count) == 0
    raises(ValueError, "no weights yet", hvd.elastic.KerasState, keras.Sequential([keras.layers.Dense(1)]))


def case_states_follow_training() -> None:
    x, y = own_part(whole_data(4, hvd.size())[0]), own_part(whole_data(4, hvd.size())[1])
    model = network(hvd.DistributedOptimizer(O.SGD(0.01)))
    state = hvd.elastic.KerasState(model, batch=0, epoch=0)
    commits: list[tuple[int, int, list[np.ndarray]]] = []
    plain = state.save
    state.save = lambda: (plain(), commits.append((state.epoch, state.batch, numbers(model.weights))))
    elastic = hvd.elastic
    weights: list[list[np.ndarray]] = []
    each = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda b, logs: weights.append(numbers(each.model.weights))
    )
    callbacks = [
        elastic.CommitStateCallback(state, batches_per_commit=2),
        elastic.UpdateBatchStateCallback(state),
        elastic.UpdateEpochStateCallback(state),
        each,
    ]
    fit(model, x, y, epochs=2, callbacks=callbacks)
    # After two batches; after four, as the beginning of the next epoch; and at the end.
    assert [commit[:2] for commit in commits] == [(0, 2), (1, 0), (1, 2), (2, 0)], [c[:2] for c in commits]
    for commit, done in zip(commits, (2, 4, 6, 8)):
        same(commit[2], weights[done - 1], 0.0, f"after {done}")
    # The rest of an epoch that was interrupted after three batches, then another one.
    state.epoch, state.batch = 4, 3
    seen: list[tuple[int, int]] = []
    note = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda b, logs: seen.append((state.epoch, state.batch)),
        on_epoch_end=lambda e, logs: seen.append((state.epoch, state.batch)),
    )
    fit(model, x[:4], y[:4], epochs=6, initial_epoch=4, callbacks=[*callbacks[1:3], note])
    assert seen == [(4, 4), (5, 0), (5, 1), (6, 0)], seen
    raises(ValueError, "batches_per_commit", elastic.CommitStateCallback, state, 0)


def main() -> None:
    hvd.init()
    keras.backend.set_floatx("float64")
    wanted = os.environ.get("CASES", "case_")
    for name, case in list(globals().items()):
        if name.startswith("case_") and re.match(wanted, name):
            case()
            os.write(1, b"passed %s\n" % name.encode())
    hvd.shutdown()


if __name__ == "__main__":
    assert WAY
    main()
