"""What one run was asked to do, and the environment that follows from it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    """The command line of ``farandole run``, checked. None: not given."""

    processes: int
    command: tuple[str, ...]
    start_timeout_s: float | None = None
    fusion_threshold_bytes: int | None = None
    metrics_port: int | None = None
    prefix_output: bool = True
    verbose: bool = False

    def environment(self, inherited: Mapping[str, str], cores: int) -> dict[str, str]:
        """Variables of the agent, the controller and the workers, without what the agent adds for each worker."""
        result = {name: value for name, value in inherited.items() if name not in _OF_ANOTHER_JOB}
        result.setdefault("OMP_NUM_THREADS", str(threads_per_process(cores, self.processes)))
        if self.start_timeout_s is not None:
            result["FARANDOLE_START_TIMEOUT"] = result["HOROVOD_START_TIMEOUT"] = f"{self.start_timeout_s:g}"
        if self.fusion_threshold_bytes is not None:
            threshold = str(self.fusion_threshold_bytes)
            result["FARANDOLE_FUSION_THRESHOLD"] = result["HOROVOD_FUSION_THRESHOLD"] = threshold
        if self.verbose:
            result.setdefault("FARANDOLE_LOG_LEVEL", "info")
        return result


def log_level(environment: Mapping[str, str]) -> str:
    """What FARANDOLE_LOG_LEVEL or HOROVOD_LOG_LEVEL asks for, as the controller takes it."""
    level = (environment.get("FARANDOLE_LOG_LEVEL") or environment.get("HOROVOD_LOG_LEVEL") or "").lower()
    return {"trace": "debug", "fatal": "error"}.get(level, level if level in ("debug", "info", "error") else "warning")


# A run inside of a worker of another run is a job of its own.
_OF_ANOTHER_JOB = frozenset(
    f"{prefix}_{name}"
    for prefix in ("FARANDOLE", "HOROVOD")
    for name in (
        "AGENT_SOCKET",
        "DATA_ADDRESS",
        "JOB",
        "RANK",
        "SIZE",
        "LOCAL_RANK",
        "LOCAL_SIZE",
        "CROSS_RANK",
        "CROSS_SIZE",
        "HOSTNAME",
    )
)


def threads_per_process(cores: int, processes: int) -> int:
    """Computing threads for each of `processes` that share `cores`."""
    return max(1, cores // processes)


def allowed_cores() -> int:
    """Cores that this process may use: its affinity, and the CPU quota of its cgroup rounded up."""
    cores = len(os.sched_getaffinity(0))
    try:
        with open("/sys/fs/cgroup/cpu.max") as file:
            quota, period = file.read().split()
        if quota != "max":
            cores = min(cores, max(1, -(-int(quota) // int(period))))
    except (OSError, ValueError):
        pass
    return cores
