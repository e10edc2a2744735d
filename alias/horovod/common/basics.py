"""``HorovodBasics``: init, rank and the rest as methods of an object."""

from __future__ import annotations

from farandole.core import reduce_ops
from farandole.process import basics
from farandole.session import init

_NAMES = (
    "is_initialized",
    "start_timeline",
    "stop_timeline",
    "size",
    "local_size",
    "cross_size",
    "rank",
    "local_rank",
    "cross_rank",
    "is_homogeneous",
    "mpi_threads_supported",
    "mpi_enabled",
    "mpi_built",
    "gloo_enabled",
    "gloo_built",
    "nccl_built",
    "ddl_built",
    "ccl_built",
    "cuda_built",
    "rocm_built",
)


class HorovodBasics:
    """The functions of ``farandole.torch`` of these names. One process has one job, however many objects there are.

    Args:
        pkg_path: accepted for Horovod's sake; so are all others.
    """

    def __init__(self, pkg_path: str = "", *args: str) -> None:
        self.init, self.shutdown = init.init, init.shutdown
        for name in _NAMES:
            setattr(self, name, getattr(basics, name))
        for name in ("Average", "Sum", "Adasum", "Min", "Max", "Product"):
            setattr(self, name, getattr(reduce_ops, name))
