"""As scripts of MXNet were written for Horovod in 2019: gluon with a DistributedTrainer."""

# ruff: noqa: ANN001, ANN201 - people did not annotate such scripts

import argparse
import logging

import mxnet as mx
import patterns
from mxnet import autograd, gluon

import horovod.mxnet as hvd

parser = argparse.ArgumentParser(description="MXNet MNIST Distributed Example")
parser.add_argument("--batch-size", type=int, default=32)
parser.add_argument("--dtype", type=str, default="float32")
parser.add_argument("--epochs", type=int, default=4)
parser.add_argument("--lr", type=float, default=0.01)
parser.add_argument("--momentum", type=float, default=0.9)
args = parser.parse_args()

logging.basicConfig(level=logging.INFO)

hvd.init()
mx.random.seed(42 + hvd.rank())
context = mx.cpu(hvd.local_rank())
num_workers = hvd.size()

(x_train, y_train), (x_test, y_test) = patterns.load_data(hvd.rank())
train_data = mx.io.NDArrayIter(x_train.reshape(-1, 1, 28, 28) / 255.0, y_train, args.batch_size, shuffle=True)
val_data = mx.io.NDArrayIter(x_test.reshape(-1, 1, 28, 28) / 255.0, y_test, args.batch_size)

model = gluon.nn.HybridSequential()
with model.name_scope():
    model.add(gluon.nn.Conv2D(channels=8, kernel_size=5, activation="relu"))
    model.add(gluon.nn.MaxPool2D(pool_size=2, strides=2))
    model.add(gluon.nn.Flatten())
    model.add(gluon.nn.Dense(32, activation="relu"))
    model.add(gluon.nn.Dense(10))
model.cast(args.dtype)
model.hybridize()

optimizer_params = {"momentum": args.momentum, "learning_rate": args.lr * num_workers}
opt = mx.optimizer.create("sgd", **optimizer_params)
model.initialize(mx.init.Xavier(rnd_type="gaussian", factor_type="in", magnitude=2), ctx=context)

# Horovod: fetch and broadcast parameters
params = model.collect_params()
if params is not None:
    hvd.broadcast_parameters(params, root_rank=0)

# Horovod: create DistributedTrainer, a subclass of gluon.Trainer
trainer = hvd.DistributedTrainer(params, opt)

loss_fn = gluon.loss.SoftmaxCrossEntropyLoss()
metric = mx.metric.Accuracy()
for epoch in range(args.epochs):
    train_data.reset()
    metric.reset()
    for batch in train_data:
        data = batch.data[0].as_in_context(context)
        label = batch.label[0].as_in_context(context)
        with autograd.record():
            output = model(data.astype(args.dtype, copy=False))
            loss = loss_fn(output, label)
        loss.backward()
        trainer.step(args.batch_size)
        metric.update([label], [output])
    if hvd.rank() == 0:
        logging.info("Epoch[%d]\tTrain: %s=%f", epoch, *metric.get())

metric.reset()
for batch in val_data:
    data = batch.data[0].as_in_context(context)
    metric.update([batch.label[0].as_in_context(context)], [model(data.astype(args.dtype, copy=False))])
mx.nd.waitall()
print("accuracy", metric.get()[1], flush=True)
