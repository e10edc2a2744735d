"""As scripts of tf.keras were written for Horovod in 2019: learning rates in the optimizer, callbacks, fit."""

# ruff: noqa: ANN001, ANN201 - people did not annotate such scripts

import os

import patterns
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import backend as K  # noqa: N812 - as everyone calls it
from tensorflow.keras.layers import Conv2D, Dense, Dropout, Flatten, MaxPooling2D
from tensorflow.keras.models import Sequential

import horovod.tensorflow.keras as hvd

hvd.init()
keras.utils.set_random_seed(42 + hvd.rank())

# Horovod: pin GPU to be used to process local rank (one GPU per process)
config = tf.compat.v1.ConfigProto()
config.gpu_options.allow_growth = True
config.gpu_options.visible_device_list = str(hvd.local_rank())
K.set_floatx("float32")

batch_size, num_classes, epochs = 32, 10, 4

(x_train, y_train), (x_test, y_test) = patterns.load_data(hvd.rank())
x_train = x_train.reshape(x_train.shape[0], 28, 28, 1).astype("float32") / 255
x_test = x_test.reshape(x_test.shape[0], 28, 28, 1).astype("float32") / 255
y_train = keras.utils.to_categorical(y_train, num_classes)
y_test = keras.utils.to_categorical(y_test, num_classes)

model = Sequential()
model.add(Conv2D(8, kernel_size=(3, 3), activation="relu", input_shape=(28, 28, 1)))
model.add(MaxPooling2D(pool_size=(2, 2)))
model.add(Dropout(0.1))
model.add(Flatten())
model.add(Dense(32, activation="relu"))
model.add(Dense(num_classes, activation="softmax"))

# Horovod: adjust learning rate based on number of GPUs.
scaled_lr = 0.002 * hvd.size()
opt = keras.optimizers.Adam(scaled_lr)
# Horovod: add Horovod Distributed Optimizer.
opt = hvd.DistributedOptimizer(opt)
model.compile(loss=keras.losses.categorical_crossentropy, optimizer=opt, metrics=["accuracy"])

callbacks = [
    # Horovod: broadcast initial variable states from rank 0 to all other processes.
    hvd.callbacks.BroadcastGlobalVariablesCallback(0),
    # Horovod: average metrics among workers at the end of every epoch.
    hvd.callbacks.MetricAverageCallback(),
    # Horovod: using `lr = 1.0 * hvd.size()` from the very beginning leads to worse final accuracy.
    hvd.callbacks.LearningRateWarmupCallback(initial_lr=scaled_lr, warmup_epochs=2, verbose=1),
    hvd.callbacks.LearningRateScheduleCallback(initial_lr=scaled_lr, start_epoch=3, multiplier=0.5),
]
# Horovod: save checkpoints only on worker 0 to prevent other workers from corrupting them.
if hvd.rank() == 0:
    callbacks.append(keras.callbacks.ModelCheckpoint(os.environ["CHECKPOINTS"] + "/checkpoint-{epoch}.keras"))

model.fit(
    x_train,
    y_train,
    batch_size=batch_size,
    steps_per_epoch=len(x_train) // batch_size,
    callbacks=callbacks,
    epochs=epochs,
    verbose=2 if hvd.rank() == 0 else 0,
)
score = model.evaluate(x_test, y_test, verbose=0)
print("accuracy", score[1], flush=True)
