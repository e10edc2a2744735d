"""Training that repeats itself, and that stops doing so, on the real controller."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import processes
import pytest

from farandole.launch.status import job_files, query

PARTS = 8


@pytest.mark.parametrize("size", [2, 3])
def test_scripts_that_repeat_and_then_do_not(tmp_path: Path, size: int) -> None:
    job = processes.launch_file(tmp_path, size, "replay_worker.py")
    assert job.wait() == 0, job.report()
    assert sum(" done on rank" in line for line in job.stdout.splitlines()) == PARTS * size, job.report()


REPLAYED = ["several_optimizers", "accumulation", "evaluation_between_epochs", "process_sets", "groups"]
REPLAYED += ["reducescatter", "join_at_the_end"]
NEGOTIATED = ["varying_allgather"]


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where only this test's jobs are shown."""
    folder = tmp_path / "runtime"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    yield folder


def test_training_of_many_kinds_is_replayed(tmp_path: Path, runtime: Path) -> None:
    script = str(processes.ROOT / "tests" / "multiprocess" / "replay_training_worker.py")
    phase = 0
    with processes.running(processes.launch_command(3, sys.executable, script), tmp_path) as job:
        for part in REPLAYED + NEGOTIATED:
            job.wait_for(lambda part=part: job.process.poll() is not None or len(job.lines(f"{part} done")) == 3, part)
            assert job.process.poll() is None, job.report()
            (file,) = job_files.read_all()
            status = query.Target(file.job, file.controller, token=file.token).get()
            # Each replay is two phases more: its own, and that of the negotiation after it.
            if part in REPLAYED:
                assert status["phase"] >= phase + 2, (part, status["phase"], phase)
            else:
                assert status["phase"] == phase, part
            phase = status["phase"]
            (tmp_path / part).touch()
        assert job.wait() == 0, job.report()


WARM_UP, STEPS, TENSORS = 40, 300, 40


def test_no_message_while_training_repeats(tmp_path: Path, runtime: Path) -> None:
    body = f"""
        hvd.init()
        gradients = [torch.ones(50) for _ in range({TENSORS})]
        def train(steps):
            for _ in range(steps):
                handles = [hvd.allreduce_async_(g, name=f"layer.{{i}}") for i, g in enumerate(gradients)]
                for handle in handles:
                    hvd.synchronize(handle)
        def until(name):
            for _ in range(6000):
                if os.path.exists(name):
                    return
                time.sleep(0.01)
            sys.exit(f"nobody made {{name}}")
        train({WARM_UP})
        print("warm", flush=True)
        until("go")
        train({STEPS})
        until("end")
        """
    with processes.launching(tmp_path, 2, body) as job:
        _check_quiet(job, tmp_path)


def test_no_message_while_training_on_devices_repeats(tmp_path: Path, runtime: Path) -> None:
    worker = str(processes.ROOT / "tests" / "multiprocess" / "quiet_devices_worker.py")
    command = [sys.executable, worker, str(WARM_UP), str(STEPS), str(TENSORS)]
    with processes.running(processes.launch_command(2, *command), tmp_path) as job:
        after = _check_quiet(job, tmp_path)
    for member in after["members"]:
        time = member["deviceTime"]
        assert int(time["batches"]) > 0 and int(time["ncclUs"]) > 0, after["members"]


def _check_quiet(job: processes.Job, folder: Path) -> dict[str, Any]:
    """Of a job whose ranks wait after WARM_UP steps. Its last status."""
    job.wait_for(lambda: job.stdout.count("warm") == 2, "the first steps")
    (file,) = job_files.read_all()
    watch = query.Target(file.job, file.controller, token=file.token).watch(10)
    # Two seconds later all that was said before is counted.
    before = next(s for s in watch if s["activity"] == "ACTIVITY_REPLAYING" and _tensors(s) == 2 * WARM_UP * TENSORS)
    (folder / "go").touch()
    after = next(s for s in watch if _tensors(s) == 2 * (WARM_UP + STEPS) * TENSORS)
    (folder / "end").touch()
    assert job.wait() == 0, job.report()
    assert after["activity"] == "ACTIVITY_REPLAYING" and after["phase"] == before["phase"]
    # Each rank acknowledges the Replay item at some time.
    assert int(after["traffic"]["messages"]) - int(before["traffic"]["messages"]) <= 2
    return after


def test_waiting_for_the_own_script_costs_no_processor_time(tmp_path: Path) -> None:
    body = """
        hvd.init()
        gradients = [torch.ones(50) for _ in range(40)]
        def step(pause_s):
            handles = []
            for i, gradient in enumerate(gradients):
                if i == 20:
                    time.sleep(pause_s)  # in the midst of a batch
                handles.append(hvd.allreduce_async_(gradient, name=f"layer.{i}"))
            for handle in handles:
                hvd.synchronize(handle)
        for _ in range(40):
            step(0)
        begin = time.process_time()
        for _ in range(40):
            step(0.03)
        print("used", time.process_time() - begin, flush=True)
        """
    job = processes.launch(tmp_path, 2, body)
    assert job.wait() == 0, job.report()
    assert all(float(seconds) < 0.5 for seconds in job.lines("used")), job.report()
    assert len(job.lines("used")) == 2


def _tensors(status: dict) -> int:
    return int(status["traffic"]["tensors"])
