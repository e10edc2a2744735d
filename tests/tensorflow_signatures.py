"""Arguments of every public name of Horovod 0.28.1's module for TensorFlow, in their order and with their defaults.

As in torch_signatures.py, where those are that all front ends have.
"""

from __future__ import annotations

OPERATIONS = {
    "allreduce": "tensor, average=None, device_dense='', device_sparse='', compression=C.none, op=None,"
    " prescale_factor=1.0, postscale_factor=1.0, name=None, process_set=G, ignore_name_scope=False",
    "grouped_allreduce": "tensors, average=None, device_dense='', device_sparse='', compression=C.none, op=None,"
    " prescale_factor=1.0, postscale_factor=1.0, process_set=G, ignore_name_scope=False, name=None",
    "allgather": "tensor, name=None, ignore_name_scope=False, process_set=G",
    "grouped_allgather": "tensors, name=None, ignore_name_scope=False, process_set=G",
    "broadcast": "tensor, root_rank, name=None, ignore_name_scope=False, process_set=G",
    "broadcast_": "variables, root_rank, name=None, process_set=G",
    "alltoall": "tensor, splits=None, name=None, ignore_name_scope=False, process_set=G",
    "reducescatter": "tensor, device_dense='', compression=C.none, op=Average, name=None, process_set=G,"
    " ignore_name_scope=False, prescale_factor=1.0, postscale_factor=1.0",
    "grouped_reducescatter": "tensors, device_dense='', compression=C.none, op=Average, process_set=G,"
    " prescale_factor=1.0, postscale_factor=1.0",
    "size_op": "process_set_id=0, name=None",
    "local_size_op": "name=None",
    "rank_op": "name=None",
    "local_rank_op": "name=None",
    "process_set_included_op": "process_set_id=0, name=None",
}

FUNCTIONS = {
    "broadcast_global_variables": "root_rank",
    "*BroadcastGlobalVariablesHook": "root_rank, device=''",
    "broadcast_variables": "variables, root_rank, process_set=G, inplace=False",
    "broadcast_object": "obj, root_rank=0, session=None, name=None, process_set=G",
    "broadcast_object_fn": "root_rank=0, session=None, name=None, process_set=G",
    "allgather_object": "obj, session=None, name=None, process_set=G",
    "DistributedOptimizer": "optimizer, name=None, use_locking=False, device_dense='', device_sparse='',"
    " compression=C.none, sparse_as_dense=False, backward_passes_per_step=1, op=Average,"
    " gradient_predivide_factor=1.0, average_aggregated_gradients=False, num_groups=0, groups=None, process_set=G,"
    " scale_local_gradients=True",
    "DistributedGradientTape": "gradtape, device_dense='', device_sparse='', compression=C.none, sparse_as_dense=False,"
    " op=Average, gradient_predivide_factor=1.0, num_groups=0, groups=None, process_set=G, scale_local_gradients=True",
    "PartialDistributedGradientTape": "gradtape, device_dense='', device_sparse='', compression=C.none,"
    " sparse_as_dense=False, op=Average, gradient_predivide_factor=1.0, num_groups=0, groups=None, process_set=G,"
    " local_layers=None, scale_local_gradients=True",
    "*SyncBatchNormalization": "fused=False, **kwargs",
    "gpu_available": "ext_base_name, verbose=False",
    "check_num_rank_power_of_2": "num_rank",
    "*elastic.TensorFlowState": "variables=None, session=None, **kwargs",
    "*elastic.TensorFlowKerasState": "model, optimizer=None, backend=None, **kwargs",
    "elastic.run": "func",
    "Compression.none.compress": "tensor",
    "Compression.none.decompress": "tensor, ctx",
    "Compression.fp16.compress": "tensor",
    "Compression.fp16.decompress": "tensor, ctx",
}

ALL = {**OPERATIONS, **FUNCTIONS}

DATA = {
    "compute_service.tf_data_service": "compute_config, rank",
    "compute_service.send_to_data_service": "dataset, compute_config, rank, size=None,"
    " processing_mode='distributed_epoch', reuse_dataset=False, round_robin=False",
    "compute_service.compute_worker_fn": "compute_config",
    "compute_service.TfDataServiceConfig": "dispatchers, workers_per_dispatcher, dispatcher_side, addresses, key,"
    " timeout=60",
    "compute_service.TfDataServiceConfig.compute_client": "self, verbose=1",
    "compute_service.TfDataServiceConfig.from_dict": "config",
    "compute_service.TfDataServiceConfig.write": "self, filename",
    "compute_service.TfDataServiceConfig.read": "filename, wait_for_file_creation=False",
    "compute_worker.main": "dispatchers, dispatcher_side, configfile, timeout",
}

TAPE = {
    "gradient": "target, sources, output_gradients=None, use_generic_names=False",
    "register_local_source": "source",
    "get_local_and_global_gradients": "target, sources, output_gradients=None, use_generic_names=False",
}
