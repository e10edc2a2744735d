"""Who a process is by the variables of whoever started it."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from farandole.base.private import user_secret
from farandole.exceptions import InitializationError
from farandole.session import placement

MPIRUN = {
    "OMPI_COMM_WORLD_RANK": "1",
    "OMPI_COMM_WORLD_SIZE": "4",
    "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "4",
    "PMIX_NAMESPACE": "77",
}
TORCHRUN = {
    "RANK": "3",
    "WORLD_SIZE": "4",
    "LOCAL_RANK": "1",
    "LOCAL_WORLD_SIZE": "2",
    "MASTER_ADDR": "node0",
    "MASTER_PORT": "29500",
    "TORCHELASTIC_RUN_ID": "none",
}
SRUN = {
    "SLURM_PROCID": "4",
    "SLURM_STEP_NUM_TASKS": "5",
    "SLURM_LOCALID": "0",
    "SLURM_NODEID": "2",
    "SLURM_STEP_TASKS_PER_NODE": "2(x2),1",
    "SLURM_JOB_ID": "9",
    "SLURM_STEP_ID": "0",
}
KEY = {"FARANDOLE_KEY_FILE": "/key"}
MPIEXEC = {"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2"}
MVAPICH2 = {
    "MV2_COMM_WORLD_RANK": "1",
    "MV2_COMM_WORLD_SIZE": "2",
    "MV2_COMM_WORLD_LOCAL_RANK": "1",
    "MV2_COMM_WORLD_LOCAL_SIZE": "2",
}
JSRUN = {
    "JSM_NAMESPACE_RANK": "1",
    "JSM_NAMESPACE_SIZE": "2",
    "JSM_NAMESPACE_LOCAL_RANK": "1",
    "JSM_NAMESPACE_LOCAL_SIZE": "2",
    "LSB_JOBID": "7",
}
FLUX = {
    "FLUX_TASK_RANK": "1",
    "FLUX_JOB_SIZE": "2",
    "FLUX_TASK_LOCAL_ID": "1",
    "FLUX_JOB_NNODES": "1",
    "FLUX_JOB_ID": "f7",
    "FLUX_URI": "local:///a",
}
PALS = {
    "PALS_RANKID": "1",
    "PMI_RANK": "1",
    "PMI_SIZE": "2",
    "PALS_LOCAL_RANKID": "1",
    "PMI_LOCAL_SIZE": "2",
    "PALS_APID": "a-b-c",
}
PMIX = {"PMIX_RANK": "1", "PMIX_NAMESPACE": "77"}
HOROVOD = {
    "HOROVOD_RANK": "3",
    "HOROVOD_SIZE": "4",
    "HOROVOD_LOCAL_RANK": "1",
    "HOROVOD_LOCAL_SIZE": "2",
    "HOROVOD_GLOO_RENDEZVOUS_PORT": "9",
}
# As by hand, or by a Kubernetes operator.
RANKS = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "pod-0", "MASTER_PORT": "29500"}
NODE_0 = {"FARANDOLE_CONTROLLER": "node0:4000"}


def numbers(variables: dict[str, str]) -> tuple[int, int, int, int]:
    place = placement.find(variables)
    return place.rank, place.size, place.local_rank, place.local_size


def test_families() -> None:
    assert numbers(MPIRUN) == (1, 4, 1, 4)
    assert numbers({**TORCHRUN, **KEY}) == (3, 4, 1, 2)
    assert numbers({**SRUN, **KEY, **NODE_0}) == (4, 5, 0, 1)
    assert numbers({**SRUN, **KEY, **NODE_0, "SLURM_STEP_TASKS_PER_NODE": "1(x99999999)"}) == (4, 5, 0, 1)
    assert numbers(MPIEXEC) == (1, 2, 1, 2)
    # Each host has a process of srun's, too, that has started the ranks there.
    assert numbers({**SRUN, **MPIEXEC}) == (1, 2, 1, 2)
    assert numbers({**HOROVOD, **KEY, **NODE_0}) == (3, 4, 1, 2)
    assert numbers({**RANKS, **KEY}) == (1, 2, -1, -1)
    # Slurm's plugins for PMI: with the same numbers, and without those of a host.
    assert numbers({**SRUN, **KEY, **NODE_0, "PMI_RANK": "4", "PMI_SIZE": "5", "PMI_JOBID": "9.0"}) == (4, 5, 0, 1)
    # The same as Flux and PALS set them.
    assert numbers(MVAPICH2) == numbers(FLUX) == numbers(PALS) == numbers(JSRUN) == (1, 2, 1, 2)
    pmi = {"PMI_RANK": "1", "PMI_SIZE": "2"}
    assert numbers({**FLUX, **pmi}) == (1, 2, 1, 2) == numbers({**MVAPICH2, **pmi})
    assert numbers({name: value for name, value in PALS.items() if name != "PMI_RANK"}) == (1, 2, 1, 2)
    assert numbers({**FLUX, **KEY, **NODE_0, "FLUX_JOB_NNODES": "2"}) == (1, 2, 1, -1)
    assert numbers({**FLUX, **KEY, **NODE_0, "FLUX_JOB_NNODES": "2", "FARANDOLE_LOCAL_SIZE": "2"}) == (1, 2, 1, 2)
    # PMIx tells no size. Open MPI and Slurm set these, too.
    pmix = {**PMIX, "FARANDOLE_SIZE": "2", "FARANDOLE_LOCAL_SIZE": "2"}
    assert numbers(pmix) == (1, 2, -1, 2)
    assert numbers({**MPIRUN, **PMIX}) == (1, 4, 1, 4) == numbers({**MPIRUN, **pmix})
    assert numbers({**SRUN, **PMIX, **KEY, **NODE_0}) == (4, 5, 0, 1) == numbers({**SRUN, **pmix, **KEY, **NODE_0})
    # A launcher inside another one.
    assert numbers({**SRUN, **FLUX}) == numbers({**PALS, **FLUX, "PALS_RANKID": "0"}) == (1, 2, 1, 2)
    assert numbers({**PALS, **MPIEXEC, "PALS_RANKID": "0", "PMI_LOCAL_SIZE": "1"}) == (1, 2, 1, 2)
    alone = {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "1"}
    assert numbers({**alone, **TORCHRUN, **KEY}) == (3, 4, 1, 2) == numbers({**MPIRUN, **TORCHRUN, **KEY})
    assert numbers({**TORCHRUN, **KEY, "HOROVOD_RANK": "0", "HOROVOD_SIZE": "1"}) == (3, 4, 1, 2)
    assert numbers({**RANKS, **MPIEXEC, "RANK": "0"}) == (1, 2, 1, 2)
    assert placement.find({**MPIRUN, "FARANDOLE_RANK": "0", "FARANDOLE_SIZE": "1"}) is None
    assert numbers({"FARANDOLE_RANK": "0", "FARANDOLE_SIZE": "2"}) == (0, 2, -1, -1)
    # What the user says by hand wins.
    assert numbers({**MPIRUN, "FARANDOLE_RANK": "0", "FARANDOLE_SIZE": "2"})[:2] == (0, 2)


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {**MPIRUN, "OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "1"},
        {"PMI_RANK": "0", "PMI_SIZE": "1"},
        # Of a program that has nothing to do with us.
        {"RANK": "1"},
        {"WORLD_SIZE": "1"},
        {"WORLD_SIZE": "auto"},
        {"LOCAL_WORLD_SIZE": "1", "LOCAL_RANK": "0"},
        {"LOCAL_RANK": "none"},
        {"SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_JOB_ID": "9"},
        # One process was asked for.
        {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "1", "SLURM_NTASKS": "4", "SLURM_JOB_ID": "9"},
        {"MV2_COMM_WORLD_RANK": "0", "MV2_COMM_WORLD_SIZE": "1"},
        {**FLUX, "FLUX_TASK_RANK": "0", "FLUX_JOB_SIZE": "1"},
        {**PALS, "PALS_RANKID": "0", "PMI_RANK": "0", "PMI_SIZE": "1"},
        # The rank of PALS is that of a process that has started this one by Flux.
        {**PALS, **FLUX, "PMI_SIZE": "1", "PMI_RANK": "0", "FLUX_TASK_RANK": "0", "FLUX_JOB_SIZE": "1"},
        {**PMIX, "OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "1"},
        {"PMIX_RANK": "0", "FARANDOLE_SIZE": "1"},
        # As children of a process that has called MPI_Init without mpirun inherit it.
        {"PMIX_RANK": "0", "PMIX_NAMESPACE": "77", "OMPI_MCA_ess": "singleton"},
        # Of the whole allocation.
        {"SLURM_PROCID": "0", "SLURM_NTASKS": "1", "SLURM_JOB_ID": "9"},
        {"SLURM_PROCID": "0", "SLURM_NTASKS": "1", "SLURM_JOB_ID": "9", "SLURM_STEP_ID": "0"},
        {"SLURM_PROCID": "0", "SLURM_NTASKS": "4", "SLURM_STEP_NUM_TASKS": "1", "SLURM_STEP_ID": "0"},
        {"SLURM_NTASKS": "4", "SLURM_STEP_NUM_TASKS": "1", "SLURM_STEP_ID": "0"},
    ],
)
@pytest.mark.filterwarnings("error")
def test_alone(variables: dict[str, str]) -> None:
    assert placement.find(variables) is None


@pytest.mark.filterwarnings("error")
def test_launched() -> None:
    """What does not suffice for others suffices for what a launcher of ours has started."""
    ours = {"FARANDOLE_RANK": "1", "FARANDOLE_SIZE": "4", "FARANDOLE_LOCAL_SIZE": "2", "FARANDOLE_AGENT_SOCKET": "x"}
    assert placement.find(ours).launcher == "x" and numbers(ours) == (1, 4, -1, 2)
    assert placement.find({"PMI_SIZE": "4", "SLURM_NTASKS": "4", "FARANDOLE_AGENT_SOCKET": "x"}) is None


@pytest.mark.parametrize("tasks", ["SLURM_NTASKS", "SLURM_STEP_NUM_TASKS"])
def test_a_batch_script_without_srun_is_told(tasks: str) -> None:
    with pytest.warns(UserWarning, match="this job 4 tasks, but this process was not started by srun"):
        assert placement.find({"SLURM_PROCID": "0", tasks: "4", "SLURM_JOB_ID": "9"}) is None


def test_where_the_controller_is() -> None:
    assert placement.find(MPIRUN).controller == ""
    assert placement.find({**TORCHRUN, **KEY}).controller == "node0:29501"
    assert placement.find({**TORCHRUN, **KEY, "FARANDOLE_CONTROLLER": "a:1"}).controller == "a:1"
    assert placement.find({**TORCHRUN, "LOCAL_WORLD_SIZE": "4"}).controller == ""
    assert placement.find({**RANKS, **KEY}).controller == "pod-0:29501"
    assert placement.find({**RANKS, "LOCAL_WORLD_SIZE": "2", "LOCAL_RANK": "1"}).controller == ""


def test_names_of_jobs_on_several_hosts_are_the_same_on_all() -> None:
    """What a host counts or calls by another name is left out."""
    there = {**TORCHRUN, **KEY, "RANK": "0", "LOCAL_RANK": "0", "MASTER_ADDR": "localhost"}
    jobs = {
        placement.find({**each, "TORCHELASTIC_RESTART_COUNT": n}).job
        for each, n in ((TORCHRUN | KEY, "0"), (there, "1"))
    }
    assert len(jobs) == 1
    one_host = {**TORCHRUN, "LOCAL_WORLD_SIZE": "4", "LOCAL_RANK": "3"}
    assert len({placement.find({**one_host, "TORCHELASTIC_RESTART_COUNT": n}).job for n in "01"}) == 2


def test_names_of_sockets_tell_jobs_apart() -> None:
    places = [placement.find({**MPIRUN, "PMIX_NAMESPACE": name}) for name in ("77", "78")]
    assert places[0].socket_name() == placement.find({**MPIRUN, "OMPI_COMM_WORLD_RANK": "0"}).socket_name()
    assert places[0].socket_name() != places[1].socket_name()
    for family, names in ((FLUX, ("FLUX_JOB_ID", "FLUX_URI")), (PALS, ("PALS_APID",)), (MVAPICH2, ("FARANDOLE_JOB",))):
        others = [{**family, name: "other"} for name in names]
        assert len({placement.find(each).socket_name() for each in (family, *others)}) == 1 + len(names)
    # Each host has a broker of its own.
    two_hosts = {**FLUX, **KEY, **NODE_0, "FLUX_JOB_NNODES": "2"}
    assert placement.find(two_hosts).job == placement.find({**two_hosts, "FLUX_URI": "local:///b"}).job


@pytest.mark.parametrize("family", [MVAPICH2, MPIEXEC], ids=["mpispawn", "hydra_pmi_proxy"])
def test_process_managers_tell_jobs_apart(
    tmp_path: Path, family: dict[str, str], request: pytest.FixtureRequest
) -> None:
    """The variables do not: what has started this process does, directly or through others."""
    manager = tmp_path / request.node.callspec.id
    shutil.copy("/bin/sh", manager)
    job = f"from farandole.session import placement; print(placement.find({family}).job)"
    ranks = 'for rank in 0 1; do sh -c "$0 -c \\"$1\\"; :"; done'
    command = [str(manager), "-c", ranks, sys.executable, job]
    told = [subprocess.run(command, capture_output=True, text=True, timeout=60).stdout.split() for _ in range(2)]
    assert all(len(jobs) == 2 and jobs[0] == jobs[1] for jobs in told) and told[0] != told[1]


def test_other_users_cannot_guess_names_of_sockets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = placement.find(MPIRUN)
    names = set()
    for user in ("one", "other"):
        (tmp_path / user).mkdir()
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / user / "cache"))
        names |= {place.socket_name(), place.socket_name()}
        assert (tmp_path / user / "cache" / "farandole" / "secret").stat().st_mode & 0o777 == 0o600
    assert len(names) == 2


def test_all_processes_of_a_user_have_one_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    script = "from farandole.base.private import user_secret; print(user_secret())"
    found = [subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) for _ in range(8)]
    said = {process.communicate(timeout=60)[0].strip() for process in found}
    assert said == {user_secret()} and len(user_secret()) == 64
    assert [path.name for path in (tmp_path / "cache" / "farandole").iterdir()] == ["secret"]


def test_what_others_may_have_read_is_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert user_secret()
    path = tmp_path / "cache" / "farandole" / "secret"
    path.chmod(0o644)
    assert user_secret() == ""
    path.unlink()
    path.symlink_to("/dev/null")
    assert user_secret() == ""
    # No folder of one's own: init() goes on without.
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/none/cache")
    assert user_secret() == ""


def test_a_name_that_somebody_holds_and_does_not_serve_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    place = placement.find({**MPIRUN, "PMIX_NAMESPACE": "held"})
    monkeypatch.setenv("FARANDOLE_START_TIMEOUT", "0.2")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as holder:
        holder.bind(f"\0{place.socket_name()}")
        with pytest.raises(InitializationError, match=f"does not answer at the socket @{place.socket_name()}; ss -xp"):
            placement.ask_keeper(place)


def test_parts() -> None:
    place = placement.find({**MPIRUN, "FARANDOLE_AGENT_SOCKET": "x"})
    assert place.part([3, 1]) == placement.find({**MPIRUN, "FARANDOLE_AGENT_SOCKET": "y"}).part([3, 1])
    assert (place.part([3, 1]).rank, place.part([3, 1]).size, place.part([3, 1]).local_size) == (1, 2, -1)
    assert (
        len({place.part(ranks).socket_name() for ranks in ([3, 1], [1, 3], [1], [1, 2, 3])} | {place.socket_name()})
        == 5
    )
    # On several hosts its keeper asks the launcher's program, or the controller that the others ask, too.
    spread = placement.find({**MPIRUN, "FARANDOLE_AGENT_SOCKET": "x", "OMPI_COMM_WORLD_LOCAL_SIZE": "2"})
    assert spread.part([3, 1]).launcher == "x"
    assert placement.find({**TORCHRUN, **KEY}).part([3, 1]).controller == "node0:29501"


@pytest.mark.parametrize(
    ("variables", "sentence"),
    [
        ({**MPIRUN, "OMPI_COMM_WORLD_RANK": "4"}, "contradict each other: OMPI_COMM_WORLD_RANK=4"),
        ({**MPIRUN, "OMPI_COMM_WORLD_RANK": "x"}, "OMPI_COMM_WORLD_RANK='x' is not a number"),
        (
            {**MPIRUN, "OMPI_COMM_WORLD_LOCAL_SIZE": "2"},
            "mpirun: there are ranks on several hosts: set FARANDOLE_CONTROLLER",
        ),
        (SRUN, "srun: there are ranks on several hosts"),
        (TORCHRUN, "need a common secret to join the controller at node0:29501"),
        ({**MPIRUN, "FARANDOLE_CONTROLLER": "node"}, "FARANDOLE_CONTROLLER='node' is not HOST:PORT"),
        (
            {**RANKS, "MASTER_ADDR": "localhost", "MASTER_PORT": "65535"},
            "it is not said how many of the 2 ranks run on this host: set LOCAL_WORLD_SIZE",
        ),
        (RANKS, "controller at pod-0:29501.*or, if all ranks run on this host, set LOCAL_WORLD_SIZE"),
        (
            {"HOROVOD_RANK": "0", "HOROVOD_SIZE": "2"},
            "it is not said how many of the 2 ranks run on this host: set HOROVOD_LOCAL_SIZE.*FARANDOLE_CONTROLLER",
        ),
        ({**SRUN, "SLURM_STEP_TASKS_PER_NODE": "?"}, "set SLURM_STEP_TASKS_PER_NODE to their number"),
        ({**SRUN, "SLURM_STEP_TASKS_PER_NODE": "1,1(x9999999999)"}, "set SLURM_STEP_TASKS_PER_NODE to their number"),
        (
            {**SRUN, **NODE_0, "SLURM_STEP_TASKS_PER_NODE": "?"},
            "if all ranks run on this host, set SLURM_STEP_TASKS_PER_NODE$",
        ),
        (HOROVOD, "there are ranks on several hosts"),
        ({"FARANDOLE_RANK": "1"}, "FARANDOLE_RANK=1 is set and FARANDOLE_SIZE is not"),
        ({"FARANDOLE_SIZE": "2"}, "FARANDOLE_SIZE=2 says that this process is one of 2, but FARANDOLE_RANK is not set"),
        ({"RANK": "1", "WORLD_SIZE": "2"}, "one of 2, but MASTER_ADDR and MASTER_PORT are not set"),
        ({"PMI_SIZE": "3"}, "PMI_SIZE=3 .* but PMI_RANK is not set"),
        ({"OMPI_COMM_WORLD_RANK": "0"}, "OMPI_COMM_WORLD_RANK=0 is set and OMPI_COMM_WORLD_SIZE is not"),
        ({**MPIRUN, "OMPI_COMM_WORLD_SIZE": "9" * 5000}, "is not a number"),
        ({"FARANDOLE_RANK": "1", "FARANDOLE_SIZE": "1"}, "contradict each other: FARANDOLE_RANK=1, FARANDOLE_SIZE=1"),
        ({**SRUN, "SLURM_STEP_NUM_TASKS": "1"}, "contradict each other: SLURM_PROCID=4, SLURM_STEP_NUM_TASKS=1"),
        ({**MVAPICH2, "MV2_COMM_WORLD_RANK": "2"}, "contradict each other: MV2_COMM_WORLD_RANK=2"),
        ({"JSM_NAMESPACE_SIZE": "2"}, "JSM_NAMESPACE_RANK is not set"),
        ({"MV2_COMM_WORLD_RANK": "0"}, "MV2_COMM_WORLD_RANK=0 is set and MV2_COMM_WORLD_SIZE is not"),
        ({"MV2_COMM_WORLD_SIZE": "2"}, "MV2_COMM_WORLD_SIZE=2 .* but MV2_COMM_WORLD_RANK is not set"),
        ({**FLUX, "FLUX_TASK_LOCAL_ID": "2"}, "contradict each other: .*FLUX_JOB_SIZE=2, FLUX_TASK_LOCAL_ID=2"),
        ({"FLUX_TASK_RANK": "0"}, "FLUX_TASK_RANK=0 is set and FLUX_JOB_SIZE is not"),
        ({"FLUX_JOB_SIZE": "2"}, "FLUX_JOB_SIZE=2 .* but FLUX_TASK_RANK is not set"),
        (
            {**FLUX, "FLUX_JOB_NNODES": "2"},
            "flux run: .* set FARANDOLE_LOCAL_SIZE to their number; if .* several hosts",
        ),
        ({**PALS, "PALS_RANKID": "2"}, "contradict each other: PALS_RANKID=2, PMI_SIZE=2"),
        ({"PALS_RANKID": "0"}, "PALS_RANKID=0 is set and PMI_SIZE is not"),
        ({**PALS, "PMI_LOCAL_SIZE": ""}, "PALS.: it is not said how many of the 2 ranks .* set PMI_LOCAL_SIZE"),
        (PMIX, "PMIX_RANK=1 is set and FARANDOLE_SIZE is not"),
        ({**PMIX, "FARANDOLE_SIZE": "2"}, "PMIX_RANK and FARANDOLE_SIZE: it is not said .* set FARANDOLE_LOCAL_SIZE"),
        ({**PMIX, "FARANDOLE_SIZE": "1"}, "contradict each other: PMIX_RANK=1, FARANDOLE_SIZE=1"),
        # A step may have fewer tasks than its job, so SLURM_NTASKS does not count for it.
        (
            {"SLURM_PROCID": "0", "SLURM_NTASKS": "2", "SLURM_STEP_ID": "0"},
            r"srun has started .* \(SLURM_STEP_ID=0\), but SLURM_STEP_NUM_TASKS is not set: .* if this one is to train",
        ),
        ({"SLURM_PROCID": "0", "SLURM_STEP_ID": "0"}, "but SLURM_STEP_NUM_TASKS is not set"),
        ({"SLURM_PROCID": "1", "SLURM_NTASKS": "1", "SLURM_STEP_ID": "0"}, "but SLURM_STEP_NUM_TASKS is not set"),
        ({"SLURM_NTASKS": "2", "SLURM_STEP_ID": "0"}, "but SLURM_PROCID and SLURM_STEP_NUM_TASKS are not set"),
        ({"SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_ID": "0"}, "but SLURM_PROCID is not set"),
        ({"SLURM_PROCID": "1"}, "SLURM_PROCID=1 .* one of several, but SLURM_STEP_NUM_TASKS and SLURM_STEP_ID are not"),
        ({"SLURM_LOCALID": "2", "SLURM_PROCID": "0"}, "SLURM_LOCALID=2 .* but SLURM_STEP_NUM_TASKS and SLURM_STEP_ID"),
        # What is told of this host only.
        (
            {"LOCAL_WORLD_SIZE": "2"},
            "LOCAL_WORLD_SIZE=2 .* but RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT and T",
        ),
        ({"LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}, "LOCAL_WORLD_SIZE=2 .* unset LOCAL_WORLD_SIZE if this one is"),
        ({"LOCAL_RANK": "1"}, "LOCAL_RANK=1 says that this process is one of several, but RANK"),
        (
            {"MPI_LOCALNRANKS": "2", "MPI_LOCALRANKID": "0"},
            "MPI_LOCALNRANKS=2 .* but PMI_RANK and PMI_SIZE are not",
        ),
        ({"OMPI_COMM_WORLD_LOCAL_SIZE": "2"}, "OMPI_COMM_WORLD_LOCAL_SIZE=2 .* but OMPI_COMM_WORLD_RANK and"),
        ({"HOROVOD_LOCAL_SIZE": "2"}, "HOROVOD_LOCAL_SIZE=2 .* but HOROVOD_RANK and HOROVOD_SIZE are not set"),
        ({"FARANDOLE_LOCAL_SIZE": "2"}, "FARANDOLE_LOCAL_SIZE=2 .* but FARANDOLE_RANK and FARANDOLE_SIZE are not set"),
        # Slurm's plugin for PMI says more than what is left of Slurm's own variables.
        ({"SLURM_STEP_ID": "0", "PMI_RANK": "1", "PMI_SIZE": "2"}, "not said how many of the 2 ranks run on this host"),
    ],
)
def test_what_does_not_suffice(variables: dict[str, str], sentence: str) -> None:
    with pytest.raises(InitializationError, match=sentence):
        placement.find(variables)
