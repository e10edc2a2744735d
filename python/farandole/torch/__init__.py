"""Farandole for PyTorch, with the interface of horovod.torch: ``import farandole.torch as hvd``.

Tensors live on the CPU or on a CUDA device; one that is not contiguous goes through a contiguous copy, and one on
another kind of device through host memory.
"""

from farandole.core.collectives import barrier, join
from farandole.core.handles import poll, synchronize
from farandole.core.objects import allgather_object, broadcast_object
from farandole.core.reduce_ops import Adasum, Average, Max, Min, Product, Sum
from farandole.exceptions import (
    HorovodInternalError,
    HorovodVersionMismatchError,
    HostsUpdatedInterrupt,
    InitializationError,
    NotInitializedError,
    PeerLostError,
    TensorMismatchError,
    UnsupportedOperationError,
)
from farandole.process.basics import (
    ccl_built,
    cross_rank,
    cross_size,
    cuda_built,
    ddl_built,
    gloo_built,
    gloo_enabled,
    is_homogeneous,
    is_initialized,
    local_rank,
    local_size,
    mpi_built,
    mpi_enabled,
    mpi_threads_supported,
    nccl_built,
    rank,
    rocm_built,
    size,
    start_timeline,
    stop_timeline,
)
from farandole.process_sets import ProcessSet, add_process_set, global_process_set, remove_process_set
from farandole.session.init import init, shutdown
from farandole.torch import elastic
from farandole.torch.collectives.differentiable import allgather, allreduce, alltoall, broadcast, reducescatter
from farandole.torch.collectives.differentiable_groups import (
    grouped_allgather,
    grouped_allreduce,
    grouped_reducescatter,
)
from farandole.torch.collectives.grouped import (
    grouped_allgather_async,
    grouped_allreduce_,
    grouped_allreduce_async,
    grouped_allreduce_async_,
    grouped_reducescatter_async,
)
from farandole.torch.collectives.operations import (
    allgather_async,
    allreduce_,
    allreduce_async,
    allreduce_async_,
    alltoall_async,
    broadcast_,
    broadcast_async,
    broadcast_async_,
    reducescatter_async,
)
from farandole.torch.collectives.sparse import sparse_allreduce_async
from farandole.torch.compression import Compression
from farandole.torch.functions import broadcast_optimizer_state, broadcast_parameters
from farandole.torch.memory import _check_has_gpu  # noqa: F401
from farandole.torch.optimizer import DistributedOptimizer
from farandole.torch.sync_batch_norm import SyncBatchNorm
from farandole.version import __version__

__all__ = [
    "Adasum",
    "Average",
    "Compression",
    "DistributedOptimizer",
    "HorovodInternalError",
    "HorovodVersionMismatchError",
    "HostsUpdatedInterrupt",
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
    "UnsupportedOperationError",
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
    "ccl_built",
    "cross_rank",
    "cross_size",
    "cuda_built",
    "ddl_built",
    "elastic",
    "global_process_set",
    "gloo_built",
    "gloo_enabled",
    "grouped_allgather",
    "grouped_allgather_async",
    "grouped_allreduce",
    "grouped_allreduce_",
    "grouped_allreduce_async",
    "grouped_allreduce_async_",
    "grouped_reducescatter",
    "grouped_reducescatter_async",
    "init",
    "is_homogeneous",
    "is_initialized",
    "join",
    "local_rank",
    "local_size",
    "mpi_built",
    "mpi_enabled",
    "mpi_threads_supported",
    "nccl_built",
    "poll",
    "rank",
    "reducescatter",
    "reducescatter_async",
    "remove_process_set",
    "rocm_built",
    "shutdown",
    "size",
    "sparse_allreduce_async",
    "start_timeline",
    "stop_timeline",
    "synchronize",
]
