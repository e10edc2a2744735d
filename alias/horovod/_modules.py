"""Which module of ours stands behind a name of Horovod's, and the finder that gives it out."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from opcode import opmap
from types import FrameType, ModuleType
from typing import Any

SAME = {
    "horovod.torch": "farandole.torch",
    "horovod.torch.mpi_ops": "farandole.torch",
    "horovod.keras": "farandole.keras",
    "horovod.mxnet": "farandole.mxnet",
    "horovod.mxnet.mpi_ops": "farandole.mxnet",
    "horovod.tensorflow": "farandole.tensorflow",
    "horovod.tensorflow.mpi_ops": "farandole.tensorflow",
    "horovod.common.elastic": "farandole.elastic",
    "horovod.common.exceptions": "farandole.exceptions",
    "horovod.common.process_sets": "farandole.process_sets",
    "horovod.data": "farandole.data",
    "horovod.data.data_loader_base": "farandole.data.loaders",
    "horovod.runner.common": "farandole.launch.helpers",
    "horovod.runner.common.util": "farandole.launch.helpers",
    "horovod.runner.util": "farandole.launch.helpers",
    "horovod.runner.elastic.discovery": "farandole.launch.job.discovery",
    "horovod.runner.elastic.worker": "farandole.elastic",
}
# Whatever else lies below one of these bears the same name in ours.
SAME_BELOW = {
    "horovod.keras.": "farandole.keras.",
    "horovod.mxnet.": "farandole.mxnet.",
    "horovod.tensorflow.": "farandole.tensorflow.",
    "horovod.torch.": "farandole.torch.",
    "horovod.runner.common.util.": "farandole.launch.helpers.",
    "horovod.runner.util.": "farandole.launch.helpers.",
}
_NOT_THIS = "Farandole does not support {} in this release, only the frameworks, as by import horovod.torch"
_RUN = "use farandole.run for a function, or the command line `farandole run`"
_ELASTIC = "elastic jobs are driven by `farandole run --min-np ...`"
_LIBRARY = "one library serves all frameworks; `farandole run --check-build` says where it is"
_CONTROLLER = "workers meet at the controller, whom the launcher starts"
_PASSES = "use hvd.DistributedOptimizer(..., backward_passes_per_step=...)"
# What an ImportError says of modules that are not there, and of all below them.
MISSING = {
    "horovod._keras": "use horovod.keras or horovod.tensorflow.keras, which share what they do",
    "horovod.mxnet.mpi_lib": _LIBRARY,
    "horovod.ray": _NOT_THIS.format("Ray"),
    "horovod.spark": _NOT_THIS.format("Spark"),
    "horovod.tensorflow.gradient_aggregation": _PASSES,
    "horovod.tensorflow.gradient_aggregation_eager": _PASSES,
    "horovod.tensorflow.mpi_lib": _LIBRARY,
    "horovod.tensorflow.util": "it has nothing that TensorFlow has not: use tf.executing_eagerly, variable.ref()",
    "horovod.runner.common.service": _RUN,
    "horovod.runner.common.util.config_parser": "use `farandole run --config-file`, or set variables",
    "horovod.runner.common.util.settings": _RUN,
    "horovod.runner.common.util.tiny_shell_exec": "use safe_shell_exec.execute beside it, or subprocess.run",
    "horovod.runner.driver": _RUN,
    "horovod.runner.elastic.constants": _ELASTIC,
    "horovod.runner.elastic.driver": _ELASTIC,
    "horovod.runner.elastic.registration": _ELASTIC,
    "horovod.runner.elastic.rendezvous": _CONTROLLER,
    "horovod.runner.elastic.settings": _ELASTIC,
    "horovod.runner.gloo_run": _RUN,
    "horovod.runner.http": _CONTROLLER,
    "horovod.runner.js_run": _RUN,
    "horovod.runner.mpi_run": f"{_RUN}, or mpirun itself",
    "horovod.runner.run_task": _RUN,
    "horovod.runner.task": _RUN,
    "horovod.runner.task_fn": _RUN,
    "horovod.runner.util.cache": "nothing is cached",
    "horovod.runner.util.lsf": "the launcher takes the hosts of an LSF job by itself, without -H and --hostfile",
    "horovod.runner.util.remote": _RUN,
    "horovod.runner.util.streams": "use the module io",
    "horovod.torch.mpi_lib_v2": _LIBRARY,
}
_NOTICES = "an elastic state asks by itself: its commit() and check_host_updates() raise HostsUpdatedInterrupt"
# The same of names inside of modules that are there.
NAMES = {
    "horovod.common.elastic": {"notification_manager": _NOTICES},
    "horovod.common.exceptions": {"get_version_mismatch_message": "one library fits all releases of torch"},
    "horovod.common.util": {"get_extension_full_path": _LIBRARY},
    "horovod.runner.common.util.env": {"IGNORE_REGEXES": "use is_exportable"},
    "horovod.runner.common.util.host_hash": {"NAMESPACE_PATH": "use host_hash"},
    "horovod.runner.common.util.network": {
        "AckResponse AckStreamResponse BasicClient BasicService PingRequest PingResponse Wire": "it unpickles what "
        "others send. Between the ranks of a job use hvd.broadcast_object and hvd.allgather_object; to run a function "
        "on several hosts, farandole.run"
    },
    "horovod.runner.common.util.safe_shell_exec": {
        "prefix_connection terminate_executor_shell_and_children": "use execute, which ends a command with all that it "
        "has started"
    },
    "horovod.runner.elastic.discovery": {
        "DEFAULT_COOLDOWN_LOWER_LIMIT_SECONDS DEFAULT_COOLDOWN_UPPER_LIMIT_SECONDS DiscoveredHosts HostManager "
        "HostState": "`farandole run` with --host-discovery-script keeps the hosts itself, those that failed for "
        "--blacklist-cooldown-range"
    },
    "horovod.runner.elastic.worker": {
        "HostsUpdatedRequest WorkerNotificationClient WorkerNotificationManager WorkerNotificationService": _NOTICES,
        "HOROVOD_GLOO_IFACE HOROVOD_GLOO_RENDEZVOUS_ADDR HOROVOD_GLOO_RENDEZVOUS_PORT": _CONTROLLER,
        "HOROVOD_HOSTNAME HOROVOD_LOCAL_RANK": "read the variable of this name",
    },
    "horovod.runner.launch": {
        "CACHE_FOLDER CACHE_STALENESS_THRESHOLD_MINUTES": "nothing is cached",
        "SSH_ATTEMPTS SSH_CONNECT_TIMEOUT_S": "--start-timeout says how long the launcher waits for other hosts",
        "check_build": "use `horovodrun --check-build`",
        "gloo_run gloo_run_elastic js_run mpi_run run_controller _launch_job _run_elastic _run_static": "use _run",
        "is_gloo_used is_jsrun_installed": "there is no choice between MPI, Gloo and jsrun",
        "make_check_build_action make_deprecated_bool_action make_nic_action make_override_action "
        "make_override_bool_action make_override_false_action make_override_true_action": "use parse_args",
    },
    "horovod.torch": {
        "_MPI_LIB_AVAILABLE mpi_lib": _LIBRARY,
        "_basics": "use horovod.common.basics.HorovodBasics(), or hvd itself",
        "_handle_map": "a handle keeps its tensors until hvd.synchronize, which returns the result",
        "_allgather_async _allreduce_async _broadcast_async _check_function": "use hvd.allreduce_async and its like",
        "HorovodAllgather HorovodAllreduce HorovodAlltoall HorovodBroadcast HorovodReducescatter "
        "HorovodGroupedAllgather HorovodGroupedAllreduce HorovodGroupedReducescatter": "use hvd.allreduce and its "
        "like, which are differentiable",
        "check_extension check_installed_version get_average_backwards_compatibility_fun gpu_available "
        "num_rank_is_power_2": "import it from horovod.common.util",
        "handle_average_backwards_compatibility": "use get_average_backwards_compatibility_fun of horovod.common.util",
    },
    "horovod.torch.elastic.state": {
        "_get_handler _get_handlers _handler_registry": "use get_handler_registry and set_handler_registry"
    },
    "horovod.torch.optimizer": {"_DistributedAdasumOptimizer": "use DistributedOptimizer(..., op=hvd.Adasum)"},
}


def install() -> None:
    """Puts the finder before all others; what is loaded already is treated as if it had found it. Idempotent."""
    if any(isinstance(finder, Finder) for finder in sys.meta_path):
        return
    sys.meta_path.insert(0, Finder())
    for name in _ABSENT.keys() & sys.modules.keys():
        _hint(sys.modules[name])


def ours(name: str) -> str | None:
    """The module of ours behind `name`, if there is to be one."""
    if name in SAME:
        return SAME[name]
    for prefix, target in SAME_BELOW.items():
        if name.startswith(prefix):
            return target + name[len(prefix) :]
    return None


class Finder(MetaPathFinder):
    """Finds modules of ours under their names in Horovod.

    It has to come first: once ``horovod.torch`` is ours, the usual finder would look into our folder for
    ``horovod.torch.functions`` and load a second copy of it.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of an alias, or of a module that lacks names of Horovod's; None for everything else.

        Raises:
            ImportError: for what Horovod has and Farandole has not, if it is imported. Not ModuleNotFoundError, whose
                text `from horovod import tensorflow` would lose. Who only asks whether it is there gets None.
        """
        missing = next((m for m in MISSING if fullname == m or fullname.startswith(f"{m}.")), None)
        if missing is not None:
            if _imports():
                raise ImportError(f"{fullname} does not exist: {MISSING[missing]}", name=fullname)
            return None
        name = ours(fullname)
        if name is not None:
            same = importlib.util.find_spec(name)
            # `python -m` takes the name of the program from the origin.
            return None if same is None else ModuleSpec(fullname, _Alias(name), origin=same.origin)
        found = PathFinder.find_spec(fullname, path) if fullname in _ABSENT else None
        if found is not None and isinstance(found.loader, SourceFileLoader):
            found.loader = _Hinting(fullname, found.loader.path)
        return found


def _imports() -> bool:
    """Whether a finder is asked on behalf of an import, not by importlib.util.find_spec."""
    caller: FrameType | None = sys._getframe(2)  # of the finder
    while caller is not None and caller.f_code.co_name == "_find_spec":
        caller = caller.f_back
    return caller is not None and caller.f_code.co_name == "_find_and_load_unlocked"


def _absent() -> dict[str, dict[str, str]]:
    """What a module, by its own name, says of names that only Horovod's has."""
    hints = dict(MISSING)
    for module, groups in NAMES.items():
        hints.update({f"{module}.{name}": hint for names, hint in groups.items() for name in names.split()})
    found: dict[str, dict[str, str]] = {}
    for path, hint in hints.items():
        module, _, name = path.rpartition(".")
        found.setdefault(ours(module) or module, {})[name] = f"{path} does not exist: {hint}"
    return found


_ABSENT = _absent()


def _hint(module: ModuleType) -> None:
    """Has a module say of names that only Horovod's has what to use instead."""
    own = module.__name__

    def missing(name: str) -> Any:
        text = _ABSENT[own].get(name)
        if text is None:
            raise AttributeError(f"module {own!r} has no attribute {name!r}")
        caller = sys._getframe(1)
        # `from module import name` would replace the text of an AttributeError, which hasattr expects.
        imports = caller.f_code.co_code[caller.f_lasti] == opmap["IMPORT_FROM"]
        raise (ImportError if imports else AttributeError)(text)

    vars(module)["__getattr__"] = missing


class _Hinting(SourceFileLoader):
    """Loads a module that lacks names of Horovod's."""

    def exec_module(self, module: ModuleType) -> None:
        """As usual; then it knows which."""
        super().exec_module(module)
        _hint(module)


class _Alias(Loader):
    """Loads a module by importing another one."""

    def __init__(self, name: str) -> None:
        self._name = name

    def create_module(self, spec: ModuleSpec) -> None:
        """Leaves it to Python: the module is thrown away."""

    def exec_module(self, module: ModuleType) -> None:
        """Puts ours in its place, where the import system looks for it afterwards. Its spec stays its own."""
        same = sys.modules[module.__name__] = importlib.import_module(self._name)
        # What Horovod's has imported is an attribute of it.
        if f"{module.__name__}.mpi_ops" in SAME:
            vars(same)["mpi_ops"] = same

    def get_code(self, name: str) -> Any:
        """What `python -m` runs of a module that is a program, too."""
        spec = importlib.util.find_spec(self._name)
        loader = None if spec is None else spec.loader
        return loader.get_code(self._name) if isinstance(loader, SourceFileLoader) else None
