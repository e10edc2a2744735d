"""A script as users write it, for mypy: what it says is checked by `make lint`, and not run.

Lines that end in `type: ignore` are wrong on purpose: mypy complains if it has nothing to ignore there.
"""

from __future__ import annotations

from typing import Any

import torch
from typing_extensions import assert_type

import farandole
import farandole.torch as hvd
import horovod
import horovod.torch
from farandole.data import AsyncDataLoaderMixin, BaseDataLoader
from farandole.exceptions import RunError
from farandole.torch import elastic
from farandole.torch.adasum_optimizer import DistributedAdasumOptimizer
from horovod.common.exceptions import HorovodInternalError
from horovod.torch.compression import Compression


def collectives(tensor: torch.Tensor) -> None:
    hvd.init()
    assert_type(hvd.rank(), int)
    assert_type(hvd.allreduce(tensor, op=hvd.Sum, name="a", process_set=hvd.global_process_set), torch.Tensor)
    assert_type(hvd.synchronize(hvd.allreduce_async_(tensor)), Any)
    assert_type(hvd.grouped_allreduce([tensor, tensor]), "tuple[torch.Tensor, ...]")
    assert_type(hvd.allgather_object({"rank": hvd.rank()}), list[Any])
    hvd.barrier()
    hvd.allreduce("no tensor")  # type: ignore[arg-type]
    hvd.no_such_function()  # type: ignore[attr-defined]


def optimizer(model: torch.nn.Module) -> None:
    wrapped = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.1),
        named_parameters=model.named_parameters(),
        compression=hvd.Compression.fp16,
        backward_passes_per_step=2,
    )
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(wrapped, root_rank=0)
    wrapped.set_backward_passes_per_step(1)
    assert_type(wrapped.backward_passes_per_step, int)
    wrapped.zero_grad(set_to_none=True)
    wrapped.synchronize()
    with wrapped.skip_synchronize():
        wrapped.step()
    torch.optim.lr_scheduler.StepLR(wrapped, 1)
    assert_type(wrapped.param_groups, list[dict[str, Any]])
    wrapped.synchronise()  # type: ignore[union-attr]


def adasum(model: torch.nn.Module) -> None:
    ours = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters()), op=hvd.Adasum)
    horovods = horovod.torch.DistributedOptimizer(torch.optim.SGD(model.parameters()), op=horovod.torch.Adasum)
    for wrapped in (ours, horovods):
        wrapped.synchronize()
        if isinstance(wrapped, DistributedAdasumOptimizer):
            assert_type(wrapped, DistributedAdasumOptimizer)
            wrapped.synchronize()
            wrapped.set_backward_passes_per_step(wrapped.backward_passes_per_step)
            assert_type(wrapped.param_groups, list[dict[str, Any]])
            wrapped.zero_grad()
            wrapped.step()
            wrapped.synchronise()  # type: ignore[attr-defined]


def horovods_names(model: torch.nn.Module) -> None:
    wrapped = horovod.torch.DistributedOptimizer(
        torch.optim.SGD(model.parameters()), model.named_parameters(), compression=Compression.none
    )
    wrapped.synchronize()
    try:
        assert_type(horovod.torch.size(), int)
        horovod.torch.mpi_ops.allreduce(torch.ones(1))
    except HorovodInternalError:
        horovod.torch.shutdown()
    horovod.run(print, np=2)


def functions() -> None:
    try:
        assert_type(farandole.run(lambda: 1, np=2), list[Any])
    except RunError as error:
        assert_type(error.rank, "int | None")


@elastic.run
def train(state: elastic.TorchState) -> None:
    state.commit()


class Loader(AsyncDataLoaderMixin, BaseDataLoader):
    def __len__(self) -> int:
        return 1

    def _iterate(self) -> list[int]:
        return [1]
