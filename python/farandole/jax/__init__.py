"""Farandole for JAX: ``import farandole.jax as hvd``.

Collectives take trees of arrays, outside of compiled functions and inside of them, on the CPU. Arrays on another device
go through host memory outside of compiled functions, and cannot be reduced inside of them yet.
"""

from farandole.core.collectives import barrier, join
from farandole.core.objects import allgather_object, broadcast_object
from farandole.core.reduce_ops import Adasum, Average, Max, Min, Product, Sum
from farandole.exceptions import (
    HorovodInternalError,
    HostsUpdatedInterrupt,
    InitializationError,
    NotInitializedError,
    PeerLostError,
    TensorMismatchError,
    UnsupportedOperationError,
)
from farandole.jax import elastic
from farandole.jax.collectives import allgather, allreduce, alltoall, broadcast, reducescatter
from farandole.jax.compression import Compression
from farandole.jax.functions import broadcast_parameters
from farandole.jax.gradients import distributed_gradients, grad, value_and_grad
from farandole.process.basics import (
    cross_rank,
    cross_size,
    is_homogeneous,
    is_initialized,
    local_rank,
    local_size,
    rank,
    size,
    start_timeline,
    stop_timeline,
)
from farandole.process_sets import ProcessSet, add_process_set, global_process_set, remove_process_set
from farandole.session.init import init, shutdown
from farandole.version import __version__

__all__ = [
    "Adasum",
    "Average",
    "Compression",
    "HorovodInternalError",
    "HostsUpdatedInterrupt",
    "InitializationError",
    "Max",
    "Min",
    "NotInitializedError",
    "PeerLostError",
    "ProcessSet",
    "Product",
    "Sum",
    "TensorMismatchError",
    "UnsupportedOperationError",
    "__version__",
    "add_process_set",
    "allgather",
    "allgather_object",
    "allreduce",
    "alltoall",
    "barrier",
    "broadcast",
    "broadcast_object",
    "broadcast_parameters",
    "cross_rank",
    "cross_size",
    "distributed_gradients",
    "elastic",
    "global_process_set",
    "grad",
    "init",
    "is_homogeneous",
    "is_initialized",
    "join",
    "local_rank",
    "local_size",
    "rank",
    "reducescatter",
    "remove_process_set",
    "shutdown",
    "size",
    "start_timeline",
    "stop_timeline",
    "value_and_grad",
]
