"""The package ``horovod``: names of Horovod, objects of ours."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import processes

ALIAS = ":".join(str(processes.ROOT / folder) for folder in ("python", "alias", "tests"))


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
        assert sorted(horovod.__all__) == ["__version__", "run", "runner"] and horovod.__version__ == "0.28.1"
        assert horovod.run is farandole.run
        import horovod.torch as other
        assert horovod.runner.run is farandole.run and other.mpi_ops is hvd and other.mpi_ops.Sum == hvd.Sum
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

        hvd.init()
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1))
        assert str(type(optimizer)) == "<class 'horovod.torch.optimizer.SGD'>", type(optimizer)
        hvd.shutdown()

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
        for name, framework in (("spark.torch", "Spark"), ("ray", "Ray")):
            try:
                importlib.import_module("horovod." + name)
            except ImportError as error:
                assert f"Farandole does not support {framework} in this release" in str(error), error
                assert error.name == "horovod." + name.split(".")[0]
            else:
                raise AssertionError(name)
        import importlib.util
        for name in ("spark", "ray", "runner.driver"):
            assert importlib.util.find_spec("horovod." + name) is None, name
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


# Those of Horovod 0.28.1 that are its launcher's, of all front ends or of PyTorch's.
MODULES = """
common common.basics common.elastic common.exceptions common.process_sets common.util data data.data_loader_base runner
runner.common runner.common.service runner.common.service.compute_service runner.common.service.driver_service
runner.common.service.task_service runner.common.util runner.common.util.codec runner.common.util.config_parser
runner.common.util.env runner.common.util.host_hash runner.common.util.hosts runner.common.util.network
runner.common.util.safe_shell_exec runner.common.util.secret runner.common.util.settings runner.common.util.timeout
runner.common.util.tiny_shell_exec runner.driver runner.driver.driver_service runner.elastic runner.elastic.constants
runner.elastic.discovery runner.elastic.driver runner.elastic.registration runner.elastic.rendezvous
runner.elastic.settings runner.elastic.worker runner.gloo_run runner.http runner.http.http_client
runner.http.http_server runner.js_run runner.launch runner.mpi_run runner.run_task runner.task
runner.task.task_service runner.task_fn runner.util runner.util.cache runner.util.lsf runner.util.network
runner.util.remote runner.util.streams runner.util.threads torch torch.compression torch.elastic torch.elastic.sampler
torch.elastic.state torch.functions torch.mpi_lib_v2 torch.mpi_ops torch.optimizer torch.sync_batch_norm
"""


def test_every_module_is_there_or_says_what_to_use(tmp_path: Path) -> None:
    job = alias(
        tmp_path,
        f"""
        import importlib
        for name in {MODULES.split()}:
            module = "horovod." + name
            parent, _, last = module.rpartition(".")
            try:
                importlib.import_module(module)
            except ImportError as error:
                text = str(error)
                assert not isinstance(error, ModuleNotFoundError) and " does not exist: " in text, text
            else:
                text = ""
            try:
                exec(f"from {{parent}} import {{last}}")
            except ImportError as error:
                assert str(error) == text, error
            else:
                assert not text, module
        print("well")
        """,
    )
    assert job.lines("well"), job.report()


def test_names_that_are_not_there_say_what_to_use(tmp_path: Path) -> None:
    job = alias(
        tmp_path,
        """
        import importlib
        import horovod
        from horovod import _modules
        from horovod.runner.common.util import network
        from horovod.runner.util import network as same
        assert network is same
        for line, hint in (
            ("from horovod import ray", "Ray"),
            ("from horovod.runner import gloo_run", "farandole.run"),
            ("import horovod.runner.driver.driver_service", "farandole.run"),
            ("import horovod.runner.elastic.driver", "--min-np"),
            ("from horovod.runner.util import lsf", "--hostfile"),
            ("from horovod.runner.common.util.network import BasicService", "hvd.broadcast_object"),
            ("from horovod.common.elastic import notification_manager", "HostsUpdatedInterrupt"),
            ("from horovod.runner.common.util import tiny_shell_exec", "safe_shell_exec"),
            ("from horovod.runner.elastic.discovery import HostManager", "--host-discovery-script"),
            ("from horovod.runner.elastic.worker import WorkerNotificationManager", "HostsUpdatedInterrupt"),
            ("from horovod.runner.launch import is_gloo_used", "no choice"),
            ("from horovod.torch.mpi_ops import _handle_map", "hvd.synchronize"),
            ("hvd._handle_map", "hvd.synchronize"),
            ("network.Wire", "hvd.broadcast_object"),
            ("horovod.ray", "only the frameworks"),
            ("network.nonsense", "has no attribute 'nonsense'"),
            ("from horovod.runner.common.util.network import nonsense", "cannot import name 'nonsense'"),
        ):
            try:
                exec(line)
            except (AttributeError, ImportError) as error:
                assert hint in str(error) and isinstance(error, ImportError) == (" " in line), error
            else:
                raise AssertionError(line)
        for module, groups in _modules.NAMES.items():
            there = importlib.import_module(module)
            for name, hint in ((name, hint) for names, hint in groups.items() for name in names.split()):
                text = f"{module}.{name} does not exist: {hint}"
                assert not hasattr(there, name), text
                try:
                    getattr(there, name)
                except AttributeError as error:
                    assert str(error) == text, error
                try:
                    exec(f"from {module} import {name}")
                except ImportError as error:
                    assert str(error) == text, error
                else:
                    raise AssertionError(text)
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
        import importlib.machinery
        from horovod.common import util
        from horovod.common.basics import HorovodBasics
        names = ("mpi_built", "gloo_built", "nccl_built", "ddl_built", "ccl_built", "cuda_built", "rocm_built")
        assert all(getattr(util, name)(verbose=True) == getattr(hvd, name)() for name in names)
        util.check_extension("horovod.torch", "HOROVOD_WITH_PYTORCH", __file__, "mpi_lib_v2")
        try:
            util.check_extension("horovod.mxnet", "HOROVOD_WITH_MXNET", __file__, "mpi_lib")
        except ImportError as error:
            assert "No module named 'mxnet'" in str(error), error
        else:
            raise AssertionError("mxnet")
        assert util.gpu_available("torch") == torch.cuda.is_available()
        os.environ["THERE"] = "1"
        with util.env(THERE=None, NEW="2"):
            assert os.environ["THERE"] == "1" and os.environ["NEW"] == "2"
        assert os.environ["THERE"] == "1" and "NEW" not in os.environ
        assert [n for n in range(-1, 10) if util.num_rank_is_power_2(n)] == [1, 2, 4, 8]
        assert util.split_list(list(range(7)), 3) == [[0, 1, 2], [3, 4], [5, 6]]
        assert util.split_list([1, 2], 4) == [[1], [2], [], []]
        assert util.extension_available("torch") and not util.extension_available("mxnet", verbose=True)
        assert util.is_version_greater_equal_than("2.13.0", "2.4.0")
        assert not util.is_version_greater_equal_than("1.9.1", "1.10.0")
        for wrong in ((2, "1.0.0"), ("2.0", "1.0")):
            try:
                util.is_version_greater_equal_than(*wrong)
                raise AssertionError(wrong)
            except ValueError as error:
                assert "major.minor.patch" in str(error) or "strings" in str(error)
        assert util.get_ext_suffix() in importlib.machinery.EXTENSION_SUFFIXES
        calls = []
        remembered = util._cache(lambda x: calls.append(x) or x)
        assert remembered(3) == remembered(3) == 3 and calls == [3]
        meant = util.get_average_backwards_compatibility_fun(hvd)
        assert (meant(None, None), meant(hvd.Max, None)) == (hvd.Average, hvd.Max)
        util.check_installed_version("torch", "0")
        assert util.is_iterable("a") and util.is_iterable([]) and not util.is_iterable(5)

        basics = HorovodBasics(__file__, "mpi_lib_v2")
        constants = ("Average", "Sum", "Adasum", "Min", "Max", "Product")
        assert all(getattr(basics, name) == getattr(hvd, name) for name in constants)
        basics.init()
        assert hvd.is_initialized() and basics.rank() == 0 == basics.local_rank() and basics.size() == 1
        assert basics.is_homogeneous() and basics.mpi_threads_supported() == hvd.mpi_threads_supported()
        basics.shutdown()
        assert not hvd.is_initialized()
        print("well")
        """,
    )
    assert job.lines("well"), job.report()


def test_launcher_helpers(tmp_path: Path) -> None:
    job = alias(
        tmp_path,
        """
        from horovod.runner.common.util import codec, env, host_hash, hosts, network, secret, timeout
        from horovod.runner.util import threads
        from horovod.runner.util.threads import in_thread
        import horovod.runner.common.util.hosts as same
        assert same is hosts and in_thread is threads.in_thread

        found = hosts.parse_hosts("a:2,b:3")
        assert [(h.hostname, h.slots) for h in found] == [("a", 2), ("b", 3)]
        assert hosts.parse_hosts_and_slots("a:2,b:3") == (["a", "b"], {"a": 2, "b": 3})
        slots = hosts.get_host_assignments(found, 3, 4)
        assert [s.to_response_string() for s in slots] == ["0,4,0,2,0,2", "1,4,1,2,0,2", "2,4,0,2,1,2", "3,4,1,2,1,2"]
        assert [s.hostname for s in slots] == list("aabb") and hosts.INVALID_SLOT_INFO.rank == -1
        for wrong in (lambda: hosts.get_host_assignments(found, 6), lambda: hosts.parse_hosts("a:b")):
            try:
                wrong()
                raise AssertionError("no error")
            except ValueError:
                pass
        with open("hostfile", "w") as file:
            file.write("a slots=2\\nb slots=1\\n")
        assert hosts.parse_host_files("hostfile") == "a:2,b:1"

        key = secret.make_secret_key()
        digest = secret.compute_digest(key, b"text")
        assert secret.check_digest(key, b"text", digest) and not secret.check_digest(key, b"Text", digest)
        assert len(digest) == secret.DIGEST_LENGTH and len(key) == secret.SECRET_LENGTH
        assert codec.loads_base64(codec.dumps_base64({"a": [1]})) == {"a": [1]}
        assert host_hash.host_hash() == host_hash.host_hash() != host_hash.host_hash(salt="x")
        late = timeout.Timeout(0.0, "Timed out waiting for {activity}.")
        time.sleep(0.01)
        try:
            late.check_time_out_for("hosts")
            raise AssertionError("no error")
        except timeout.TimeoutException as error:
            assert str(error) == "Timed out waiting for hosts. Timeout after 0.0 seconds." == error.message
        early = timeout.Timeout(60, "{activity}")
        early.check_time_out_for("nothing")
        assert 0 < early.remaining() <= 60 and not early.timed_out()

        assert env.get_env_rank_and_size() == (0, 1) and not env.is_kubeflow_mpi()
        os.environ.update(PMI_RANK="1", PMI_SIZE="2", MPI_LOCALRANKID="1", MPI_LOCALNRANKS="2")
        assert env.get_env_rank_and_size() == (1, 2)
        assert env.is_exportable("PATH") and not env.is_exportable("CUDA_VISIBLE_DEVICES")

        print("well")
        """,
    )
    assert job.lines("well"), job.report()


def test_launcher_helpers_that_run_something(tmp_path: Path) -> None:
    job = alias(
        tmp_path,
        """
        import io, subprocess
        from horovod.runner.common.util import safe_shell_exec
        from horovod.runner.util import threads
        results = threads.execute_function_multithreaded(lambda a, b: a + b, [[i, 1] for i in range(20)])
        assert results == {i: i + 1 for i in range(20)}
        try:
            threads.execute_function_multithreaded(lambda a: 1 / a, [[1], [0]])
            raise AssertionError("no error")
        except RuntimeError as error:
            assert isinstance(error.__cause__, ZeroDivisionError)
        event, stop, seen = threading.Event(), threading.Event(), []
        first = threads.on_event(event, seen.append, (1,), stop=stop, check_stop_interval_s=0.01)
        second = threads.on_event(threading.Event(), seen.append, (2,), stop=stop, check_stop_interval_s=0.01)
        event.set()
        first.join(20)
        stop.set()
        second.join(20)
        assert seen == [1] and not second.is_alive()

        out, err = io.StringIO(), io.StringIO()
        command = "echo $A; echo problem >&2; exit 3"
        assert safe_shell_exec.execute(command, {"A": "text"}, out, err, index=7) == 3
        assert (out.getvalue(), err.getvalue()) == ("[7]<stdout>:text\\n", "[7]<stderr>:problem\\n")
        end = threading.Event()
        threading.Timer(0.3, end.set).start()
        begun = time.monotonic()
        code = safe_shell_exec.execute("sleep 600 & sleep 600; true", None, out, err, events=[end])
        assert code == -signal.SIGTERM and time.monotonic() - begun < 20, code
        assert subprocess.run(["pgrep", "-g", str(os.getpid()), "sleep"]).returncode == 1

        from horovod.runner import _HorovodArgs
        from horovod.runner.launch import _run, parse_args
        args = _HorovodArgs()
        args.num_proc, args.verbose, args.stall_check_warning_time_seconds = 2, True, 7
        program = "import os; print('rank', os.environ['FARANDOLE_RANK'])"
        args.command = [sys.executable, "-c", program]
        assert _run(args) == 0
        sys.argv[1:] = ["-np", "1", *args.command[:2], program.replace("rank", "parsed")]
        assert _run(parse_args()) == 0
        args.nonsense = 1
        try:
            _run(args)
            raise AssertionError("no error")
        except ValueError as error:
            assert "args.nonsense" in str(error)
        print("well")
        """,
    )
    assert job.lines("well"), job.report()
    assert sorted(job.lines("<stdout>:rank ")) == ["0", "1"], job.report()
    assert job.lines("<stdout>:parsed ") == ["0"], job.report()


def test_type_checkers_are_told_of_each_module() -> None:
    """A stub beside the package for every name that its finder knows, with what the finder would give out."""
    spec = importlib.util.spec_from_file_location(
        "modules_of_alias", processes.ROOT / "alias" / "horovod" / "_modules.py"
    )
    assert spec and spec.loader
    modules = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(modules)
    stubs = {}
    for file in (processes.ROOT / "alias").rglob("*.pyi"):
        name = ".".join(file.relative_to(processes.ROOT / "alias").with_suffix("").parts).removesuffix(".__init__")
        stubs[name] = file.read_text().splitlines()[0]
    assert stubs == {name: f"from {modules.ours(name)} import *" for name in stubs}
    assert set(modules.SAME) <= set(stubs)
    ours = processes.ROOT / "python" / "farandole" / "launch" / "helpers"
    helpers = {file.stem for file in ours.glob("*.py")} - {"__init__", "arguments"}
    assert {f"horovod.runner.common.util.{name}" for name in helpers} <= set(stubs)
