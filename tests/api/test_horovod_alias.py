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


def test_helpers(tmp_path: Path) -> None:
    job = alias(
        tmp_path,
        """
        from horovod.common import util
        from horovod.common.basics import HorovodBasics
        names = ("mpi_built", "gloo_built", "nccl_built", "ddl_built", "ccl_built", "cuda_built", "rocm_built")
        assert all(getattr(util, name)(verbose=True) == getattr(hvd, name)() for name in names)
        util.check_extension("horovod.torch", "HOROVOD_WITH_PYTORCH", __file__, "mpi_lib_v2")
        try:
            util.check_extension("horovod.mxnet", "HOROVOD_WITH_MXNET", __file__, "mpi_lib")
        except ImportError as error:
            assert "does not support MXNet" in str(error)
        else:
            raise AssertionError("mxnet")
        assert util.gpu_available("torch") == torch.cuda.is_available()
        os.environ["THERE"] = "1"
        with util.env(THERE=None, NEW="2"):
            assert "THERE" not in os.environ and os.environ["NEW"] == "2"
        assert os.environ["THERE"] == "1" and "NEW" not in os.environ
        assert [n for n in range(-1, 10) if util.num_rank_is_power_2(n)] == [1, 2, 4, 8]
        assert util.split_list(list(range(7)), 3) == [[0, 1, 2], [3, 4], [5, 6]]
        assert util.split_list([1, 2], 4) == [[1], [2]]
        assert util.is_iterable("a") and util.is_iterable([]) and not util.is_iterable(5)

        basics = HorovodBasics(__file__, "mpi_lib_v2")
        basics.init()
        assert hvd.is_initialized() and basics.rank() == 0 == basics.local_rank() and basics.size() == 1
        assert basics.is_homogeneous() and basics.mpi_threads_supported() == hvd.mpi_threads_supported()
        basics.shutdown()
        assert not hvd.is_initialized()
        print("well")
        """,
    )
    assert job.lines("well"), job.report()
