"""Arguments of the public names of horovod.keras and horovod.tensorflow.keras (0.28.1), in order and with defaults.

G stands for global_process_set and C for Compression. `*` in front of a name: a class, whose constructor is meant.
"""

from __future__ import annotations

_WHOLE = (
    "optimizer, name=None, device_dense='', device_sparse='', compression=C.none, sparse_as_dense=False, "
    "gradient_predivide_factor=1.0, op=Average"
)
_PASSES = "backward_passes_per_step=1, average_aggregated_gradients=False"
_SCHEDULE = "start_epoch=0, end_epoch=None, staircase=True, momentum_correction=True, steps_per_epoch=None"
_REDUCED = "prescale_factor=1.0, postscale_factor=1.0, op=None, compression=C.none"
_LOADED = "filepath, custom_optimizers=None, custom_objects=None, compression=C.none, legacy_opts=False"

BOTH = {
    "init": "comm=None, process_sets=None",
    "shutdown": "",
    "is_initialized": "",
    "start_timeline": "file_path, mark_cycles=False",
    "stop_timeline": "",
    **dict.fromkeys(["size", "local_size", "cross_size", "rank", "local_rank", "cross_rank", "is_homogeneous"], ""),
    **dict.fromkeys(["mpi_threads_supported", "mpi_enabled", "mpi_built", "gloo_enabled", "gloo_built"], ""),
    **dict.fromkeys(["nccl_built", "ddl_built", "ccl_built", "cuda_built", "rocm_built"], ""),
    "*ProcessSet": "ranks_or_comm",
    "add_process_set": "process_set",
    "remove_process_set": "process_set",
    "broadcast_global_variables": "root_rank",
    "allgather": "value, name=None",
    "broadcast": "value, root_rank, name=None",
    "reducescatter": "value, name=None, op=Average",
    "load_model": _LOADED,
    "*callbacks.BroadcastGlobalVariablesCallback": "root_rank, device='', local_variables=None",
    "*callbacks.MetricAverageCallback": "device=''",
    "*callbacks.LearningRateScheduleCallback": f"initial_lr, multiplier, {_SCHEDULE}",
    "*callbacks.LearningRateWarmupCallback": "initial_lr, warmup_epochs=5, momentum_correction=True, "
    "steps_per_epoch=None, verbose=0",
    "*elastic.KerasState": "model, optimizer=None, **kwargs",
    "*elastic.CommitStateCallback": "state, batches_per_commit=1",
    "*elastic.UpdateBatchStateCallback": "state",
    "*elastic.UpdateEpochStateCallback": "state",
    "elastic.run": "func",
}

OF_KERAS = {
    **BOTH,
    "DistributedOptimizer": f"{_WHOLE}, num_groups=0, groups=None",
    "PartialDistributedOptimizer": f"{_WHOLE}, {_PASSES}, groups=None, process_set=G, local_layers=None, "
    "scale_local_gradients=True",
    "allreduce": f"value, name=None, average=True, {_REDUCED}",
    "*callbacks.BestModelCheckpoint": "monitor='val_loss', verbose=0, mode='auto', save_freq='epoch'",
}

OF_TENSORFLOW_KERAS = {
    **BOTH,
    "DistributedOptimizer": f"{_WHOLE}, {_PASSES}, num_groups=0, groups=None, process_set=G, "
    "scale_local_gradients=True",
    "allreduce": f"value, name=None, average=None, {_REDUCED}",
    "*callbacks.BestModelCheckpoint": "monitor='val_loss', verbose=0, save_weights_only=False, mode='auto', "
    "save_freq='epoch'",
}
