"""``farandole.run``: what the function returns, raises, or never says."""

from __future__ import annotations

import os
import signal
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import processes


@contextmanager
def script(folder: Path, body: str, **variables: str) -> Iterator[processes.Job]:
    """A script that defines functions and runs them; TMPDIR is a folder in which nothing may be left."""
    path, temporary = folder / "caller.py", folder / "tmp"
    temporary.mkdir()
    path.write_text("import os, sys, time\nimport farandole\n" + textwrap.dedent(body))
    with processes.running([sys.executable, str(path)], folder, {"TMPDIR": str(temporary), **variables}) as job:
        yield job
    assert not list(temporary.iterdir())


def finished(folder: Path, body: str, **variables: str) -> processes.Job:
    with script(folder, body, **variables) as job:
        assert job.wait() == 0, job.report()
    return job


def test_results_come_in_the_order_of_ranks(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "of_a_module.py").write_text("def double(x):\n    return 2 * x\n")
    job = finished(
        tmp_path,
        f"""
        sys.path.append({str(tmp_path / "elsewhere")!r})
        import of_a_module

        class Result:
            def __init__(self, rank):
                self.rank = rank

        def train(x, *, y):
            import torch, farandole.torch as hvd
            hvd.init()
            total = hvd.allreduce(torch.tensor([float(x + hvd.rank())]), op=hvd.Sum)
            # The first rank ends last.
            hvd.barrier()
            return Result(hvd.rank()), total.item(), y, sys.argv[1:]

        results = farandole.run(train, (1,), {{"y": {{"deep": [1]}}}}, num_proc=2)
        assert [(r.rank, *rest) for r, *rest in results] == [(n, 3.0, {{"deep": [1]}}, []) for n in (0, 1)]
        assert farandole.run(of_a_module.double, args=[21]) == [42]
        assert farandole.run(lambda: None, num_proc=1) == [None]
        """,
    )
    assert job.stdout == ""


def test_exception_comes_back(tmp_path: Path) -> None:
    finished(
        tmp_path,
        """
        def deep(rank):
            if rank == 1:
                raise KeyError("no such thing")

        def train():
            import torch, farandole.torch as hvd
            hvd.init()
            deep(hvd.rank())
            hvd.allreduce(torch.ones(1))

        try:
            farandole.run(train, num_proc=3)
        except farandole.exceptions.RunError as error:
            text = str(error)
        # What scripts written for Horovod look for.
        assert text.startswith("Horovod detected that one or more processes exited"), text
        assert "rank 1 raised KeyError: 'no such thing'" in text, text
        assert "without a result: 0, 1, 2" in text and "exit code of the job: 1" in text, text
        error = None
        assert "On rank 1:\\nTraceback" in text and "in deep\\n" in text and "function/worker.py" not in text, text
        """.replace("        error = None\n", ""),
    )


def test_who_has_no_result_is_named(tmp_path: Path) -> None:
    """A process that ends without a word: by exit, by a signal, or with a result that cannot travel."""
    finished(
        tmp_path,
        """
        def ends(how):
            if os.environ["FARANDOLE_RANK"] == "0":
                if how == "dies at work":
                    import farandole.torch as hvd
                    hvd.init()
                    hvd.barrier()
                return 5
            if how == "leaves":
                os._exit(0)
            if how == "exits":
                sys.exit(0)
            if how == "dies":
                os.kill(os.getpid(), 9)
            if how == "dies at work":
                import farandole.torch as hvd
                hvd.init()
                os.kill(os.getpid(), 9)
            return (x for x in range(3))

        for how, code, sentence in (
            ("leaves", 0, "no exception came back, so look at the output"),
            ("exits", 0, "rank 1 raised SystemExit: 0"),
            ("dies", 137, "no exception came back, so look at the output"),
            ("dies at work", 137, "exited without a result: rank 1 (pid "),
            ("returns", 1, "rank 1 raised TypeError: cannot pickle 'generator' object"),
        ):
            try:
                farandole.run(ends, (how,), num_proc=2)
            except RuntimeError as error:
                assert (error.exit_code, 1 in error.missing) == (code, True), (how, error)
                assert sentence in str(error), (how, error)
            else:
                raise AssertionError(how)
        """,
    )


def test_runs_leave_nothing_in_the_caller(tmp_path: Path) -> None:
    finished(
        tmp_path,
        """
        import signal, threading

        def state():
            handlers = [signal.getsignal(n) for n in range(1, 65) if n not in (32, 33)]
            descriptors = {fd: os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")
                           if os.path.exists(f"/proc/self/fd/{fd}")}
            return handlers, descriptors, threading.active_count(), dict(os.environ), sys.path[:]

        assert farandole.run(abs, (-1,), num_proc=2) == [1, 1]
        before = state()
        for i in range(20):
            assert farandole.run(abs, (-i,), num_proc=2) == [i, i]
        # Not in the main thread, where signal handlers cannot be set.
        results = []
        threads = [threading.Thread(target=lambda: results.append(farandole.run(abs, (-7,)))) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert results == [[7], [7]], results
        assert state() == before
        """,
    )


WAITING = """
    def waits():
        import torch, farandole.torch as hvd
        hvd.init()
        print("waiting", flush=True)
        hvd.barrier() if hvd.rank() == 0 else time.sleep(600)

    try:
        farandole.run(waits, num_proc=2)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    assert farandole.run(abs, (-1,), num_proc=2) == [1, 1]
    print("again", flush=True)
    """


def test_interrupt(tmp_path: Path) -> None:
    with script(tmp_path, WAITING) as job:
        job.wait_for(lambda: len(job.lines("waiting")) == 2, "the function")
        job.process.send_signal(signal.SIGINT)
        job.wait_for(lambda: job.lines("interrupted"), "KeyboardInterrupt")
        assert job.wait() == 0, job.report()
    assert len(job.lines("again")) == 1


def test_end_of_the_caller_ends_the_job(tmp_path: Path) -> None:
    with script(tmp_path, WAITING) as job:
        job.wait_for(lambda: len(job.lines("waiting")) == 2, "the function")
        job.process.kill()
        job.wait()
        # A killed caller cannot remove its folder.
        (left,) = (tmp_path / "tmp").iterdir()
        assert left.stat().st_mode & 0o777 == 0o700 and left.stat().st_uid == os.getuid()
        for file in left.iterdir():
            file.unlink()
        left.rmdir()


def test_folder_of_somebody_else_is_not_trusted(tmp_path: Path) -> None:
    """Nothing is unpickled that others could have written."""
    open_folder = tmp_path / "open"
    open_folder.mkdir(mode=0o777)
    open_folder.chmod(0o777)
    (open_folder / "call").write_bytes(b"cos\nabort\n(tR.")
    worker = [sys.executable, "-m", "farandole.launch.function.worker", str(open_folder)]
    with processes.running(worker, tmp_path, {"FARANDOLE_RANK": "0"}) as job:
        assert job.wait() == 1, job.report()
    assert "is not a folder that only this user may look into" in job.stderr


def test_elastic_run_survives_a_loss(tmp_path: Path) -> None:
    """Results are those of the first `min_num_proc` ranks, whoever has been lost on the way."""
    job = finished(
        tmp_path,
        """
        def train():
            import torch, farandole.torch as hvd
            from farandole.torch import elastic
            hvd.init()

            @elastic.run
            def steps(state):
                while state.step < 5:
                    hvd.allreduce(torch.ones(1), name="step")
                    state.step += 1
                    state.commit()
                    if state.step == 2 and hvd.size() == 2 and hvd.rank() == 1:
                        os.kill(os.getpid(), 9)
                return state.step, hvd.rank()

            return steps(elastic.TorchState(step=0))

        results = farandole.run(train, num_proc=2, min_num_proc=1, max_num_proc=2)
        assert results == [(5, 0)], results
        """,
    )
    assert job.stdout == "", job.report()
