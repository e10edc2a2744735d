"""As scripts of MXNet's Module were written for Horovod in 2019: fit with a DistributedOptimizer."""

# ruff: noqa: ANN001, ANN201 - people did not annotate such scripts

import mxnet as mx
import patterns

import horovod.mxnet as hvd

hvd.init()
mx.random.seed(42 + hvd.rank())
(x_train, y_train), (x_test, y_test) = patterns.load_data(hvd.rank())
train_data = mx.io.NDArrayIter(x_train.reshape(-1, 784) / 255.0, y_train, 32, shuffle=True, label_name="softmax_label")
val_data = mx.io.NDArrayIter(x_test.reshape(-1, 784) / 255.0, y_test, 32, label_name="softmax_label")

net = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=32)
net = mx.sym.FullyConnected(mx.sym.Activation(net, act_type="relu"), num_hidden=10)
net = mx.sym.SoftmaxOutput(net, name="softmax")
mod = mx.mod.Module(symbol=net, context=mx.cpu())

# Horovod: wrap optimizer with DistributedOptimizer
opt = mx.optimizer.create("sgd", learning_rate=0.05 * hvd.size(), momentum=0.9, rescale_grad=1.0 / 32)
opt = hvd.DistributedOptimizer(opt)

mod.bind(data_shapes=train_data.provide_data, label_shapes=train_data.provide_label)
mod.init_params(mx.init.Xavier())
# Horovod: fetch and broadcast parameters
arg_params, aux_params = mod.get_params()
if arg_params is not None:
    hvd.broadcast_parameters(arg_params, root_rank=0)
if aux_params is not None:
    hvd.broadcast_parameters(aux_params, root_rank=0)
mod.set_params(arg_params=arg_params, aux_params=aux_params)

mod.fit(train_data, kvstore=None, num_epoch=4, optimizer=opt)
print("accuracy", mod.score(val_data, mx.metric.Accuracy())[0][1], flush=True)
