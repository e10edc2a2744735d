from __future__ import annotations

from pathlib import Path

import processes
import pytest
import torch

from farandole.torch.gradients import repetition


@pytest.mark.parametrize("shared", ["1", "0"])
def test_what_hooks_in_c_take_over(tmp_path: Path, shared: str) -> None:
    processes.run_cases(tmp_path, 2, "repetition_worker.py", FARANDOLE_SHARED_TENSORS=shared)


def test_so_it_is_with_places_as_on_a_device(tmp_path: Path) -> None:
    job = processes.launch_file(tmp_path, 2, "device_places_worker.py", "repetition_worker.py")
    assert job.wait() == 0, job.report()
    assert len(job.lines("passed case_") + job.lines("left out case_")) == 2 * 7, job.report()


def test_a_hook_that_remembers_nothing_calls_python() -> None:
    made = repetition.hook_type()
    called: list[torch.Tensor] = []
    hook = made(called.append, None, None)
    parameter = torch.ones(3)
    assert hook(parameter) is None and called == [parameter]
    hook.forget()
    with pytest.raises(IndexError):
        hook()
    with pytest.raises(TypeError):
        hook.remember(1)
    with pytest.raises(TypeError):
        made(called.append)

    def fail(parameter: torch.Tensor) -> None:
        raise ValueError("as the script's")

    with pytest.raises(ValueError, match="as the script's"):
        made(fail, None, None)(parameter)
