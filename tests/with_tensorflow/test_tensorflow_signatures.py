"""A script that calls Horovod's functions for TensorFlow by position or by name calls ours with the same meaning."""

from __future__ import annotations

import inspect
import operator
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import processes
import pytest
import tensorflow as tf
import tensorflow_signatures as table
import torch_signatures as common

import farandole.tensorflow as hvd
from farandole.tensorflow import data
from farandole.tensorflow.data import compute_service, compute_worker

NAMES = {**{name: getattr(hvd, name) for name in common.CONSTANTS}, "G": hvd.global_process_set, "C": hvd.Compression}


def wanted(text: str) -> list[tuple[str, str, object]]:
    """(name, kind, default) of each argument."""
    function: dict = {}
    exec(f"def f({text}): pass", dict(NAMES), function)
    return arguments(function["f"])


def arguments(function: object) -> list[tuple[str, str, object]]:
    return [(p.name, p.kind.name, p.default) for p in inspect.signature(function).parameters.values()]


@pytest.mark.parametrize("name", [*table.ALL, *common.BASICS])
def test_arguments(name: str) -> None:
    function = operator.attrgetter(name.lstrip("*"))(hvd)
    if name.startswith("*"):
        assert inspect.isclass(function)
    assert arguments(function) == wanted({**common.BASICS, **table.ALL}[name])


@pytest.mark.parametrize("name", table.TAPE)
def test_arguments_of_a_tape(name: str) -> None:
    for make in (hvd.DistributedGradientTape, hvd.PartialDistributedGradientTape):
        assert arguments(getattr(make(tf.GradientTape()), name)) == wanted(table.TAPE[name])


@pytest.mark.parametrize("name", table.DATA)
def test_arguments_of_the_data_service(name: str) -> None:
    assert (data.compute_service, data.compute_worker) == (compute_service, compute_worker)
    assert arguments(operator.attrgetter(name)(data)) == wanted(table.DATA[name])


def test_constants_and_what_is_left_out() -> None:
    assert {name: getattr(hvd, name) for name in common.CONSTANTS} == common.CONSTANTS
    assert hvd.join is not None and issubclass(hvd.HorovodInternalError, RuntimeError)
    absent = ["barrier", "poll", "synchronize", "allreduce_async", "sparse_allreduce_async", "broadcast_parameters"]
    assert not [name for name in absent if hasattr(hvd, name)]
    assert set(hvd.__all__) <= set(dir(hvd)) and len(set(hvd.__all__)) == len(hvd.__all__)
    assert not hvd.gpu_available("tensorflow") or tf.config.list_physical_devices("GPU")
    assert [n for n in range(-1, 10) if hvd.check_num_rank_power_of_2(n)] == [1, 2, 4, 8]


ALIASES = """
    import importlib
    import horovod.tensorflow as other
    import farandole.tensorflow as hvd
    assert other is hvd and other.mpi_ops is hvd
    from horovod.tensorflow.mpi_ops import Average, allreduce, rank
    assert allreduce is hvd.allreduce
    from horovod.tensorflow.compression import Compression
    from horovod.tensorflow.functions import broadcast_object, broadcast_variables
    from horovod.tensorflow.sync_batch_norm import SyncBatchNormalization
    from horovod.tensorflow.elastic import TensorFlowKerasState, TensorFlowState, run
    assert Compression is hvd.Compression and broadcast_variables is hvd.broadcast_variables
    assert SyncBatchNormalization is hvd.SyncBatchNormalization and run is hvd.elastic.run
    from horovod.tensorflow.data.compute_service import TfDataServiceConfig
    assert TfDataServiceConfig.__module__ == "farandole.tensorflow.data.compute_service"
    import runpy
    sys.argv[1:] = ["--help"]
    try:
        runpy.run_module("horovod.tensorflow.data.compute_worker", run_name="__main__", alter_sys=True)
    except SystemExit as end:
        assert end.code == 0
    for name in ("gradient_aggregation", "gradient_aggregation_eager", "util"):
        try:
            importlib.import_module("horovod.tensorflow." + name)
        except ImportError as error:
            assert "use" in str(error), error
        else:
            raise AssertionError(name)
    from horovod.common.util import extension_available, gpu_available
    assert extension_available("tensorflow") and not gpu_available("tensorflow")
    hvd.init()
    print("well")
"""


def test_names_of_horovod(tmp_path: object) -> None:
    path = os.pathsep.join(str(processes.ROOT / folder) for folder in ("python", "alias", "tests"))
    job = processes.python(tmp_path, ALIASES, PYTHONPATH=path)
    assert job.lines("well"), job.report()
