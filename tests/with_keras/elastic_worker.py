"""Trains in an elastic job; rank 1 of two kills itself in the middle of the third epoch. argv: the way; see models.py.

Every batch is counted in the weights: the loss is linear, so that each step adds the rate to a weight.
"""

from __future__ import annotations

import os
import signal
from typing import Any

from models import hvd, keras, network, numbers
from models import np as np

EPOCHS, STEPS = 6, 8


def main() -> None:
    hvd.init()
    layer = keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")
    model = keras.Sequential([keras.Input((1,)), layer])
    model.compile(optimizer=hvd.DistributedOptimizer(keras.optimizers.SGD(1.0)), loss=lambda y, p: -p)
    state = hvd.elastic.KerasState(model, batch=0, epoch=0)
    first = os.environ.get("FARANDOLE_TEST_FIRST", "yes")
    x = np.ones((STEPS * 2, 1), np.float32)

    class Kill(keras.callbacks.Callback):
        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            if hvd.size() == 2 and hvd.rank() == 1 and first == "yes" and state.epoch == 2 and batch == 5:
                if not os.path.exists("killed"):
                    open("killed", "w").close()
                    os.write(1, b"killing %d\n" % os.getpid())
                    os.kill(os.getpid(), signal.SIGKILL)

    @hvd.elastic.run
    def train(state: Any) -> None:
        if state.epoch > 0:
            os.write(1, b"resumed at %d %d\n" % (state.epoch, state.batch))
        callbacks = [
            Kill(),
            hvd.elastic.CommitStateCallback(state),
            hvd.elastic.UpdateBatchStateCallback(state),
            hvd.elastic.UpdateEpochStateCallback(state),
        ]
        while state.epoch < EPOCHS:
            rest = x[state.batch * 2 :]
            model.fit(
                rest,
                rest,
                batch_size=2,
                epochs=state.epoch + 1,
                initial_epoch=state.epoch,
                verbose=0,
                callbacks=callbacks,
            )

    train(state)
    steps = round(float(numbers(model.weights)[0][0, 0]))
    line = f"ended epoch {state.epoch} batch {state.batch} steps {steps} size {hvd.size()}\n"
    os.write(1, line.encode())
    hvd.shutdown()


if __name__ == "__main__":
    assert network
    main()
