"""Training loops of many kinds that repeat themselves, and between two of them a step that does not, so that each has a
replay of its own. Every value is small and whole, so sums are exact."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import no_compiler
import torch

import farandole.torch as hvd

STEPS = 30


def network() -> torch.nn.Sequential:
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))


def optimizer_of(model: torch.nn.Module, prefix: str, **options: object) -> torch.optim.Optimizer:
    named = [(f"{prefix}.{name}", parameter) for name, parameter in model.named_parameters()]
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    return hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.01), named, **options)


def loss_of(model: torch.nn.Module, step: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(100 * step + hvd.rank())
    return model(torch.randn(4, 8, generator=generator)).square().mean()


def check_same(model: torch.nn.Module) -> None:
    """All ranks have the same parameters."""
    for name, parameter in model.named_parameters():
        others = hvd.allgather(parameter.detach().reshape(1, -1), name=f"check.{name}")
        assert all(torch.equal(other, others[0]) for other in others), name


def several_optimizers() -> None:
    """As in adversarial training: two models, two optimizers, one step of each in turn."""
    models = [network(), network()]
    optimizers = [optimizer_of(model, f"model{i}") for i, model in enumerate(models)]
    for step in range(STEPS):
        for model, optimizer in zip(models, optimizers):
            optimizer.zero_grad()
            loss_of(model, step).backward()
            optimizer.step()
    for model in models:
        check_same(model)


def accumulation() -> None:
    """Only every third backward pass communicates."""
    model = network()
    optimizer = optimizer_of(model, "accumulated", backward_passes_per_step=3)
    for step in range(STEPS):
        optimizer.zero_grad()
        for part in range(3):
            loss_of(model, 3 * step + part).backward()
        optimizer.step()
    check_same(model)


def evaluation_between_epochs() -> None:
    """An average of a metric, gathered predictions of other sizes on each rank, and a barrier after each epoch."""
    model = network()
    optimizer = optimizer_of(model, "evaluated")
    for epoch in range(3):
        for step in range(STEPS):
            optimizer.zero_grad()
            loss_of(model, step).backward()
            optimizer.step()
        with torch.no_grad():
            hvd.allreduce(loss_of(model, 0).detach(), name="metric")
            predictions = hvd.allgather(torch.full((hvd.rank() + epoch,), float(hvd.rank())), name="predictions")
        assert predictions.numel() == sum(rank + epoch for rank in range(hvd.size()))
        hvd.barrier()
    check_same(model)


def process_sets() -> None:
    """Some tensors are summed by all, some by a set."""
    some = hvd.add_process_set(range(1, hvd.size()))
    for _ in range(2 * STEPS):
        handles = [(hvd.allreduce_async(torch.ones(10), name="of_all", op=hvd.Sum), hvd.size())]
        if some.included():
            of_some = hvd.allreduce_async(torch.ones(20), name="of_some", op=hvd.Sum, process_set=some)
            handles.append((of_some, hvd.size() - 1))
        for handle, expected in handles:
            assert set(hvd.synchronize(handle).tolist()) == {float(expected)}
    assert hvd.remove_process_set(some)


def groups() -> None:
    for _ in range(STEPS):
        tensors = [torch.full((size,), float(hvd.rank())) for size in (3, 5, 7)]
        lone = hvd.allreduce_async(torch.ones(2), name="lone", op=hvd.Sum)
        for summed in hvd.grouped_allreduce(tensors, op=hvd.Sum, name="trio"):
            assert set(summed.tolist()) == {float(sum(range(hvd.size())))}
        assert hvd.synchronize(lone).tolist() == [hvd.size()] * 2


def reducescatter() -> None:
    """As in training with sharded optimizer states, and the greatest norm beside it."""
    rows = [part.tolist() for part in torch.arange(7.0).tensor_split(hvd.size())]
    for step in range(STEPS):
        norm = hvd.allreduce_async(torch.tensor([float(hvd.rank() + step)]), name="norm", op=hvd.Max)
        own = hvd.reducescatter(torch.arange(7.0), name="sharded", op=hvd.Sum)
        assert own.tolist() == [hvd.size() * value for value in rows[hvd.rank()]]
        assert hvd.synchronize(norm).item() == hvd.size() - 1 + step


def varying_allgather() -> None:
    """Stays negotiated, beside gradients that repeat themselves."""
    for step in range(STEPS):
        handle = hvd.allreduce_async(torch.ones(10), name="beside", op=hvd.Sum)
        rows = (step + hvd.rank()) % 4
        gathered = hvd.allgather(torch.full((rows,), float(hvd.rank())), name="varying")
        assert gathered.numel() == sum((step + rank) % 4 for rank in range(hvd.size()))
        assert hvd.synchronize(handle).tolist() == [hvd.size()] * 10


def join_at_the_end() -> None:
    """Rank r has r more steps than rank 0."""
    for epoch in range(2):
        for step in range(STEPS + hvd.rank()):
            total = hvd.allreduce(torch.ones(5), name="uneven", op=hvd.Sum)
            there = hvd.size() - max(0, step - STEPS + 1)
            assert total.tolist() == [there] * 5, (epoch, step)
        assert hvd.join() == hvd.size() - 1


REPLAYED = [several_optimizers, accumulation, evaluation_between_epochs, process_sets, groups, reducescatter]
REPLAYED += [join_at_the_end]
NEGOTIATED = [varying_allgather]


def wait_until_seen(part: str) -> None:
    """The test makes a file of this name when it has looked at the job."""
    for _ in range(6000):
        if Path(part).exists():
            return
        time.sleep(0.01)
    sys.exit(f"nobody made {part}")


def main() -> None:
    hvd.init()
    for part in REPLAYED + NEGOTIATED:
        part()
        hvd.barrier()
        print(f"{part.__name__} done on rank {hvd.rank()}", flush=True)
        wait_until_seen(part.__name__)
    hvd.shutdown()


if __name__ == "__main__":
    no_compiler.leave_out()
    main()
