"""Which module of ours stands behind a name of Horovod's, and the finder that gives it out."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import FrameType, ModuleType

SAME = {
    "horovod.torch": "farandole.torch",
    "horovod.torch.mpi_ops": "farandole.torch",
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
    "horovod.torch.": "farandole.torch.",
    "horovod.runner.common.util.": "farandole.launch.helpers.",
    "horovod.runner.util.": "farandole.launch.helpers.",
}
_ONLY_TORCH = "Farandole does not support {} in this release, only PyTorch (import horovod.torch)"
_RUN = "use farandole.run for a function, or the command line `farandole run`"
# What an ImportError says of names that are not there.
MISSING = {
    "horovod.keras": _ONLY_TORCH.format("Keras"),
    "horovod.mxnet": _ONLY_TORCH.format("MXNet"),
    "horovod.ray": _ONLY_TORCH.format("Ray"),
    "horovod.spark": _ONLY_TORCH.format("Spark"),
    "horovod.tensorflow": _ONLY_TORCH.format("TensorFlow"),
    "horovod.runner.common.service": _RUN,
    "horovod.runner.common.util.settings": _RUN,
    "horovod.runner.driver": _RUN,
    "horovod.runner.elastic.driver": "elastic jobs are driven by `farandole run --min-np ...`",
    "horovod.runner.elastic.rendezvous": "workers meet at the controller, whom the launcher starts",
    "horovod.runner.elastic.settings": "elastic jobs are driven by `farandole run --min-np ...`",
    "horovod.runner.gloo_run": _RUN,
    "horovod.runner.http": "workers meet at the controller, whom the launcher starts",
    "horovod.runner.js_run": _RUN,
    "horovod.runner.mpi_run": f"{_RUN}, or mpirun itself",
    "horovod.runner.run_task": _RUN,
    "horovod.runner.task": _RUN,
    "horovod.runner.task_fn": _RUN,
    "horovod.runner.util.cache": "nothing is cached",
    "horovod.runner.util.lsf": "name the hosts of an LSF job with -H or --hostfile",
    "horovod.runner.util.remote": _RUN,
    "horovod.runner.util.streams": "use the module io",
}


def install() -> None:
    """Puts the finder before all others. Idempotent."""
    if not any(isinstance(finder, Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, Finder())


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
        """The spec of an alias; None for everything that is not one.

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
        if name is None or importlib.util.find_spec(name) is None:
            return None
        return ModuleSpec(fullname, _Alias(name))


def _imports() -> bool:
    """Whether a finder is asked on behalf of an import, not by importlib.util.find_spec."""
    caller: FrameType | None = sys._getframe(2)  # of the finder
    while caller is not None and caller.f_code.co_name == "_find_spec":
        caller = caller.f_back
    return caller is not None and caller.f_code.co_name == "_find_and_load_unlocked"


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
        if module.__name__ == "horovod.torch":
            vars(same)["mpi_ops"] = same
