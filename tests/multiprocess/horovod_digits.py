"""A script as people have them for Horovod: nothing in it knows of Farandole. Prints accuracy and ranks."""

# ruff: noqa: ANN001, ANN201 - people do not annotate such scripts

import argparse

import torch
import torch.nn.functional as F
import torch.utils.data.distributed
from sklearn.datasets import load_digits

import horovod
import horovod.torch as hvd
from horovod.torch.mpi_ops import Average

parser = argparse.ArgumentParser(description="digits")
parser.add_argument("--batch-size", type=int, default=32)
parser.add_argument("--epochs", type=int, default=6)
parser.add_argument("--lr", type=float, default=0.01)
parser.add_argument("--seed", type=int, default=42)
parser.add_argument("--fp16-allreduce", action="store_true", default=False)
parser.add_argument("--use-adasum", action="store_true", default=False)
parser.add_argument("--gradient-predivide-factor", type=float, default=1.0)
parser.add_argument("--num-proc", type=int)


def make_model():
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 10, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(360, 50), torch.nn.ReLU(),
        torch.nn.Dropout(0.1), torch.nn.Linear(50, 10),
    )  # fmt: skip


def metric_average(val, name):
    tensor = torch.tensor(val)
    avg_tensor = hvd.allreduce(tensor, name=name)
    return avg_tensor.item()


def main(args):
    hvd.init()
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)

    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16
    everything = torch.utils.data.TensorDataset(images, torch.tensor(digits.target))
    train_dataset, test_dataset = torch.utils.data.random_split(everything, [1500, 297])
    train_sampler = torch.utils.data.distributed.DistributedSampler(
        train_dataset, num_replicas=hvd.size(), rank=hvd.rank()
    )
    train_loader = torch.utils.data.DataLoader(train_dataset, batch_size=args.batch_size, sampler=train_sampler)
    test_sampler = torch.utils.data.distributed.DistributedSampler(
        test_dataset, num_replicas=hvd.size(), rank=hvd.rank()
    )
    test_loader = torch.utils.data.DataLoader(test_dataset, batch_size=100, sampler=test_sampler)

    model = make_model()
    # By default, Adasum doesn't need scaling up learning rate.
    lr_scaler = hvd.size() if not args.use_adasum else 1
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr * lr_scaler, momentum=0.9)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    compression = hvd.Compression.fp16 if args.fp16_allreduce else hvd.Compression.none
    optimizer = hvd.DistributedOptimizer(
        optimizer,
        named_parameters=model.named_parameters(),
        compression=compression,
        op=hvd.Adasum if args.use_adasum else Average,
        gradient_predivide_factor=args.gradient_predivide_factor,
    )

    for epoch in range(1, args.epochs + 1):
        model.train()
        train_sampler.set_epoch(epoch)
        for data, target in train_loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(data), target)
            loss.backward()
            optimizer.step()

    model.eval()
    test_accuracy = 0.0
    with torch.no_grad():
        for data, target in test_loader:
            pred = model(data).data.max(1, keepdim=True)[1]
            test_accuracy += pred.eq(target.data.view_as(pred)).float().sum().item()
    test_accuracy = metric_average(test_accuracy / len(test_sampler), "avg_accuracy")
    if hvd.rank() == 0:
        print(f"horovod {horovod.__version__}: accuracy {test_accuracy:.3f}, ranks {hvd.size()}", flush=True)
    return test_accuracy


if __name__ == "__main__":
    arguments = parser.parse_args()
    if arguments.num_proc:
        results = horovod.run(main, args=(arguments,), num_proc=arguments.num_proc, use_gloo=True)
        print("results", *results)
    else:
        main(arguments)
