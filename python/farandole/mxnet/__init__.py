"""Farandole for MXNet 1.x, with the interface of horovod.mxnet: ``import farandole.mxnet as hvd``.

MXNet is retired; this is for scripts that are there. Arrays on a GPU go through host memory. What reads a result waits
for it, and gets the error of the operation that made it.
"""

from farandole.core.reduce_ops import Average, Max, Min, Product, Sum
from farandole.exceptions import HorovodInternalError, InitializationError, NotInitializedError, TensorMismatchError
from farandole.mxnet.compression import Compression
from farandole.mxnet.functions import (
    allgather_object,
    broadcast_object,
    broadcast_parameters,
    remove_process_set,
    shutdown,
)
from farandole.mxnet.operations import (
    allgather,
    allreduce,
    allreduce_,
    alltoall,
    broadcast,
    broadcast_,
    grouped_allgather,
    grouped_allreduce,
    grouped_allreduce_,
    grouped_reducescatter,
    reducescatter,
)
from farandole.mxnet.optimizer import DistributedOptimizer
from farandole.mxnet.trainer import DistributedTrainer
from farandole.process.basics import (
    ccl_built,
    cross_rank,
    cross_size,
    cuda_built,
    ddl_built,
    gloo_built,
    gloo_enabled,
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
from farandole.process_sets import ProcessSet, add_process_set, global_process_set
from farandole.session.init import init
from farandole.version import __version__

__all__ = [
    "Average",
    "Compression",
    "DistributedOptimizer",
    "DistributedTrainer",
    "HorovodInternalError",
    "InitializationError",
    "Max",
    "Min",
    "NotInitializedError",
    "ProcessSet",
    "Product",
    "Sum",
    "TensorMismatchError",
    "__version__",
    "add_process_set",
    "allgather",
    "allgather_object",
    "allreduce",
    "allreduce_",
    "alltoall",
    "broadcast",
    "broadcast_",
    "broadcast_object",
    "broadcast_parameters",
    "ccl_built",
    "cross_rank",
    "cross_size",
    "cuda_built",
    "ddl_built",
    "global_process_set",
    "gloo_built",
    "gloo_enabled",
    "grouped_allgather",
    "grouped_allreduce",
    "grouped_allreduce_",
    "grouped_reducescatter",
    "init",
    "is_initialized",
    "local_rank",
    "local_size",
    "mpi_built",
    "mpi_enabled",
    "mpi_threads_supported",
    "nccl_built",
    "rank",
    "reducescatter",
    "remove_process_set",
    "rocm_built",
    "shutdown",
    "size",
    "start_timeline",
    "stop_timeline",
]
