from __future__ import annotations

import sys
from pathlib import Path

import processes
import pytest
import torch


def test_groups_sparse_gradients_and_names(tmp_path: Path) -> None:
    processes.run_cases(tmp_path, 2, "optimizer_worker.py")


def test_loops_of_one_process_train_alike_on_several(tmp_path: Path) -> None:
    processes.run_cases(tmp_path, 2, "plain_worker.py")


def test_scripts_that_do_what_few_do(tmp_path: Path) -> None:
    processes.run_cases(tmp_path, 2, "odd_scripts_worker.py")


def test_what_scripts_do_around_a_step(tmp_path: Path) -> None:
    processes.run_cases(tmp_path, 2, "steps_worker.py")


@pytest.mark.parametrize("differs", ["a second loss", "a step left out"])
def test_a_rank_that_makes_other_steps_than_the_others_is_told(tmp_path: Path, differs: str) -> None:
    """Equally often in the end, so that nobody waits: its gradients would have met those of another step."""
    body = f"""
        hvd.init()
        torch.manual_seed(0)
        model = torch.nn.Linear(4, 2)
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
        for step in range(6):
            optimizer.zero_grad()
            model(torch.randn(3, 4)).square().mean().backward()
            if step == (1, 3)[hvd.rank()]:
                if {differs == "a step left out"}:
                    continue
                model(torch.randn(3, 4)).abs().mean().backward()
            optimizer.step()
        print("trained", flush=True)
        """
    job = processes.launch(tmp_path, 2, body, FARANDOLE_DIVERGENCE_SECONDS="2")
    assert job.wait() != 0 and not job.lines("trained"), job.report()
    assert "have diverged" in job.stderr and "allreduce.weight@2`" in job.stderr, job.report()


@pytest.mark.parametrize("size", [2, 3, 4])
def test_adasum(tmp_path: Path, size: int) -> None:
    processes.run_cases(tmp_path, size, "adasum_worker.py")


@pytest.mark.parametrize("size", [2, 3])
def test_sync_batch_norm(tmp_path: Path, size: int) -> None:
    processes.run_cases(tmp_path, size, "sync_batch_norm_worker.py")


@pytest.mark.parametrize("elastic", [{}, {"HOROVOD_ELASTIC": "1"}], ids=["plain", "elastic"])
def test_optimizers_outlive_the_job(tmp_path: Path, elastic: dict[str, str]) -> None:
    worker = Path(__file__).parent / "lives_worker.py"
    with processes.running(processes.launch_command(3, sys.executable, str(worker)), tmp_path, elastic) as job:
        assert job.wait() == 0, job.report()
    assert sorted(job.lines("life ")) == sorted(3 * [str(life) for life in range(4)]), job.report()


@pytest.mark.skipif(not hasattr(torch.library, "custom_op"), reason="torch before 2.4 has no torch.library.custom_op")
def test_compiled_functions(tmp_path: Path) -> None:
    processes.run_cases(tmp_path, 2, "compiled_worker.py")


@pytest.mark.parametrize("chosen", [False, True])
def test_gradients_leave_their_memory_to_the_next_ones(tmp_path: Path, chosen: bool) -> None:
    """Unless the user has told the C library himself what to do with free memory."""
    body = """
        import resource
        hvd.init()
        layers = [torch.nn.Linear(1200, 1200, bias=False) for _ in range(10)]
        model = torch.nn.Sequential(*layers)
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
        optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
        data = torch.ones(4, 1200)
        def step():
            optimizer.zero_grad()
            model(data).sum().backward()
            optimizer.step()
        for _ in range(6):
            step()
        each = []
        for _ in range(9):
            before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
            step()
            each.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
        # The least: the heap still grows by a gradient in a step in which more of them than ever wait to be taken,
        # which on a busy machine may be most steps. Where memory is given back there is no step without faults.
        print("faults", min(each), flush=True)
        """
    variables = {"MALLOC_TRIM_THRESHOLD_": "131072"} if chosen else {}
    job = processes.launch(tmp_path, 2, body, **variables)
    assert job.wait() == 0, job.report()
    pages = 10 * 1200 * 1200 * 4 // 4096
    faults = [int(count) for count in job.lines("faults")]
    assert len(faults) == 2 and all(count > pages / 2 if chosen else count < pages / 20 for count in faults), faults
