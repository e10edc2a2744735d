"""Questions about the installation, and small helpers, as scripts import them from Horovod."""

from __future__ import annotations

import functools
import importlib
import os
import sysconfig
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from farandole.core.reduce_ops import resolve
from farandole.process import basics

EXTENSIONS = ["tensorflow", "torch", "mxnet"]


def get_ext_suffix() -> str:
    """How the file names of compiled modules end for this Python."""
    return sysconfig.get_config_var("EXT_SUFFIX")


def check_extension(ext_name: str, ext_env_var: str = "", pkg_path: str = "", *args: str) -> None:
    """Does nothing if the framework of `ext_name` (``horovod.torch``) is supported and installed.

    Raises:
        ImportError: it is not; the text says why.
    """
    importlib.import_module(ext_name)


def extension_available(ext_base_name: str, verbose: bool = False) -> bool:
    """Whether `ext_base_name` ("torch") is installed and supported; `verbose` prints why it is not."""
    try:
        importlib.import_module(f"horovod.{ext_base_name}")
    except ImportError as error:
        if verbose:
            print(error)
        return False
    return True


def _cache(f: Callable[..., Any]) -> Callable[..., Any]:
    """Remembers what `f` has returned for the same arguments."""
    return functools.lru_cache(maxsize=None)(f)


def gpu_available(ext_base_name: str, verbose: bool = False) -> bool:
    """Whether `ext_base_name` ("torch", "tensorflow") sees a GPU."""
    framework = importlib.import_module(ext_base_name)
    if ext_base_name == "tensorflow":
        return bool(framework.config.list_physical_devices("GPU"))
    return framework.cuda.is_available()


def mpi_built(verbose: bool = False) -> bool:
    """As ``hvd.mpi_built``."""
    return basics.mpi_built()


def gloo_built(verbose: bool = False) -> bool:
    """As ``hvd.gloo_built``."""
    return basics.gloo_built()


def nccl_built(verbose: bool = False) -> int:
    """As ``hvd.nccl_built``."""
    return basics.nccl_built()


def ddl_built(verbose: bool = False) -> bool:
    """As ``hvd.ddl_built``."""
    return basics.ddl_built()


def ccl_built(verbose: bool = False) -> bool:
    """As ``hvd.ccl_built``."""
    return basics.ccl_built()


def cuda_built(verbose: bool = False) -> bool:
    """As ``hvd.cuda_built``."""
    return basics.cuda_built()


def rocm_built(verbose: bool = False) -> bool:
    """As ``hvd.rocm_built``."""
    return basics.rocm_built()


@contextmanager
def env(**kwargs: str | None) -> Iterator[None]:
    """Sets environment variables, those that are not None, for the time of a with block."""
    kwargs = {name: value for name, value in kwargs.items() if value is not None}
    before = {name: os.environ.get(name) for name in kwargs}
    _set(kwargs)
    try:
        yield
    finally:
        _set(before)


def _set(variables: dict[str, str | None]) -> None:
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def get_average_backwards_compatibility_fun(reduce_ops: Any) -> Callable[[int | None, bool | None], int]:
    """A function of (op, average) that returns the operation which they mean; ValueError if both are given."""
    return resolve


def check_installed_version(name: str, version: str, exception: Exception | None = None) -> None:
    """Does nothing: Farandole is not compiled for one release of a framework."""


def is_version_greater_equal_than(ver: str, target: str) -> bool:
    """Whether the version `ver` is `target`, three numbers, or a later one. Raises ValueError for what is none."""
    if not isinstance(ver, str) or not isinstance(target, str):
        raise ValueError(f"versions are strings, got {ver!r} and {target!r}")
    if len(target.split(".")) != 3:
        raise ValueError(f"the target version has the form major.minor.patch, got {target!r}")
    from packaging.version import parse

    return parse(ver) >= parse(target)


def num_rank_is_power_2(num_rank: int) -> bool:
    """Whether `num_rank` is 1, 2, 4, 8, ..."""
    return num_rank > 0 and num_rank & (num_rank - 1) == 0


def split_list(values: Sequence[Any], parts: int) -> list[Sequence[Any]]:
    """`values` in `parts` pieces whose lengths differ by one at most, longer ones first."""
    length, longer = divmod(len(values), parts)
    ends = [(i + 1) * length + min(i + 1, longer) for i in range(parts)]
    return [values[start:end] for start, end in zip([0, *ends], ends)]


def is_iterable(value: Any) -> bool:
    """Whether a for loop takes it."""
    try:
        iter(value)
    except TypeError:
        return False
    return True
