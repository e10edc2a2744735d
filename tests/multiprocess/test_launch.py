from __future__ import annotations

import sys
from pathlib import Path

import processes


def test_environment_of_workers(tmp_path: Path) -> None:
    names = ["RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE", "CROSS_RANK", "CROSS_SIZE"]
    job = processes.launch(
        tmp_path,
        3,
        f"""
        hvd.init()
        for prefix in ("FARANDOLE_", "HOROVOD_"):
            print(prefix, *(os.environ[prefix + name] for name in {names}), flush=True)
        assert hvd.rank() == int(os.environ["HOROVOD_RANK"])
        assert hvd.size() == hvd.local_size() == 3 and hvd.local_rank() == hvd.rank()
        assert hvd.cross_rank() == 0 and hvd.cross_size() == 1
        assert hvd.is_homogeneous() if hasattr(hvd, "is_homogeneous") else True
        secrets = [name for name in os.environ if "KEY" in name or "TOKEN" in name]
        assert not secrets, secrets
        """,
    )
    assert job.wait() == 0, job.report()
    for prefix in ("FARANDOLE_", "HOROVOD_"):
        assert sorted(job.lines(prefix)) == [f"{rank} 3 {rank} 3 0 1" for rank in range(3)], job.report()


def test_no_secret_on_any_command_line(tmp_path: Path) -> None:
    body = """
        hvd.init()
        hvd.barrier()
        print("ready", flush=True)
        time.sleep(0.5)
        """
    with processes.launching(tmp_path, 2, body) as job:
        job.wait_for(lambda: len(job.lines("ready")) == 2, "init")
        children = Path(f"/proc/{job.process.pid}/task/{job.process.pid}/children").read_text().split()
        lines = [processes.command_line(int(pid)) for pid in children]
        assert len(lines) == 4  # controller, agent, workers
        assert not any(len(word) >= 32 and word.isalnum() for line in lines for word in line.split()), lines
        assert job.wait() == 0


def test_output_is_prefixed_and_complete(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import os; [print('line', i) for i in range(1000)]; print('end', end='')"]
    with processes.running(processes.launch_command(2, *command), tmp_path) as job:
        assert job.wait() == 0, job.report()
    lines = job.stdout.splitlines()
    assert len(lines) == 2002, len(lines)
    for rank in (0, 1):
        own = [
            line.split("line", 1)[1].strip() for line in lines if "line" in line and str(rank) in line.split("line")[0]
        ]
        assert own == [str(i) for i in range(1000)]
    assert sum("end" in line for line in lines) == 2


def test_threads_are_shared_out(tmp_path: Path) -> None:
    # One write per line: without prefixes both workers share a descriptor, and print() would write in pieces.
    body = "os.write(1, b'threads %s\\n' % os.environb[b'OMP_NUM_THREADS'])"
    script = processes.script_file(tmp_path, body)
    command = processes.launch_command(2, sys.executable, str(script), options=("--no-prefix-output",))
    with processes.running(command, tmp_path, {"OMP_NUM_THREADS": "3"}) as job:
        assert job.wait() == 0, job.report()
    assert job.lines("threads") == ["3", "3"] and "OMP_NUM_THREADS" not in job.stderr
    with processes.running(["env", "-u", "OMP_NUM_THREADS", *command], tmp_path) as job:
        assert job.wait() == 0, job.report()
    (sentence,) = [line for line in job.stderr.splitlines() if "OMP_NUM_THREADS" in line]
    assert all(f"OMP_NUM_THREADS={threads} " in sentence for threads in job.lines("threads"))


def test_programs_that_never_call_us(tmp_path: Path) -> None:
    with processes.running(processes.launch_command(2, "true"), tmp_path) as job:
        assert job.wait() == 0, job.report()
    with processes.running(processes.launch_command(2, "false"), tmp_path) as job:
        assert job.wait() == 1, job.report()


def test_run_inside_of_a_run(tmp_path: Path) -> None:
    inner = tmp_path / "inner.py"
    inner.write_text("import farandole.torch as hvd\nhvd.init()\nprint('inner', hvd.size(), flush=True)\n")
    job = processes.launch(
        tmp_path,
        1,
        f"""
        import subprocess
        hvd.init()
        command = [sys.executable, "-m", "farandole", "run", "-np", "2", sys.executable, {str(inner)!r}]
        sys.exit(subprocess.run(command).returncode)
        """,
    )
    assert job.wait() == 0, job.report()
    assert len(job.lines("inner 2")) == 2, job.report()


def test_example(tmp_path: Path) -> None:
    example = str(processes.ROOT / "examples" / "torch_digits.py")
    for size, command in ((1, [sys.executable, example]), (2, processes.launch_command(2, sys.executable, example))):
        with processes.running(command, tmp_path) as job:
            assert job.wait() == 0, job.report()
        (result,) = job.lines("test accuracy ")
        accuracy, processes_text, seconds = result.split(", ")
        assert float(accuracy) > 0.95, result
        assert processes_text == f"processes {size}" and seconds.startswith("seconds ")
