from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

import processes
import pytest
import torch

import farandole
import farandole.torch
from farandole.base import locate
from farandole.library import abi, submission

QUERIES = ("rank", "size", "local_rank", "local_size", "cross_rank", "cross_size", "is_homogeneous")


@pytest.mark.parametrize("query", QUERIES)
def test_queries_need_init(query: str) -> None:
    function = getattr(farandole.torch, query)
    with pytest.raises(ValueError, match=r"Farandole has not been initialized; use hvd.init\(\)"):
        function()


def test_operations_need_init() -> None:
    hvd = farandole.torch
    ones = torch.ones(2)
    operations = [
        lambda: hvd.allreduce(ones),
        lambda: hvd.allreduce_async_(ones),
        lambda: hvd.allgather(ones),
        lambda: hvd.broadcast(ones, 0),
        lambda: hvd.barrier(),
        lambda: hvd.broadcast_object(1),
        lambda: hvd.DistributedOptimizer(torch.optim.SGD([ones.requires_grad_()], lr=0.1)),
    ]
    for operation in operations:
        with pytest.raises(hvd.HorovodInternalError, match="initialized") as caught:
            operation()
        assert isinstance(caught.value, ValueError)


def test_lone_process_is_rank_0_of_1(hvd: ModuleType) -> None:
    assert hvd.is_initialized()
    assert [getattr(hvd, query)() for query in QUERIES] == [0, 1, 0, 1, 0, 1, True]
    assert str(hvd.global_process_set) == "ProcessSet(process_set_id=0, ranks=[0], mpi_comm=None)"
    assert hvd.global_process_set.included()


def test_init_and_shutdown_are_idempotent_and_repeatable(hvd: ModuleType) -> None:
    hvd.init()
    assert hvd.allreduce(torch.ones(2)).tolist() == [1, 1]
    hvd.shutdown()
    hvd.shutdown()
    assert not hvd.is_initialized()
    with pytest.raises(ValueError, match="initialized"):
        hvd.rank()
    hvd.init()
    assert hvd.allreduce(torch.ones(2)).tolist() == [1, 1]


def test_init_with_ranks_of_the_older_form() -> None:
    hvd = farandole.torch
    for ranks in ([0], [], (0,)):
        hvd.init(comm=ranks)
        assert hvd.size() == 1
        hvd.shutdown()
    for ranks, text in (
        ([0, 1], "the job has 1: there is no rank 1"),
        ([0, 0], "one of them twice"),
        ("01", "comm must be"),
        (3, "comm must"),
    ):
        with pytest.raises(ValueError, match=text):
            hvd.init(comm=ranks)
        assert not hvd.is_initialized()


def test_init_refuses_what_it_cannot_do() -> None:
    with pytest.raises(ValueError, match="dynamic"):
        farandole.torch.init(process_sets="all")
    with pytest.raises(ValueError, match=r"process_sets\[1\]"):
        farandole.torch.init(process_sets=[farandole.torch.ProcessSet([0]), farandole.torch.ProcessSet([0])])
    with pytest.raises(ValueError, match="int"):
        farandole.torch.ProcessSet(["0"])


def test_unregistered_process_set(hvd: ModuleType) -> None:
    subset = hvd.ProcessSet([1, 0])
    assert (subset.ranks, subset.size(), subset.rank()) == ([0, 1], None, None)
    with pytest.raises(ValueError, match="not registered"):
        hvd.allreduce(torch.ones(1), process_set=subset)
    with pytest.raises(ValueError, match="ProcessSet"):
        hvd.allreduce(torch.ones(1), process_set=1)


def test_missing_library_names_the_places(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FARANDOLE_LIBRARY_DIR", str(tmp_path))
    monkeypatch.setattr(abi, "_library", None)
    with pytest.raises(ImportError, match=re.escape(f"{tmp_path}/libfarandole.so") + ".*FARANDOLE_LIBRARY_DIR"):
        farandole.torch.init()


def test_library_of_another_release_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(abi, "__version__", "9.9.9")
    monkeypatch.setattr(abi, "_library", None)
    with pytest.raises(ImportError, match=r"9\.9\.9 found .* of release " + re.escape(farandole.__version__)):
        farandole.torch.init()


def test_prototypes_cover_the_header() -> None:
    header = (processes.ROOT / "frameworks" / "c_api.h").read_text()
    declared = re.findall(r"FARANDOLE_API [^;(]*?(farandole_\w+)\(([^;]*)\);", header)
    ours = {**abi._WAITING, **abi._QUICK}
    assert {name for name, _ in declared} == set(ours)
    for name, arguments in declared:
        count = 0 if arguments.strip() == "void" else arguments.count(",") + 1
        assert len(ours[name][1]) == count, name
    enums = [
        dict(re.findall(r"FARANDOLE_(\w+) = (-?\d+)", body)) for body in re.findall(r"enum \{(.*?)\}", header, re.S)
    ]
    for module, first in ((abi, "OK"), (submission, "ALLREDUCE")):
        (numbers,) = [enum for enum in enums if first in enum]
        assert {name: str(getattr(module, name)) for name in numbers} == numbers


def test_override_of_a_folder_wins(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "farandole-agent").write_text("")
    monkeypatch.setenv("FARANDOLE_BIN_DIR", str(tmp_path))
    assert locate.find("farandole-agent") == str(tmp_path / "farandole-agent")
    with pytest.raises(FileNotFoundError, match="farandole-controller was not found at"):
        locate.find("farandole-controller")


def test_import_starts_nothing(tmp_path: Path) -> None:
    job = processes.python(
        tmp_path,
        """
        print("tasks", len(os.listdir("/proc/self/task")))
        print("library", "libfarandole" in open("/proc/self/maps").read())
        assert not hvd.is_initialized()
        """,
    )
    assert job.stdout.split() == ["tasks", "1", "library", "False"], job.report()


def test_top_level_import_brings_little(tmp_path: Path) -> None:
    path = tmp_path / "script.py"
    path.write_text(
        "import sys, farandole\n"
        "foreign = ('torch', 'numpy', 'ctypes', 'numbers', 'json', 'subprocess')\n"
        "print(*sorted(m for m in sys.modules if m in foreign or m.startswith('farandole')))\n"
    )
    with processes.running([processes.sys.executable, str(path)], tmp_path) as job:
        assert job.wait() == 0
    ours = ["farandole", "farandole.launch", "farandole.launch.function", "farandole.launch.function.run"]
    assert job.stdout.split() == [*ours, "farandole.version"]


def test_lone_process_opens_no_socket_and_starts_no_process(tmp_path: Path) -> None:
    job = processes.python(
        tmp_path,
        """
        hvd.init()
        hvd.allreduce(torch.ones(1000))
        hvd.barrier()
        links = []
        for fd in os.listdir("/proc/self/fd"):
            try:
                links.append(os.readlink(f"/proc/self/fd/{fd}"))
            except FileNotFoundError:  # that of the listing itself
                pass
        print("sockets", [link for link in links if link.startswith("socket")])
        print("children", repr(open(f"/proc/self/task/{os.getpid()}/children").read()))
        hvd.shutdown()
        """,
    )
    assert job.wait() == 0, job.report()
    assert job.stdout.splitlines() == ["sockets []", "children ''"], job.report()


def test_forked_child_gets_an_error_and_the_parent_goes_on(tmp_path: Path) -> None:
    job = processes.python(
        tmp_path,
        """
        hvd.init()
        pid = os.fork()
        if pid == 0:
            for call in (hvd.rank, hvd.init, hvd.barrier, lambda: hvd.allreduce(torch.ones(1))):
                try:
                    call()
                    print("no error")
                except ValueError as error:
                    print("error", "fork" in str(error), isinstance(error, hvd.HorovodInternalError), flush=True)
            print("initialized", hvd.is_initialized(), flush=True)
            sys.exit(0)
        print("child", os.waitpid(pid, 0)[1])
        print(hvd.allreduce(torch.ones(1)).item())
        """,
    )
    assert job.wait() == 0, job.report()
    expected = ["error True True"] * 4 + ["initialized False", "child 0", "1.0"]
    assert job.stdout.splitlines() == expected, job.report()


def test_many_rounds_leave_nothing(hvd: ModuleType) -> None:
    def resources() -> tuple[int, int]:
        return len(list(Path("/proc/self/task").iterdir())), len(list(Path("/proc/self/fd").iterdir()))

    counts = []
    for turn in range(30):
        hvd.shutdown()
        hvd.init()
        hvd.allreduce(torch.ones(3))
        if turn in (9, 29):
            counts.append(resources())
    assert counts[0] == counts[1]
