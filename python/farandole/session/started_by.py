"""Which process of how many this is, by the variables of whoever has started it: mpirun, srun, torchrun, a person."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from farandole.exceptions import InitializationError

# Processes of Slurm's steps that are believed; it has not that many.
_TASKS_MAX = 1 << 24


@dataclass(frozen=True)
class Family:
    """The variables of one kind of launcher.

    Attributes:
        by: what it is called in messages.
        rank, size: in the job.
        local_rank, local_size: on the host. Slurm says the local sizes of all hosts in one variable.
        of_job: what tells the job from others of this user.
        needed: without these the others mean something else, or do not suffice.
        several_hosts: if it does not say how many ranks this host has: there may be others.
    """

    by: str
    rank: str
    size: str
    local_rank: str
    local_size: str
    of_job: tuple[str, ...]
    needed: tuple[str, ...] = ()
    several_hosts: bool = True


_FAMILIES = (
    Family(
        "FARANDOLE_RANK and FARANDOLE_SIZE",
        "FARANDOLE_RANK",
        "FARANDOLE_SIZE",
        "FARANDOLE_LOCAL_RANK",
        "FARANDOLE_LOCAL_SIZE",
        ("FARANDOLE_JOB", "FARANDOLE_CONTROLLER"),
        several_hosts=False,
    ),
    Family(
        "HOROVOD_RANK and HOROVOD_SIZE",
        "HOROVOD_RANK",
        "HOROVOD_SIZE",
        "HOROVOD_LOCAL_RANK",
        "HOROVOD_LOCAL_SIZE",
        ("FARANDOLE_JOB", "FARANDOLE_CONTROLLER", "HOROVOD_GLOO_RENDEZVOUS_ADDR", "HOROVOD_GLOO_RENDEZVOUS_PORT"),
    ),
    # It may be what mpirun or srun has started, once on each host.
    Family(
        "torchrun",
        "RANK",
        "WORLD_SIZE",
        "LOCAL_RANK",
        "LOCAL_WORLD_SIZE",
        ("TORCHELASTIC_RUN_ID", "MASTER_PORT", "TORCHELASTIC_RESTART_COUNT"),
        ("MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID"),
    ),
    Family(
        "mpirun",
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
        ("PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"),
    ),
    # MPICH and Intel MPI, also where they have started a process on each host by srun.
    Family(
        "mpiexec",
        "PMI_RANK",
        "PMI_SIZE",
        "MPI_LOCALRANKID",
        "MPI_LOCALNRANKS",
        ("PMI_JOBID", "FARANDOLE_JOB", "FARANDOLE_CONTROLLER"),
    ),
    # By hand, or by an operator of Kubernetes.
    Family(
        "RANK and WORLD_SIZE",
        "RANK",
        "WORLD_SIZE",
        "LOCAL_RANK",
        "LOCAL_WORLD_SIZE",
        ("FARANDOLE_JOB", "MASTER_PORT"),
        ("MASTER_ADDR", "MASTER_PORT"),
    ),
    Family(
        "srun",
        "SLURM_PROCID",
        "SLURM_STEP_NUM_TASKS",
        "SLURM_LOCALID",
        "SLURM_STEP_TASKS_PER_NODE",
        ("SLURM_JOB_ID", "SLURM_STEP_ID"),
        ("SLURM_STEP_ID",),
    ),
)


@dataclass(frozen=True)
class Told:
    """What the variables say.

    Attributes:
        family: whose they are.
        job: the same on all processes of the job, and on no others of this user at this time.
        rank, size: in the job; size is 2 at least.
        local_rank, local_size: on the host; -1: not told.
        meeting: HOST:PORT at which rank 0 may open a port for the others; empty: not told.
        one_host: certainly.
    """

    family: Family
    job: str
    rank: int
    size: int
    local_rank: int
    local_size: int
    meeting: str
    one_host: bool


def _number(variables: Mapping[str, str], name: str) -> int:
    text = variables.get(name, "")
    if not text:
        return -1
    if not text.isdecimal() or len(text) > 9:
        raise InitializationError(f"{name}={text!r} is not a number")
    return int(text)


def _slurm_local_size(variables: Mapping[str, str], name: str) -> int:
    """Of this node from ``2(x3),1``: three nodes with two tasks each, one with one."""
    node = _number(variables, "SLURM_NODEID")
    nodes = 0
    for part in variables.get(name, "").split(","):
        found = re.fullmatch(r"(\d{1,8})(?:\(x(\d{1,8})\))?", part)
        if not found or nodes > _TASKS_MAX:
            return -1
        nodes += int(found.group(2) or 1)
        if 0 <= node < nodes:
            return int(found.group(1))
    return -1


def _process_manager() -> str:
    """Number of the process manager of MPICH or Intel MPI that has started this process, directly or through others:
    nothing else of theirs tells two jobs of a host apart. Empty if there is none."""
    pid = "self"
    for _ in range(64):
        try:
            text = Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            return ""
        name, _, rest = text.partition("(")[2].rpartition(")")
        if name.endswith("pmi_proxy"):
            return text.partition(" ")[0]
        pid = rest.split()[1]
    return ""


def _meeting(family: Family, variables: Mapping[str, str]) -> str:
    port = _number(variables, "MASTER_PORT") if "MASTER_PORT" in family.needed else 0
    # The port itself is that of torch's own store.
    return f"{variables['MASTER_ADDR']}:{port + 1}" if 0 < port < 65535 else ""


def _complete(family: Family, variables: Mapping[str, str]) -> bool:
    if not all(variables.get(name) for name in (family.rank, family.size, *family.needed)):
        return False
    # Slurm's plugins for PMI set these, too, and leave the ranks of a host to Slurm's own variables.
    return family.by != "mpiexec" or "SLURM_STEP_ID" not in variables or bool(variables.get(family.local_size))


def told(variables: Mapping[str, str]) -> Told | None:
    """What the first family says that is complete and names several processes; None if none does. FARANDOLE_SIZE=1
    means that this process is alone, whatever others say.

    Raises:
        InitializationError: what it says makes no sense.
    """
    for family in _FAMILIES:
        if not _complete(family, variables):
            continue
        names = (family.rank, family.size, family.local_rank, family.local_size)
        read_local_size = _slurm_local_size if family.by == "srun" else _number
        rank, size, local_rank = (_number(variables, name) for name in names[:3])
        local_size = read_local_size(variables, family.local_size)
        if size <= 1:
            # It may have started the launcher of these processes.
            if family is _FAMILIES[0]:
                return None
            continue
        if not 0 <= rank < size or local_size > size or (local_size >= 0 and local_rank >= local_size):
            values = ", ".join(f"{name}={variables[name]}" for name in names if variables.get(name))
            raise InitializationError(f"the launcher's variables contradict each other: {values}")
        one_host = local_size == size or (local_size < 0 and not family.several_hosts)
        # Each host counts its restarts.
        skipped = () if one_host else ("TORCHELASTIC_RESTART_COUNT",)
        of_job = [variables.get(name, "") for name in family.of_job if name not in skipped]
        if family.by == "mpiexec" and not any(of_job):
            of_job = [_process_manager()]
        job = "/".join([family.by, *of_job])
        return Told(family, job, rank, size, local_rank, local_size, _meeting(family, variables), one_host)
    return None


def refuse_half(variables: Mapping[str, str]) -> None:
    """For a process that `told` knows nothing of: it does not train alone without a word if a variable says otherwise.

    Raises:
        InitializationError: it is one of several, and variables are missing that say which.
    """
    if any(_complete(family, variables) for family in _FAMILIES):
        return  # the only one of its launcher
    for family in _FAMILIES:
        text = variables.get(family.size, "")
        size = int(text) if text.isdecimal() and len(text) < 10 else -1
        missing = [name for name in (family.rank, family.size, *family.needed) if not variables.get(name)]
        if family.by == "srun":
            _warn_in_batch_script(variables)
        elif family.by == "torchrun" or size == 1 or not missing:
            continue  # the variables of torchrun are looked at as those of RANK and WORLD_SIZE
        elif size > 1:
            raise InitializationError(
                f"{family.size}={size} says that this process is one of {size}, but {' and '.join(missing)} "
                f"{'is' if len(missing) == 1 else 'are'} not set: set what is missing on every process, or unset "
                f"{family.size} if this one is to train alone"
            )
        elif not text and variables.get(family.rank) and all(variables.get(name) for name in family.needed):
            raise InitializationError(
                f"{family.rank}={variables[family.rank]} is set and {family.size} is not: set it to the number of "
                f"processes, or unset {family.rank} if this one is to train alone"
            )


def _warn_in_batch_script(variables: Mapping[str, str]) -> None:
    tasks = variables.get("SLURM_STEP_NUM_TASKS") or variables.get("SLURM_NTASKS") or "1"
    if tasks != "1" and variables.get("SLURM_STEP_ID", "") == "":
        warnings.warn(
            f"Slurm has given this job {tasks} tasks, but this process was not started by srun, so it trains alone. "
            "Use `srun python ...` to start all tasks",
            stacklevel=2,
        )
