"""Which process of how many this is, by the variables of whoever has started it: mpirun, srun, torchrun, a person."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from farandole.exceptions import InitializationError

# Processes of Slurm's steps that are believed; it has not that many.
_TASKS_MAX = 1 << 24


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


def _flux_local_size(variables: Mapping[str, str], name: str) -> int:
    """Flux says no more than on how many hosts the ranks run."""
    return _number(variables, "FLUX_JOB_SIZE" if variables.get("FLUX_JOB_NNODES") == "1" else name)


@dataclass(frozen=True)
class Family:
    """The variables of one kind of launcher.

    Attributes:
        by: what it is called in messages.
        rank, size: in the job.
        local_rank, local_size: on the host.
        of_job: what tells the job from others of this user.
        needed: without these the others mean something else, or do not suffice.
        of_host: tells the job from others, too, and may differ from host to host.
        read_local_size: the number of ranks on this host, from the variable `local_size`; -1: not told.
        ours: they count before those of others, also where they say that this process is alone. They mean one host if
            they do not say how many ranks it has.
    """

    by: str
    rank: str
    size: str
    local_rank: str
    local_size: str
    of_job: tuple[str, ...]
    needed: tuple[str, ...] = ()
    of_host: tuple[str, ...] = ()
    read_local_size: Callable[[Mapping[str, str], str], int] = _number
    ours: bool = False


# MPICH and Intel MPI, also where they have started a process on each host by another launcher.
_MPIEXEC = Family(
    "mpiexec",
    "PMI_RANK",
    "PMI_SIZE",
    "MPI_LOCALRANKID",
    "MPI_LOCALNRANKS",
    ("PMI_JOBID", "FARANDOLE_JOB", "FARANDOLE_CONTROLLER"),
    ("MPI_LOCALNRANKS",),
)
_SRUN = Family(
    "srun",
    "SLURM_PROCID",
    "SLURM_STEP_NUM_TASKS",
    "SLURM_LOCALID",
    "SLURM_STEP_TASKS_PER_NODE",
    ("SLURM_JOB_ID", "SLURM_STEP_ID"),
    ("SLURM_STEP_ID",),
    read_local_size=_slurm_local_size,
)
# PMIx tells the rank by a variable, and not the number of processes.
_PMIX = Family(
    "PMIX_RANK and FARANDOLE_SIZE",
    "PMIX_RANK",
    "FARANDOLE_SIZE",
    "FARANDOLE_LOCAL_RANK",
    "FARANDOLE_LOCAL_SIZE",
    ("PMIX_NAMESPACE", "FARANDOLE_JOB"),
)
# In the order in which they count.
_FAMILIES = (
    Family(
        "FARANDOLE_RANK and FARANDOLE_SIZE",
        "FARANDOLE_RANK",
        "FARANDOLE_SIZE",
        "FARANDOLE_LOCAL_RANK",
        "FARANDOLE_LOCAL_SIZE",
        ("FARANDOLE_JOB", "FARANDOLE_CONTROLLER"),
        ours=True,
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
        ("TORCHELASTIC_RUN_ID", "MASTER_PORT"),
        ("MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID"),
        # Each host counts its restarts.
        of_host=("TORCHELASTIC_RESTART_COUNT",),
    ),
    Family(
        "mpirun",
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
        ("PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"),
    ),
    # MVAPICH2
    Family(
        "mpirun_rsh",
        "MV2_COMM_WORLD_RANK",
        "MV2_COMM_WORLD_SIZE",
        "MV2_COMM_WORLD_LOCAL_RANK",
        "MV2_COMM_WORLD_LOCAL_SIZE",
        ("FARANDOLE_JOB", "FARANDOLE_CONTROLLER"),
    ),
    # IBM's job step manager, under LSF
    Family(
        "jsrun",
        "JSM_NAMESPACE_RANK",
        "JSM_NAMESPACE_SIZE",
        "JSM_NAMESPACE_LOCAL_RANK",
        "JSM_NAMESPACE_LOCAL_SIZE",
        ("LSB_JOBID", "FARANDOLE_JOB", "FARANDOLE_CONTROLLER"),
    ),
    _MPIEXEC,
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
    # It may be what srun or PALS has started, once on each host.
    Family(
        "flux run",
        "FLUX_TASK_RANK",
        "FLUX_JOB_SIZE",
        "FLUX_TASK_LOCAL_ID",
        "FARANDOLE_LOCAL_SIZE",
        ("FLUX_JOB_ID",),
        # Instances of Flux that do not know of each other may give two jobs the same number.
        of_host=("FLUX_URI",),
        read_local_size=_flux_local_size,
    ),
    # HPE and Cray
    Family(
        "mpiexec (PALS)",
        "PALS_RANKID",
        "PMI_SIZE",
        "PALS_LOCAL_RANKID",
        "PMI_LOCAL_SIZE",
        ("PALS_APID",),
    ),
    _SRUN,
    # Plugins for PMI of the three above set these, too, and leave the ranks of a host to the launcher's own variables.
    replace(_MPIEXEC, by="PMI_RANK and PMI_SIZE", needed=()),
    _PMIX,
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


def _process_manager() -> str:
    """Number of the process manager of MPICH, Intel MPI or MVAPICH2 that has started this process, directly or through
    others: nothing else of theirs tells two jobs of a host apart. Empty if there is none."""
    pid = "self"
    for _ in range(64):
        try:
            text = Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            return ""
        name, _, rest = text.partition("(")[2].rpartition(")")
        if name.endswith(("pmi_proxy", "mpispawn")):
            return text.partition(" ")[0]
        pid = rest.split()[1]
    return ""


def _meeting(family: Family, variables: Mapping[str, str]) -> str:
    port = _number(variables, "MASTER_PORT") if "MASTER_PORT" in family.needed else 0
    # The port itself is that of torch's own store.
    return f"{variables['MASTER_ADDR']}:{port + 1}" if 0 < port < 65535 else ""


def _missing(variables: Mapping[str, str], *names: str) -> list[str]:
    return [name for name in names if not variables.get(name)]


def _complete(family: Family, variables: Mapping[str, str]) -> bool:
    return not _missing(variables, family.rank, family.size, *family.needed)


def _contradiction(family: Family, variables: Mapping[str, str]) -> InitializationError:
    names = (family.rank, family.size, family.local_rank, family.local_size)
    values = ", ".join(f"{name}={variables[name]}" for name in names if variables.get(name))
    return InitializationError(f"the launcher's variables contradict each other: {values}")


def told(variables: Mapping[str, str]) -> Told | None:
    """What the first family says that is complete and names several processes; None if none does. FARANDOLE_SIZE=1
    means that this process is alone, whatever others say.

    Raises:
        InitializationError: what it says makes no sense.
    """
    for family in _FAMILIES:
        if not _complete(family, variables):
            continue
        rank, size, local_rank = (_number(variables, name) for name in (family.rank, family.size, family.local_rank))
        local_size = family.read_local_size(variables, family.local_size)
        if size <= 1:
            # It may have started the launcher of these processes.
            if family.ours:
                return None
            continue
        if not 0 <= rank < size or local_size > size or (local_size >= 0 and local_rank >= local_size):
            raise _contradiction(family, variables)
        one_host = local_size == size or (local_size < 0 and family.ours)
        of_job = [variables.get(name, "") for name in (*family.of_job, *(family.of_host if one_host else ()))]
        if one_host and not any(of_job):
            of_job = [_process_manager()]
        job = "/".join([family.by, *of_job])
        return Told(family, job, rank, size, local_rank, local_size, _meeting(family, variables), one_host)
    return None


def refuse_half(variables: Mapping[str, str]) -> None:
    """For a process that `told` knows nothing of: it does not train alone without a word if a variable says otherwise.

    Raises:
        InitializationError: it is one of several, and variables are missing that say which, or contradict each other.
    """
    complete = [family for family in _FAMILIES if _complete(family, variables)]
    if complete:
        if _number(variables, complete[0].rank) > 0:
            raise _contradiction(complete[0], variables)
        return  # the only one of its launcher
    # Of two that have the same rank and size the last one needs less.
    for family in {(each.rank, each.size): each for each in _FAMILIES}.values():
        if family is _SRUN:
            _refuse_half_of_srun(variables)
            continue
        if family is _PMIX and variables.get("OMPI_MCA_ess") == "singleton":
            continue  # inherited from a process that has called MPI_Init and that nobody has started
        text = variables.get(family.size, "")
        size = _number_or_less(text)
        if size > 1:
            raise InitializationError(
                f"{family.size}={size} says that this process is one of {size}, but "
                f"{_are_not_set(_missing(variables, family.rank, *family.needed))}: set what is missing on every "
                f"process, or unset {family.size} if this one is to train alone"
            )
        if not text and not _missing(variables, family.rank, *family.needed):
            raise InitializationError(
                f"{family.rank}={variables[family.rank]} is set and {family.size} is not: set it to the number of "
                f"processes, or unset {family.rank} if this one is to train alone"
            )
    for family in _FAMILIES:
        _refuse_part_of_host(family, variables)


def _number_or_less(text: str) -> int:
    """-1 where a variable of this name may be that of a program that has nothing to do with us."""
    return int(text) if text.isdecimal() and len(text) < 10 else -1


def _refuse_part_of_host(family: Family, variables: Mapping[str, str]) -> None:
    """Of a launcher that has told its rank on this host, or the number of ranks there, and nothing else."""
    # A batch script of Slurm's has rank 0.
    ranks = (family.local_rank, *((family.rank,) if family is _SRUN else ()))
    counts = {name: _number_or_less(variables.get(name, "")) for name in (family.local_size, *ranks)}
    for name, count in counts.items():
        if count > (1 if name == family.local_size else 0):
            raise InitializationError(
                f"{name}={count} says that this process is one of several, but "
                f"{_are_not_set(_missing(variables, family.rank, family.size, *family.needed))}: set what is missing "
                f"on every process, or unset {name} if this one is to train alone"
            )


def _refuse_half_of_srun(variables: Mapping[str, str]) -> None:
    """A task of a step is refused; what srun has not started, in a batch script, is told so."""
    step, rank = variables.get("SLURM_STEP_ID", ""), variables.get("SLURM_PROCID", "")
    tasks = variables.get("SLURM_STEP_NUM_TASKS") or variables.get("SLURM_NTASKS") or ""
    if tasks == "1" and rank in ("", "0"):
        return
    if step and (tasks or rank):
        raise InitializationError(
            f"srun has started this process (SLURM_STEP_ID={step}), but "
            f"{_are_not_set(_missing(variables, _SRUN.rank, _SRUN.size))}: set what is missing on every process "
            "(SLURM_STEP_NUM_TASKS is the number of tasks of this step, SLURM_NTASKS may be that of the whole job), or "
            "set SLURM_STEP_NUM_TASKS=1 if this one is to train alone"
        )
    if not step and tasks not in ("", "1"):
        warnings.warn(
            f"Slurm has given this job {tasks} tasks, but this process was not started by srun, so it trains alone. "
            "Use `srun python ...` to start all tasks",
            stacklevel=2,
        )


def _are_not_set(names: list[str]) -> str:
    *rest, last = names
    return f"{', '.join(rest)} and {last} are not set" if rest else f"{last} is not set"
