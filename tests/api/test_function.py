"""Arguments of ``farandole.run``, none of which starts anything."""

from __future__ import annotations

import inspect
import pickle
from pathlib import Path

import pytest

import farandole
from farandole.exceptions import RunError
from farandole.launch import cli
from farandole.launch.function import caller
from farandole.launch.hosts.hosts import Host

# horovod.run of Horovod 0.28.1, names, order and defaults.
SIGNATURE = (
    "func, args=(), kwargs=None, num_proc=1, min_num_proc=None, max_num_proc=None, slots=None, reset_limit=None, "
    "cooldown_range=None, hosts=None, hostfile=None, host_discovery_script=None, start_timeout=None, ssh_port=None, "
    "ssh_identity_file=None, disable_cache=None, output_filename=None, verbose=None, use_gloo=None, use_mpi=None, "
    "mpi_args=None, network_interface=None, network_interfaces=None, executable=None, np=None, min_np=None, max_np=None"
)


def test_error_can_be_pickled() -> None:
    error = pickle.loads(pickle.dumps(RunError("text", 1, "trace", 2, (0, 1))))
    assert (str(error), error.rank, error.traceback, error.exit_code, error.missing) == ("text", 1, "trace", 2, (0, 1))


def test_signature() -> None:
    signature = inspect.signature(farandole.run)
    plain = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
    assert str(signature.replace(parameters=plain, return_annotation=signature.empty)) == f"({SIGNATURE})"


@pytest.mark.parametrize(
    ("arguments", "kind", "sentence"),
    [
        ({"func": 5}, TypeError, "calls a function, not a int"),
        ({"use_gloo": True, "use_mpi": True}, ValueError, "use_gloo and use_mpi exclude each other"),
        ({"hosts": "a:1", "hostfile": "b"}, ValueError, "hosts and hostfile exclude each other"),
        ({"hosts": "localhost:x"}, ValueError, "'x' is not a number of slots"),
        ({"hostfile": "/no/such/file"}, ValueError, "/no/such/file: No such file"),
        ({"num_proc": 0}, ValueError, "num_proc is 0"),
        ({"num_proc": 2, "hosts": "localhost:1"}, ValueError, "slots for 1 of 2 processes"),
        ({"num_proc": True}, ValueError, "num_proc is True"),
        ({"args": 5}, TypeError, "args"),
        ({"kwargs": [5]}, TypeError, "kwargs"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments: dict, kind: type[Exception], sentence: str) -> None:
    with pytest.raises(kind, match=sentence):
        farandole.run(**{"func": abs, **arguments})


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[tuple]:
    """What would have been started: expected results and options."""
    calls: list[tuple] = []
    monkeypatch.setattr(caller, "run", lambda call, expected, options, _: calls.append((expected, options)))
    return calls


@pytest.mark.parametrize(
    ("old", "new", "flag"),
    [
        ("np", "num_proc", "-np"),
        ("min_np", "min_num_proc", "--min-np"),
        ("max_np", "max_num_proc", "--max-np"),
        ("network_interface", "network_interfaces", "--network-interfaces"),
    ],
)
def test_former_names_warn_and_win(started: list[tuple], old: str, new: str, flag: str) -> None:
    with pytest.warns(DeprecationWarning, match=f"{old} is deprecated: call it {new}") as warned:
        farandole.run(abs, **{old: 3, new: 2})
    assert warned[0].filename == __file__
    assert f"{flag}=3" in started[0][1] or started[0][1] == [flag, "3"]


def test_arguments_become_flags(started: list[tuple], tmp_path: Path) -> None:
    """And are such that the command line takes them."""
    (tmp_path / "hosts").write_text("localhost slots=4\n")
    given = {
        "num_proc": 3,
        "min_num_proc": 2,
        "max_num_proc": 4,
        "slots": 5,
        "reset_limit": 6,
        "cooldown_range": (7, 8),
        "hostfile": str(tmp_path / "hosts"),
        "start_timeout": 9,
        "ssh_port": 10,
        "ssh_identity_file": "key",
        "disable_cache": True,
        "output_filename": "out",
        "verbose": 2,
        "use_gloo": False,
        "use_mpi": True,
        "mpi_args": "--x",
        "network_interfaces": "eth0,eth1",
    }
    farandole.run(abs, **given)
    ((expected, options),) = started
    parsed = cli.parse(["run", *options, "--", "true"])
    assert expected == parsed.min_processes == 2 and parsed.processes == 3 and parsed.max_processes == 4
    assert (parsed.slots_per_host, parsed.reset_limit, parsed.cooldown_range_s) == (5, 6, (7, 8))
    assert parsed.hosts == (Host("localhost", 4),) and parsed.network_interfaces == ("eth0", "eth1")
    assert (parsed.start_timeout_s, parsed.ssh_port, parsed.ssh_identity_file) == (9, 10, "key")
    assert parsed.output_folder == "out" and parsed.verbose
    farandole.run(abs, num_proc=2, verbose=0, use_gloo=True, host_discovery_script="script", disable_cache=False)
    farandole.run(abs, min_num_proc=3)
    assert started[2] == (3, ["-np", "3", "--min-np=3"])
    assert started[1] == (2, ["-np", "2", "--host-discovery-script=script"])
