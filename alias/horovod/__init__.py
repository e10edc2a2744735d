"""Farandole under Horovod's names, for scripts that say ``import horovod.torch as hvd``.

Every module here is one of Farandole's, or hands out its objects: nothing exists twice. The distribution is called
farandole-horovod; beside Horovod itself it refuses to be imported, since both own the folder ``horovod``.
"""

from importlib import metadata as _metadata

from farandole import run
from horovod import _modules

__version__ = "0.28.1"
__all__ = ["__version__", "run", "runner"]


def _refuse_the_original() -> None:
    try:
        found = _metadata.distribution("horovod")
    except _metadata.PackageNotFoundError:
        return
    raise ImportError(
        f"horovod {found.version} is installed, and so is farandole-horovod, which has overwritten files of it: "
        "run 'pip uninstall horovod farandole-horovod', then install the one that you want"
    )


_refuse_the_original()
_modules.install()

from horovod import runner  # noqa: E402 - an attribute after the import, as in Horovod
