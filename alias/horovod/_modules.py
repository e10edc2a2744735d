"""Which module of ours stands behind a name of Horovod's, and the finder that gives it out."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

SAME = {
    "horovod.torch": "farandole.torch",
    "horovod.torch.mpi_ops": "farandole.torch",
    "horovod.common.elastic": "farandole.elastic",
    "horovod.common.exceptions": "farandole.exceptions",
    "horovod.common.process_sets": "farandole.process_sets",
    "horovod.data": "farandole.data",
    "horovod.data.data_loader_base": "farandole.data.loaders",
    "horovod.runner.elastic.discovery": "farandole.launch.elastic_discovery",
    "horovod.runner.elastic.worker": "farandole.elastic",
}
# Whatever else lies below one of these bears the same name in ours.
SAME_BELOW = {"horovod.torch.": "farandole.torch."}
MISSING = {
    "horovod.keras": "Keras",
    "horovod.mxnet": "MXNet",
    "horovod.ray": "Ray",
    "horovod.spark": "Spark",
    "horovod.tensorflow": "TensorFlow",
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
            ModuleNotFoundError: for a framework that Farandole does not support.
        """
        framework = MISSING.get(".".join(fullname.split(".")[:2]))
        if framework is not None:
            raise ModuleNotFoundError(
                f"{fullname} does not exist: Farandole does not support {framework} in this release, only PyTorch "
                "(import horovod.torch)",
                name=fullname,
            )
        name = ours(fullname)
        if name is None or importlib.util.find_spec(name) is None:
            return None
        return ModuleSpec(fullname, _Alias(name))


class _Alias(Loader):
    """Loads a module by importing another one."""

    def __init__(self, name: str) -> None:
        self._name = name

    def create_module(self, spec: ModuleSpec) -> None:
        """Leaves it to Python: the module is thrown away."""

    def exec_module(self, module: ModuleType) -> None:
        """Puts ours in its place, where the import system looks for it afterwards. Its spec stays its own."""
        sys.modules[module.__name__] = importlib.import_module(self._name)
