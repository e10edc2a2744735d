"""The convolutional network of the image examples of Horovod, for each framework: images of 28 x 28 in batches of 32,
1.2 million weights. A step is a call without arguments that returns when its weights are there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

ROWS = 32


def batch() -> tuple[np.ndarray, np.ndarray]:
    """Images (ROWS, 28, 28, 1), float32, and labels (ROWS,), int64."""
    random = np.random.default_rng(0)
    return random.random((ROWS, 28, 28, 1), np.float32), random.integers(0, 10, ROWS)


def keras_model(keras: Any) -> Any:
    """With `keras` as it is, of any version and backend, or tf.keras."""
    return keras.Sequential(
        [
            keras.layers.Input((28, 28, 1)),
            keras.layers.Conv2D(32, 3, activation="relu"),
            keras.layers.Conv2D(64, 3, activation="relu"),
            keras.layers.MaxPooling2D(2),
            keras.layers.Flatten(),
            keras.layers.Dense(128, activation="relu"),
            keras.layers.Dense(10),
        ]
    )


def keras_step(keras: Any, optimizer: Any) -> Callable[[], object]:
    """With the loop that Keras has."""
    model = keras_model(keras)
    model.compile(optimizer, keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    x, y = batch()
    return lambda: model.train_on_batch(x, y)


def tape_step(tf: Any, wrap: Callable[[Any], Any]) -> Callable[[], object]:
    """A loop of one's own: `wrap` makes of a GradientTape what gradients are asked of."""
    model = keras_model(tf.keras)
    loss_of = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    optimizer = tf.keras.optimizers.SGD(0.001)
    optimizer.build(model.trainable_variables)
    x, y = map(tf.constant, batch())

    @tf.function
    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = loss_of(y, model(x, training=True))
        gradients = wrap(tape).gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    return lambda: step().numpy()


def gluon_step(mx: Any, trainer_of: Callable[[Any], Any]) -> Callable[[], object]:
    """`trainer_of`: makes a gluon Trainer of parameters."""
    nn = mx.gluon.nn
    net = nn.HybridSequential()
    net.add(
        nn.Conv2D(32, 3, activation="relu"),
        nn.Conv2D(64, 3, activation="relu"),
        nn.MaxPool2D(2),
        nn.Dense(128, activation="relu"),
        nn.Dense(10),
    )
    net.initialize(mx.init.Xavier())
    net.hybridize()
    images, labels = batch()
    x, y = mx.nd.array(images.reshape(ROWS, 1, 28, 28)), mx.nd.array(labels)
    net(x)
    trainer = trainer_of(net.collect_params())
    loss_of = mx.gluon.loss.SoftmaxCrossEntropyLoss()

    def step() -> None:
        with mx.autograd.record():
            loss = loss_of(net(x), y)
        loss.backward()
        trainer.step(ROWS)
        mx.nd.waitall()

    return step


def torch_step(torch: Any, wrap: Callable[[Any, Any], Any]) -> Callable[[], object]:
    """`wrap`: makes of a model and its optimizer the optimizer that steps."""
    nn = torch.nn
    model = nn.Sequential(
        nn.Conv2d(1, 32, 3),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64 * 12 * 12, 128),
        nn.ReLU(),
        nn.Linear(128, 10),
    )
    optimizer = wrap(model, torch.optim.SGD(model.parameters(), 0.001))
    images, labels = batch()
    x, y = torch.from_numpy(images.reshape(ROWS, 1, 28, 28)), torch.from_numpy(labels)

    def step() -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()

    return step
