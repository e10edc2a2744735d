"""Arguments of every public name of Horovod 0.28.1 that farandole.torch has, in their order and with their defaults.

G stands for global_process_set and C for Compression. `*` in front of a name: a class, whose constructor is meant.
"""

from __future__ import annotations

BASICS = {
    "init": "comm=None, process_sets=None",
    "shutdown": "",
    "is_initialized": "",
    "start_timeline": "file_path, mark_cycles=False",
    "stop_timeline": "",
    "size": "",
    "local_size": "",
    "cross_size": "",
    "rank": "",
    "local_rank": "",
    "cross_rank": "",
    "is_homogeneous": "",
    "mpi_threads_supported": "",
    "mpi_enabled": "",
    "mpi_built": "",
    "gloo_enabled": "",
    "gloo_built": "",
    "nccl_built": "",
    "ddl_built": "",
    "ccl_built": "",
    "cuda_built": "",
    "rocm_built": "",
    "*ProcessSet": "ranks_or_comm",
    "ProcessSet.size": "self",
    "ProcessSet.rank": "self",
    "ProcessSet.included": "self",
    "add_process_set": "process_set",
    "remove_process_set": "process_set",
}

OPERATIONS = {
    "allreduce": "tensor, average=None, name=None, compression=C.none, op=None, prescale_factor=1.0,"
    " postscale_factor=1.0, process_set=G",
    "allreduce_async": "tensor, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0,"
    " process_set=G",
    "allreduce_": "tensor, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0, process_set=G",
    "allreduce_async_": "tensor, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0,"
    " process_set=G",
    "grouped_allreduce": "tensors, average=None, name=None, compression=C.none, op=None, prescale_factor=1.0,"
    " postscale_factor=1.0, process_set=G",
    "grouped_allreduce_async": "tensors, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0,"
    " process_set=G",
    "grouped_allreduce_": "tensors, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0,"
    " process_set=G",
    "grouped_allreduce_async_": "tensors, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0,"
    " process_set=G",
    "sparse_allreduce_async": "tensor, name, op, process_set=G",
    "allgather": "tensor, name=None, process_set=G",
    "allgather_async": "tensor, name=None, process_set=G",
    "grouped_allgather": "tensors, name=None, process_set=G",
    "grouped_allgather_async": "tensors, name=None, process_set=G",
    "broadcast": "tensor, root_rank, name=None, process_set=G",
    "broadcast_async": "tensor, root_rank, name=None, process_set=G",
    "broadcast_": "tensor, root_rank, name=None, process_set=G",
    "broadcast_async_": "tensor, root_rank, name=None, process_set=G",
    "alltoall": "tensor, splits=None, name=None, process_set=G",
    "alltoall_async": "tensor, splits=None, name=None, process_set=G",
    "reducescatter": "tensor, name=None, compression=C.none, op=Average, process_set=G, prescale_factor=1.0,"
    " postscale_factor=1.0",
    "reducescatter_async": "tensor, name=None, op=Average, process_set=G, prescale_factor=1.0, postscale_factor=1.0",
    "grouped_reducescatter": "tensors, name=None, compression=C.none, op=Average, process_set=G, prescale_factor=1.0,"
    " postscale_factor=1.0",
    "grouped_reducescatter_async": "tensors, name=None, op=Average, process_set=G, prescale_factor=1.0,"
    " postscale_factor=1.0",
    "join": "device=-1",
    "barrier": "process_set=G",
    "poll": "handle",
    "synchronize": "handle",
    "_check_has_gpu": "",
}

FUNCTIONS = {
    "broadcast_parameters": "params, root_rank",
    "broadcast_optimizer_state": "optimizer, root_rank, model=None",
    "broadcast_object": "obj, root_rank=0, name=None, process_set=G",
    "allgather_object": "obj, name=None",
    "DistributedOptimizer": "optimizer, named_parameters=None, compression=C.none, backward_passes_per_step=1,"
    " op=Average, gradient_predivide_factor=1.0, num_groups=0, groups=None, sparse_as_dense=False, process_set=G",
    "*SyncBatchNorm": "num_features, eps=1e-05, momentum=0.1, affine=True, track_running_stats=True",
    "*elastic.TorchState": "model=None, optimizer=None, **kwargs",
    "*elastic.ElasticSampler": "dataset, shuffle=True, seed=0",
    "elastic.run": "func",
    "Compression.none.compress": "tensor",
    "Compression.none.decompress": "tensor, ctx",
    "Compression.fp16.compress": "tensor",
    "Compression.fp16.decompress": "tensor, ctx",
    "*HostsUpdatedInterrupt": "skip_sync",
    "*HorovodVersionMismatchError": "name, version, installed_version",
}

# What Horovod's have not comes after theirs, and by name only.
OURS = {"DistributedOptimizer": "*, synchronize_in_backward=True"}

ALL = {**BASICS, **OPERATIONS, **FUNCTIONS}

CONSTANTS = {"Average": 0, "Sum": 1, "Adasum": 2, "Min": 3, "Max": 4, "Product": 5}

ERRORS = {
    "HorovodInternalError": RuntimeError,
    "HostsUpdatedInterrupt": RuntimeError,
    "HorovodVersionMismatchError": ImportError,
}
