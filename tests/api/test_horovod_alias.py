"""The package ``horovod``: names of Horovod, objects of ours."""

from __future__ import annotations

from pathlib import Path

import processes

ALIAS = f"{processes.ROOT / 'python'}:{processes.ROOT / 'alias'}"


def alias(folder: Path, body: str, path: str = ALIAS) -> processes.Job:
    return processes.python(folder, body, PYTHONPATH=path)


def test_objects_are_ours(tmp_path: Path) -> None:
    job = alias(
        tmp_path,
        """
        import importlib, importlib.util
        import farandole, farandole.data, farandole.exceptions, farandole.process_sets
        assert importlib.util.find_spec("horovod.torch") is not None
        import horovod
        assert sorted(horovod.__all__) == ["__version__", "run"] and horovod.__version__ == "0.28.1"
        assert horovod.run is farandole.run
        import horovod.torch as other
        assert other is hvd and other.__name__ == "farandole.torch" and other.__spec__.name == "farandole.torch"
        assert horovod.torch is hvd

        # Below horovod.torch everything is there once, whatever the order of imports.
        for name in ("compression", "functions", "optimizer"):
            module = importlib.import_module("horovod.torch." + name)
            assert module is sys.modules["farandole.torch." + name], name
        from horovod.torch.mpi_ops import allreduce_async_, synchronize, is_homogeneous, Average
        assert allreduce_async_ is hvd.allreduce_async_ and Average is hvd.Average
        from horovod.torch.compression import Compression
        assert Compression is hvd.Compression

        from horovod.common.exceptions import HorovodInternalError, HorovodVersionMismatchError
        assert HorovodInternalError is hvd.HorovodInternalError
        assert issubclass(HorovodVersionMismatchError, ImportError)
        from horovod.common.process_sets import ProcessSet, global_process_set
        assert ProcessSet is hvd.ProcessSet and global_process_set is hvd.global_process_set
        from horovod.data import BaseDataLoader, AsyncDataLoaderMixin
        from horovod.data.data_loader_base import BaseDataLoader as same
        assert BaseDataLoader is same is farandole.data.BaseDataLoader
        import horovod.runner
        assert horovod.runner.run is farandole.run

        from horovod.torch.elastic import ElasticSampler, TorchState, run
        from horovod.torch.elastic.sampler import ElasticSampler as same
        assert ElasticSampler is same and TorchState.__module__ == "farandole.torch.elastic.state"
        assert hvd.elastic.run is run is sys.modules["farandole.torch.elastic"].run
        from horovod.common.elastic import ObjectState, State, run_fn
        from horovod.runner.elastic.discovery import FixedHosts, HostDiscovery, HostDiscoveryScript
        from horovod.runner.elastic.worker import HostUpdateResult
        assert HostUpdateResult.mixed == 3 and issubclass(TorchState, State)

        copies = [n for n, m in sys.modules.items() if n.startswith("horovod.torch") and m.__name__ == n]
        assert not copies, copies
        importlib.reload(hvd)
        print("well")
        """,
    )
    assert job.lines("well"), job.report()


def test_what_is_not_there_says_so(tmp_path: Path) -> None:
    job = alias(
        tmp_path,
        """
        import importlib
        import horovod
        for name, framework in (("tensorflow", "TensorFlow"), ("tensorflow.keras", "TensorFlow"), ("keras", "Keras"),
                                ("mxnet", "MXNet"), ("spark.torch", "Spark"), ("ray", "Ray")):
            try:
                importlib.import_module("horovod." + name)
            except ImportError as error:
                assert f"Farandole does not support {framework} in this release" in str(error), error
                assert error.name == "horovod." + name.split(".")[0]
            else:
                raise AssertionError(name)
        for name in ("torch.nonsense", "nonsense", "torch.functions.deeper"):
            try:
                importlib.import_module("horovod." + name)
            except ModuleNotFoundError as error:
                assert f"No module named 'horovod.{name}'" in str(error), error
            else:
                raise AssertionError(name)
        print("well")
        """,
    )
    assert job.lines("well"), job.report()


def test_refuses_to_work_beside_horovod(tmp_path: Path) -> None:
    original = tmp_path / "site" / "horovod-0.27.0.dist-info"
    original.mkdir(parents=True)
    (original / "METADATA").write_text("Metadata-Version: 2.1\nName: horovod\nVersion: 0.27.0\n")
    job = alias(tmp_path, "import horovod", f"{ALIAS}:{tmp_path / 'site'}")
    assert job.process.returncode == 1
    assert "ImportError: horovod 0.27.0 is installed, and so is farandole-horovod" in job.stderr
