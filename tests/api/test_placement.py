"""Who a process is by the variables of whoever started it."""

from __future__ import annotations

import pytest

from farandole import _placement
from farandole.exceptions import InitializationError

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


def numbers(variables: dict[str, str]) -> tuple[int, int, int, int]:
    place = _placement.find(variables)
    return place.rank, place.size, place.local_rank, place.local_size


def test_families() -> None:
    assert numbers(MPIRUN) == (1, 4, 1, 4)
    assert numbers({**TORCHRUN, **KEY}) == (3, 4, 1, 2)
    assert numbers({**SRUN, **KEY, "FARANDOLE_CONTROLLER": "node0:4000"}) == (4, 5, 0, 1)
    assert numbers({"FARANDOLE_RANK": "0", "FARANDOLE_SIZE": "2"}) == (0, 2, -1, -1)
    # What the user says by hand wins.
    assert numbers({**MPIRUN, "FARANDOLE_RANK": "0", "FARANDOLE_SIZE": "2"})[:2] == (0, 2)


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {**MPIRUN, "FARANDOLE_AGENT_SOCKET": "x"},
        {**MPIRUN, "OMPI_COMM_WORLD_SIZE": "1"},
        {"FARANDOLE_RANK": "1"},
        # Of somebody else than torchrun.
        {"RANK": "1", "WORLD_SIZE": "2"},
        # In a batch script, outside of srun.
        {"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "4", "SLURM_JOB_ID": "9"},
    ],
)
def test_alone_or_launched(variables: dict[str, str]) -> None:
    assert _placement.find(variables) is None


def test_where_the_controller_is() -> None:
    assert _placement.find(MPIRUN).controller == ""
    assert _placement.find({**TORCHRUN, **KEY}).controller == "node0:29501"
    assert _placement.find({**TORCHRUN, **KEY, "FARANDOLE_CONTROLLER": "a:1"}).controller == "a:1"
    assert _placement.find({**TORCHRUN, "LOCAL_WORLD_SIZE": "4"}).controller == ""


def test_names_of_sockets_tell_jobs_apart() -> None:
    places = [_placement.find({**MPIRUN, "PMIX_NAMESPACE": name}) for name in ("77", "78")]
    assert places[0].socket_name() == _placement.find({**MPIRUN, "OMPI_COMM_WORLD_RANK": "0"}).socket_name()
    assert places[0].socket_name() != places[1].socket_name()


def test_parts() -> None:
    place = _placement.told({**MPIRUN, "FARANDOLE_AGENT_SOCKET": "x"})
    assert place.part([3, 1]) == _placement.told({**MPIRUN, "FARANDOLE_AGENT_SOCKET": "y"}).part([3, 1])
    assert (place.part([3, 1]).rank, place.part([3, 1]).size, place.part([3, 1]).local_size) == (1, 2, -1)
    assert (
        len({place.part(ranks).socket_name() for ranks in ([3, 1], [1, 3], [1], [1, 2, 3])} | {place.socket_name()})
        == 5
    )
    # On several hosts its keeper asks the launcher's program, or the controller that the others ask, too.
    spread = _placement.told({**MPIRUN, "FARANDOLE_AGENT_SOCKET": "x", "OMPI_COMM_WORLD_LOCAL_SIZE": "2"})
    assert spread.part([3, 1]).launcher == "x"
    assert _placement.find({**TORCHRUN, **KEY}).part([3, 1]).controller == "node0:29501"


@pytest.mark.parametrize(
    ("variables", "sentence"),
    [
        ({**MPIRUN, "OMPI_COMM_WORLD_RANK": "4"}, "makes no sense: OMPI_COMM_WORLD_RANK=4"),
        ({**MPIRUN, "OMPI_COMM_WORLD_RANK": "x"}, "OMPI_COMM_WORLD_RANK='x' is not a number"),
        (
            {**MPIRUN, "OMPI_COMM_WORLD_LOCAL_SIZE": "2"},
            "mpirun has put ranks on several hosts: set FARANDOLE_CONTROLLER",
        ),
        (SRUN, "srun has put ranks on several hosts"),
        (TORCHRUN, "need a common secret to join the controller at node0:29501"),
        ({**MPIRUN, "FARANDOLE_CONTROLLER": "node"}, "FARANDOLE_CONTROLLER='node' is not HOST:PORT"),
    ],
)
def test_what_does_not_suffice(variables: dict[str, str], sentence: str) -> None:
    with pytest.raises(InitializationError, match=sentence):
        _placement.find(variables)
