"""What the environment says, as ``horovod.runner.common.util.env`` reads it."""

from __future__ import annotations

import os

from farandole.session import placement

LOG_LEVEL_STR = ["FATAL", "ERROR", "WARNING", "INFO", "DEBUG", "TRACE"]
KUBEFLOW_MPI_EXEC = "/etc/mpi/kubexec.sh"
_LOCAL = ("OLDPWD", "_HOROVOD_SECRET_KEY", "FARANDOLE_AGENT_SOCKET")


def is_exportable(v: str) -> bool:
    """Whether the variable `v` means on another host what it means here."""
    return v not in _LOCAL and not v.startswith("BASH_FUNC_") and not v.endswith("CUDA_VISIBLE_DEVICES")


def get_env_rank_and_size() -> tuple[int, int]:
    """Rank and size of this process by the variables of whoever started it (docs/launching.md); (0, 1) without any.

    Raises:
        InitializationError: they contradict each other, or do not suffice.
    """
    place = placement.find(os.environ)
    return (place.rank, place.size) if place else (0, 1)


def is_kubeflow_mpi() -> bool:
    """Whether Kubeflow's MPI operator has started this."""
    return os.environ.get("OMPI_MCA_plm_rsh_agent") == KUBEFLOW_MPI_EXEC
