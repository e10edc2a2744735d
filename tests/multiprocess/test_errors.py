from __future__ import annotations

import re
from pathlib import Path

import processes
import pytest

# What the error of each case must name besides the ranks: the values of both sides.
DIFFERS = {
    "dtype": ("float64", "float32"),
    "shape": ("[2, 3]", "[3, 2]"),
    "dimensions": ("[6]", "[3, 2]"),
    "op": ("sum", "average"),
    "prescale": ("0.5", "2"),
    "postscale": ("0.5", "2"),
    "root": ("2", "0"),
    "broadcast_dtype": ("float64", "float32"),
    "broadcast_shape": ("[3]", "[2]"),
    "allgather_dtype": ("float64", "float32"),
    "allgather_shape": ("4", "5"),
    "allgather_dimensions": ("dimensions", "3", "2"),
    "kind": ("allgather", "allreduce"),
    "gradient": ("[3]", "[2]"),
}


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> processes.Job:
    job = processes.launch_file(tmp_path_factory.mktemp("errors"), 3, "errors_worker.py")
    assert job.wait() == 0, job.report()
    return job


@pytest.mark.parametrize("case", DIFFERS)
def test_every_rank_is_told_which_rank_differs_in_what(job: processes.Job, case: str) -> None:
    texts = job.lines(f"case {case} |")
    assert len(texts) == 3 and len(set(texts)) == 1, texts
    assert "on rank 1 and" in texts[0] and texts[0].split(";")[0].endswith("on ranks 0 and 2")
    assert all(value in texts[0] for value in DIFFERS[case]), texts[0]
    assert ("allreduce.noname.0.1" if case == "gradient" else case) in texts[0]


def test_errors_come_at_once(job: processes.Job) -> None:
    assert len(job.lines("seconds")) == 3 and all(float(seconds) < 20 for seconds in job.lines("seconds"))


def test_duplicate_name(job: processes.Job) -> None:
    (text,) = job.lines("duplicate ValueError")
    assert "allreduce.twice" in text


def test_root_that_does_not_exist(job: processes.Job) -> None:
    texts = job.lines("root ")
    assert sum("3" in text for text in texts) == 3, texts


def test_the_stack_trace_of_a_mismatch_is_that_of_the_script(tmp_path: Path) -> None:
    body = """
        hvd.init()
        weight = torch.nn.Parameter(ones(2 + hvd.rank()))
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD([weight], lr=1.0))
        weight.sum().backward()
        """
    job = processes.launch(tmp_path, 2, body)
    assert job.wait() == 1, job.report()
    for rank in (0, 1):
        lines = [line for line in job.stderr.splitlines() if line.startswith(f"[{rank}]")]
        assert sum('  File "' in line for line in lines) == 1, job.report()
        assert any("weight.sum().backward()" in line for line in lines), job.report()
        assert any("TensorMismatchError: Mismatched ALLREDUCE tensor shapes" in line for line in lines), job.report()


def test_interrupt_in_synchronize(tmp_path: Path) -> None:
    job = processes.launch(
        tmp_path,
        2,
        """
        hvd.init()
        if hvd.rank() == 0:
            handle = hvd.allreduce_async(ones(3), name="late", op=hvd.Sum)
            sent = []
            def interrupt():
                sent.append(time.monotonic())
                os.kill(os.getpid(), signal.SIGINT)
            threading.Timer(0.3, interrupt).start()
            try:
                hvd.synchronize(handle)
                print("no interrupt")
            except KeyboardInterrupt:
                print("delay", time.monotonic() - sent[0], flush=True)
            hvd.barrier()
            print("result", hvd.synchronize(handle).tolist())
        else:
            hvd.barrier()
            hvd.allreduce(ones(3), name="late", op=hvd.Sum)
        """,
    )
    assert job.wait() == 0, job.report()
    (delay,) = job.lines("delay")
    assert float(delay) < 0.5
    assert job.lines("result") == ["[2.0, 2.0, 2.0]"]


def test_an_interrupted_call_keeps_the_memory_that_is_in_use(tmp_path: Path) -> None:
    job = processes.launch(
        tmp_path,
        2,
        """
        import weakref
        hvd.init()
        if hvd.rank() == 0:
            tensor = ones(100000)
            held = weakref.ref(tensor)
            threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
            try:
                hvd.allreduce_(tensor, name="late", op=hvd.Sum)
                print("no interrupt")
            except KeyboardInterrupt:
                pass
            del tensor
            print("held", held() is not None, flush=True)
            hvd.barrier()
            hvd.allreduce_(ones(1), name="behind")
            print("sum", float(held()[-1]), flush=True)
        else:
            hvd.barrier()
            hvd.allreduce_(ones(100000), name="late", op=hvd.Sum)
            hvd.allreduce_(ones(1), name="behind")
        """,
    )
    assert job.wait() == 0, job.report()
    assert job.lines("held") == ["True"]
    assert job.lines("sum") == ["2.0"]


def test_forked_child(tmp_path: Path) -> None:
    job = processes.launch(
        tmp_path,
        2,
        """
        hvd.init()
        for turn in range(3):
            hvd.allreduce(ones(1000), name="before")
            pid = os.fork()
            if pid == 0:
                for call in (hvd.rank, hvd.init, hvd.barrier, hvd.shutdown, lambda: hvd.allreduce(ones(1))):
                    try:
                        call()
                        print("no error")
                    except ValueError as error:
                        assert "fork" in str(error)
                        print("refused", flush=True)
                sys.exit(0)  # with all exit handlers
            print("child", os.waitpid(pid, 0)[1], flush=True)
            assert hvd.allreduce(ones(1000), op=hvd.Sum)[0] == 2
        print("done", flush=True)
        """,
    )
    assert job.wait() == 0, job.report()
    assert len(job.lines("refused")) == 2 * 3 * 5 and job.lines("child") == ["0"] * 6, job.report()
    assert len(job.lines("done")) == 2


def test_forked_data_loader_workers(tmp_path: Path) -> None:
    job = processes.launch(
        tmp_path,
        2,
        """
        hvd.init()
        class Data(torch.utils.data.Dataset):
            def __len__(self):
                return 8
            def __getitem__(self, index):
                return full((4,), float(index))
        for epoch in range(2):
            for item in torch.utils.data.DataLoader(Data(), num_workers=2):
                assert torch.equal(hvd.allreduce(item), item)
        print("done", flush=True)
        """,
    )
    assert job.wait() == 0, job.report()
    assert len(job.lines("done")) == 2


def test_spawned_data_loader_worker_that_runs_init_again(tmp_path: Path) -> None:
    job = processes.launch(
        tmp_path,
        2,
        """
        hvd.init()
        class Data(torch.utils.data.Dataset):
            def __len__(self):
                return 2
            def __getitem__(self, index):
                return ones(1)
        if __name__ == "__main__":
            hvd.allreduce(ones(1))
            loader = torch.utils.data.DataLoader(Data(), num_workers=1, multiprocessing_context="spawn")
            try:
                next(iter(loader))
                print("no error")
            except RuntimeError as error:
                print("loader failed", flush=True)
            assert hvd.allreduce(ones(1), op=hvd.Sum).item() == 2
            print(f"trainer {hvd.rank()} {os.getpid()}", flush=True)
        """,
        "--start-timeout",
        "20",
    )
    assert job.wait() == 0, job.report()
    assert len(job.lines("loader failed")) == 2, job.report()
    for rank, pid in (line.split() for line in job.lines("trainer")):
        refused = [line for line in job.stderr.splitlines() if "InitializationError" in line and f"pid {pid}" in line]
        assert len(refused) == 1 and re.search(rf"\brank {rank}\b", refused[0]), job.report()


def test_rank_that_leaves_early(tmp_path: Path) -> None:
    job = processes.launch(
        tmp_path,
        2,
        """
        hvd.init()
        hvd.barrier()
        if hvd.rank() == 1:
            hvd.shutdown()
            sys.exit(0)
        try:
            hvd.allreduce(ones(1), name="alone")
            print("no error")
        except hvd.HorovodInternalError as error:
            print("told", error)
        """,
    )
    assert job.wait() == 0, job.report()
    (text,) = job.lines("told")
    assert "rank 1" in text


def test_rounds_of_init_and_shutdown(tmp_path: Path) -> None:
    body = """
        import random
        def resources():
            status = open("/proc/self/status").read()
            rss = int(status.split("VmRSS:")[1].split()[0])
            return len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd")), rss
        tensor = ones(1000)
        # One rank comes late to init, to the operation or to shutdown, or the other does.
        skew = random.Random(int(os.environ["FARANDOLE_RANK"]))
        for turn in range(1, 1001):
            time.sleep(skew.choice((0, 0, 0.002)))
            hvd.init()
            time.sleep(skew.choice((0, 0, 0.002)))
            assert hvd.allreduce(tensor, op=hvd.Sum)[0] == 2
            time.sleep(skew.choice((0, 0, 0.002)))
            hvd.shutdown()
            if turn in (100, 1000):
                print("resources", hvd.is_initialized(), *resources(), os.getpid(), flush=True)
        """
    with processes.launching(tmp_path, 2, body) as job:
        assert job.wait(400) == 0, job.report()
    measured = [[int(text) for text in line.split()[1:]] for line in job.lines("resources")]
    assert len(measured) == 4
    for pid in {entry[3] for entry in measured}:
        (threads, descriptors, kib), after = (entry[:3] for entry in measured if entry[3] == pid)
        assert after[:2] == [threads, descriptors]
        assert after[2] - kib <= 1024, f"resident size grew by {after[2] - kib} KiB"
