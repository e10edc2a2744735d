"""As scripts of TensorFlow 1 were written for Horovod in 2019: a graph, a monitored session and hooks."""

# ruff: noqa: ANN001, ANN201 - people did not annotate such scripts

import os

import numpy as np
import patterns
import tensorflow.compat.v1 as tf

import horovod.tensorflow as hvd

tf.disable_v2_behavior()
tf.logging.set_verbosity(tf.logging.ERROR)


def conv_model(feature, target):
    target = tf.one_hot(tf.cast(target, tf.int32), 10, 1, 0)
    feature = tf.reshape(feature, [-1, 28, 28, 1])
    with tf.variable_scope("conv"):
        kernel = tf.get_variable("kernel", [5, 5, 1, 8])
        bias = tf.get_variable("bias", [8], initializer=tf.zeros_initializer())
        h = tf.nn.relu(tf.nn.conv2d(feature, kernel, strides=[1, 2, 2, 1], padding="SAME") + bias)
        h = tf.nn.max_pool(h, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="SAME")
    with tf.variable_scope("dense"):
        h = tf.reshape(h, [-1, 7 * 7 * 8])
        logits = tf.matmul(h, tf.get_variable("kernel", [7 * 7 * 8, 10])) + tf.get_variable("bias", [10])
    loss = tf.losses.softmax_cross_entropy(target, logits)
    return tf.argmax(logits, 1, name="predict"), loss


def train_input_generator(x_train, y_train, batch_size=32):
    while True:
        p = np.random.permutation(len(x_train))
        x_train, y_train = x_train[p], y_train[p]
        index = 0
        while index <= len(x_train) - batch_size:
            yield x_train[index : index + batch_size], y_train[index : index + batch_size]
            index += batch_size


def main(_):
    hvd.init()
    tf.set_random_seed(42 + hvd.rank())
    (x_train, y_train), (x_test, y_test) = patterns.load_data(hvd.rank())
    x_train = np.reshape(x_train, (-1, 784)) / 255.0
    x_test = np.reshape(x_test, (-1, 784)) / 255.0

    with tf.name_scope("input"):
        image = tf.placeholder(tf.float32, [None, 784], name="image")
        label = tf.placeholder(tf.float32, [None], name="label")
    predict, loss = conv_model(image, label)

    # Horovod: adjust learning rate based on number of GPUs.
    opt = tf.train.AdamOptimizer(0.002 * hvd.size())
    # Horovod: add Horovod Distributed Optimizer.
    opt = hvd.DistributedOptimizer(opt)
    global_step = tf.train.get_or_create_global_step()
    train_op = opt.minimize(loss, global_step=global_step)

    hooks = [
        # Horovod: BroadcastGlobalVariablesHook broadcasts initial variable states from rank 0 to all other processes.
        hvd.BroadcastGlobalVariablesHook(0),
        # Horovod: adjust number of steps based on number of GPUs.
        tf.train.StopAtStepHook(last_step=200 // hvd.size()),
    ]
    # Horovod: pin GPU to be used to process local rank (one GPU per process)
    config = tf.ConfigProto()
    config.gpu_options.allow_growth = True
    config.gpu_options.visible_device_list = str(hvd.local_rank())
    # Horovod: save checkpoints only on worker 0 to prevent other workers from corrupting them.
    checkpoint_dir = os.environ["CHECKPOINTS"] if hvd.rank() == 0 else None
    batches = train_input_generator(x_train, y_train)
    correct = []
    with tf.train.MonitoredTrainingSession(checkpoint_dir=checkpoint_dir, hooks=hooks, config=config) as mon_sess:
        while not mon_sess.should_stop():
            image_, label_ = next(batches)
            mon_sess.run(train_op, feed_dict={image: image_, label: label_})
            if not mon_sess.should_stop():
                found = mon_sess.run(predict, feed_dict={image: x_test})
                correct.append(np.mean(found == y_test))
    print("steps", len(correct) + 1, flush=True)
    print("accuracy", correct[-1], flush=True)


if __name__ == "__main__":
    tf.app.run()
