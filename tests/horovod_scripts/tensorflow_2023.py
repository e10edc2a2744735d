"""As scripts of TensorFlow 2 were written for Horovod in 2023: a tape, a tf.function, variables broadcast after the
first batch."""

# ruff: noqa: ANN001, ANN201 - people did not annotate such scripts

import argparse
import os

import patterns
import tensorflow as tf

import horovod
import horovod.tensorflow as hvd

parser = argparse.ArgumentParser(description="TensorFlow MNIST Example")
parser.add_argument("--use-mixed-precision", action="store_true", default=False)
args = parser.parse_args()

if args.use_mixed_precision:
    tf.keras.mixed_precision.set_global_policy("mixed_float16")

# Horovod: initialize Horovod.
hvd.init()
tf.keras.utils.set_random_seed(42 + hvd.rank())

# Horovod: pin GPU to be used to process local rank (one GPU per process)
gpus = tf.config.experimental.list_physical_devices("GPU")
for gpu in gpus:
    tf.config.experimental.set_memory_growth(gpu, True)
if gpus:
    tf.config.experimental.set_visible_devices(gpus[hvd.local_rank()], "GPU")

(mnist_images, mnist_labels), (test_images, test_labels) = patterns.load_data(hvd.rank())
dataset = tf.data.Dataset.from_tensor_slices(
    (tf.cast(mnist_images[..., tf.newaxis] / 255.0, tf.float32), tf.cast(mnist_labels, tf.int64))
)
dataset = dataset.repeat().shuffle(640).batch(32)

mnist_model = tf.keras.Sequential(
    [
        tf.keras.layers.Conv2D(8, [3, 3], activation="relu"),
        tf.keras.layers.MaxPooling2D(pool_size=(2, 2)),
        tf.keras.layers.Flatten(),
        tf.keras.layers.Dense(32, activation="relu"),
        tf.keras.layers.Dense(10, dtype="float32"),
    ]
)
loss = tf.losses.SparseCategoricalCrossentropy(from_logits=True)

# Horovod: adjust learning rate based on number of GPUs.
opt = tf.optimizers.Adam(0.002 * hvd.size())
if args.use_mixed_precision:
    opt = tf.keras.mixed_precision.LossScaleOptimizer(opt)

checkpoint_dir = os.environ["CHECKPOINTS"]
checkpoint = tf.train.Checkpoint(model=mnist_model)


@tf.function
def training_step(images, labels, first_batch):
    with tf.GradientTape() as tape:
        probs = mnist_model(images, training=True)
        loss_value = loss(labels, probs)
        scaled_loss = opt.get_scaled_loss(loss_value) if args.use_mixed_precision else loss_value

    # Horovod: add Horovod Distributed GradientTape.
    tape = hvd.DistributedGradientTape(tape, compression=hvd.Compression.fp16)
    grads = tape.gradient(scaled_loss, mnist_model.trainable_variables)
    if args.use_mixed_precision:
        grads = opt.get_unscaled_gradients(grads)
    opt.apply_gradients(zip(grads, mnist_model.trainable_variables))

    # Horovod: broadcast initial variable states from rank 0 to all other processes.
    if first_batch:
        hvd.broadcast_variables(mnist_model.variables, root_rank=0)
        opt_variables = opt.variables() if callable(opt.variables) else opt.variables
        hvd.broadcast_variables(opt_variables, root_rank=0)
    return loss_value


# Horovod: adjust number of steps based on number of GPUs.
for batch, (images, labels) in enumerate(dataset.take(200 // hvd.size())):
    loss_value = training_step(images, labels, batch == 0)
    if batch % 20 == 0 and hvd.rank() == 0:
        print(f"Step #{batch}\tLoss: {loss_value:.6f}")

# Horovod: save checkpoints only on worker 0 to prevent other workers from corrupting it.
if hvd.rank() == 0:
    checkpoint.save(checkpoint_dir + "/model")
found = tf.argmax(mnist_model(test_images[..., tf.newaxis] / 255.0), 1)
accuracy = hvd.allreduce(tf.reduce_mean(tf.cast(found == test_labels, tf.float32)), name="accuracy")
print("horovod", horovod.__version__, flush=True)
print("accuracy", float(accuracy), flush=True)
