"""Farandole for PyTorch, with the interface of horovod.torch: ``import farandole.torch as hvd``.

Tensors live on the CPU; one that is not contiguous, or lives on another device, goes through a contiguous copy in host
memory.
"""

from farandole._basics import (
    cross_rank,
    cross_size,
    init,
    is_homogeneous,
    is_initialized,
    local_rank,
    local_size,
    rank,
    shutdown,
    size,
    start_timeline,
    stop_timeline,
)
from farandole.exceptions import (
    HorovodInternalError,
    InitializationError,
    NotInitializedError,
    PeerLostError,
    TensorMismatchError,
)
from farandole.process_sets import ProcessSet, add_process_set, global_process_set, remove_process_set
from farandole.torch.collectives import (
    allgather,
    allreduce,
    alltoall,
    broadcast,
    grouped_allreduce,
    reducescatter,
)
from farandole.torch.compression import Compression
from farandole.torch.functions import (
    allgather_object,
    broadcast_object,
    broadcast_optimizer_state,
    broadcast_parameters,
)
from farandole.torch.operations import (
    allgather_async,
    allreduce_,
    allreduce_async,
    allreduce_async_,
    alltoall_async,
    barrier,
    broadcast_,
    broadcast_async,
    broadcast_async_,
    grouped_allreduce_,
    grouped_allreduce_async,
    grouped_allreduce_async_,
    join,
    poll,
    reducescatter_async,
    synchronize,
)
from farandole.torch.optimizer import DistributedOptimizer
from farandole.torch.reduce_ops import Adasum, Average, Max, Min, Product, Sum
from farandole.torch.sync_batch_norm import SyncBatchNorm
from farandole.version import __version__

__all__ = [
    "Adasum",
    "Average",
    "Compression",
    "DistributedOptimizer",
    "HorovodInternalError",
    "InitializationError",
    "Max",
    "Min",
    "NotInitializedError",
    "PeerLostError",
    "ProcessSet",
    "Product",
    "Sum",
    "SyncBatchNorm",
    "TensorMismatchError",
    "__version__",
    "add_process_set",
    "allgather",
    "allgather_async",
    "allgather_object",
    "allreduce",
    "allreduce_",
    "allreduce_async",
    "allreduce_async_",
    "alltoall",
    "alltoall_async",
    "barrier",
    "broadcast",
    "broadcast_",
    "broadcast_async",
    "broadcast_async_",
    "broadcast_object",
    "broadcast_optimizer_state",
    "broadcast_parameters",
    "cross_rank",
    "cross_size",
    "global_process_set",
    "grouped_allreduce",
    "grouped_allreduce_",
    "grouped_allreduce_async",
    "grouped_allreduce_async_",
    "init",
    "is_homogeneous",
    "is_initialized",
    "join",
    "local_rank",
    "local_size",
    "poll",
    "rank",
    "reducescatter",
    "reducescatter_async",
    "remove_process_set",
    "shutdown",
    "size",
    "start_timeline",
    "stop_timeline",
    "synchronize",
]
