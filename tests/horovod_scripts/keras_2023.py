"""As scripts of Keras were written for Horovod in 2023: a pipeline of tf.data, the best model kept, loaded again."""

# ruff: noqa: ANN001, ANN201 - people did not annotate such scripts

import os

import patterns
import tensorflow as tf

import horovod.keras as hvd

try:
    import keras
except ImportError:
    from tensorflow import keras

hvd.init()
keras.utils.set_random_seed(42 + hvd.rank())

gpus = tf.config.experimental.list_physical_devices("GPU")
if gpus:
    tf.config.experimental.set_visible_devices(gpus[hvd.local_rank()], "GPU")

(images, labels), (test_images, test_labels) = patterns.load_data(hvd.rank())
dataset = tf.data.Dataset.from_tensor_slices((images[..., None].astype("float32") / 255, labels))
dataset = dataset.repeat().shuffle(640).batch(32)

model = keras.Sequential(
    [
        keras.layers.Conv2D(8, 3, activation="relu"),
        keras.layers.MaxPooling2D(2),
        keras.layers.Flatten(),
        keras.layers.Dense(32, activation="relu"),
        keras.layers.Dense(10, activation="softmax"),
    ]
)
scaled_lr = 0.002 * hvd.size()
opt = hvd.DistributedOptimizer(keras.optimizers.Adam(scaled_lr), compression=hvd.Compression.fp16)
model.compile(loss=keras.losses.SparseCategoricalCrossentropy(), optimizer=opt, metrics=["accuracy"])

callbacks = [
    hvd.callbacks.BroadcastGlobalVariablesCallback(0),
    hvd.callbacks.MetricAverageCallback(),
    hvd.callbacks.LearningRateWarmupCallback(initial_lr=scaled_lr, warmup_epochs=2, verbose=0),
]
path = os.environ["CHECKPOINTS"] + "/best.keras"
if hvd.rank() == 0:
    best = hvd.callbacks.BestModelCheckpoint(monitor="accuracy", mode="max")
    best.filepath = path
    callbacks.append(best)
model.fit(dataset, steps_per_epoch=20, callbacks=callbacks, epochs=3, verbose=2 if hvd.rank() == 0 else 0)
hvd.allreduce([0], name="Barrier")

loaded = hvd.load_model(path)
score = loaded.evaluate(test_images[..., None] / 255, test_labels, verbose=0)
print("accuracy", score[1], flush=True)
