"""Farandole for TensorFlow, with the interface of horovod.tensorflow: ``import farandole.tensorflow as hvd``.

Keras has `farandole.tensorflow.keras`. Tensors on a GPU go through host memory.
"""

from farandole.core.collectives import join
from farandole.core.reduce_ops import Adasum, Average, Max, Min, Product, Sum
from farandole.exceptions import (
    HorovodInternalError,
    HostsUpdatedInterrupt,
    InitializationError,
    NotInitializedError,
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
from farandole.tensorflow import elastic
from farandole.tensorflow.compression import Compression
from farandole.tensorflow.functions import (
    BroadcastGlobalVariablesHook,
    allgather_object,
    broadcast_,
    broadcast_global_variables,
    broadcast_object,
    broadcast_object_fn,
    broadcast_variables,
)
from farandole.tensorflow.gradient_tape import DistributedGradientTape, PartialDistributedGradientTape
from farandole.tensorflow.installation import check_num_rank_power_of_2, gpu_available
from farandole.tensorflow.operations import (
    allgather,
    allreduce,
    alltoall,
    broadcast,
    grouped_allgather,
    grouped_allreduce,
    grouped_reducescatter,
    local_rank_op,
    local_size_op,
    process_set_included_op,
    rank_op,
    reducescatter,
    size_op,
)
from farandole.tensorflow.optimizer import DistributedOptimizer
from farandole.tensorflow.sync_batch_norm import SyncBatchNormalization
from farandole.version import __version__

__all__ = [
    "Adasum",
    "Average",
    "BroadcastGlobalVariablesHook",
    "Compression",
    "DistributedGradientTape",
    "DistributedOptimizer",
    "HorovodInternalError",
    "HostsUpdatedInterrupt",
    "InitializationError",
    "Max",
    "Min",
    "NotInitializedError",
    "PartialDistributedGradientTape",
    "ProcessSet",
    "Product",
    "Sum",
    "SyncBatchNormalization",
    "__version__",
    "add_process_set",
    "allgather",
    "allgather_object",
    "allreduce",
    "alltoall",
    "broadcast",
    "broadcast_",
    "broadcast_global_variables",
    "broadcast_object",
    "broadcast_object_fn",
    "broadcast_variables",
    "ccl_built",
    "check_num_rank_power_of_2",
    "cross_rank",
    "cross_size",
    "cuda_built",
    "elastic",
    "ddl_built",
    "global_process_set",
    "gloo_built",
    "gloo_enabled",
    "gpu_available",
    "grouped_allgather",
    "grouped_allreduce",
    "grouped_reducescatter",
    "init",
    "is_homogeneous",
    "is_initialized",
    "join",
    "local_rank",
    "local_rank_op",
    "local_size",
    "local_size_op",
    "mpi_built",
    "mpi_enabled",
    "mpi_threads_supported",
    "nccl_built",
    "process_set_included_op",
    "rank",
    "rank_op",
    "reducescatter",
    "remove_process_set",
    "rocm_built",
    "shutdown",
    "size",
    "size_op",
    "start_timeline",
    "stop_timeline",
]
