"""What is said of the libraries for GPUs."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import processes
import pytest
import torch

from farandole.library import gpus
from farandole.torch import memory


def test_check_build_says_what_is_missing(tmp_path: Path) -> None:
    body = """
    from farandole.launch.cli import check_build
    print(check_build.text())
    """
    job = processes.python(tmp_path, body, FARANDOLE_CUDA_LIB="/nowhere/cuda.so", FARANDOLE_NCCL_LIB="/nowhere/nccl.so")
    assert job.process.returncode == 0, job.report()
    reason = "cannot open shared object file: No such file or directory"
    assert f"[ ] CUDA: no CUDA driver could be loaded: /nowhere/cuda.so: {reason}\n" in job.stdout
    assert f"[ ] NCCL: no NCCL could be loaded: /nowhere/nccl.so: {reason}\n" in job.stdout


def test_check_build_without_the_library_says_so(tmp_path: Path) -> None:
    body = """
    from farandole.launch.cli import check_build
    print(check_build.text())
    """
    job = processes.python(tmp_path, body, FARANDOLE_LIBRARY_DIR=str(tmp_path))
    assert job.process.returncode == 0, job.report()
    assert "[ ] CUDA: farandole cannot load its library: " in job.stdout
    assert "[ ] NCCL: farandole cannot load its library: " in job.stdout


def test_what_is_there_is_said(tmp_path: Path) -> None:
    """The driver and NCCL are fakes: without torch, whose NCCL is in the process if it is built for GPUs."""
    cuda, nccl = (processes.ROOT / "bazel-bin" / "worker" / "cuda" / f"fake_{name}.so" for name in ("cuda", "nccl"))
    body = """
    from farandole.launch.cli import check_build
    from farandole.process import basics
    print("built", basics.cuda_built(), basics.nccl_built())
    print(check_build.text())
    """
    job = processes.python(tmp_path, body, FARANDOLE_CUDA_LIB=str(cuda), FARANDOLE_NCCL_LIB=str(nccl))
    assert job.process.returncode == 0, job.report()
    (said,) = job.lines("built ")
    has_kernels, version = said.split()
    assert has_kernels == "True" and 21801 <= int(version), said
    text = f"{int(version) // 10000}.{int(version) // 100 % 100}.{int(version) % 100}"
    assert f"[X] CUDA: CUDA 13.0 ({cuda}) is here, with Fake GPU 0" in job.stdout, job.report()
    assert f"[X] NCCL: NCCL {text} ({nccl}) is here" in job.stdout, job.report()


def test_a_tensor_on_a_device_is_of_the_current_stream_there(monkeypatch: pytest.MonkeyPatch) -> None:
    current = {0: 0, 1: 0x1230}
    monkeypatch.setattr(memory, "raw_stream", current.__getitem__)
    place = memory.OnCuda(1)
    assert (place.device, place.stream) == (1, 0x1230)
    # Results are awaited on the one that is current then.
    current[1] = 0x4560
    assert place.current_stream() == 0x4560 and place.stream == 0x1230


def test_a_driver_that_cannot_be_used_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.version, "cuda", "11.8")
    monkeypatch.setattr(gpus, "cuda_driver", lambda: gpus.Found(False, 0, "no CUDA driver, for a reason"))
    memory.takes_cuda.cache_clear()
    try:
        with pytest.warns(
            UserWarning, match="to host memory and back, for farandole: no CUDA driver, for a reason"
        ) as said:
            assert not memory.takes_cuda() and not memory.takes_cuda()
        assert len(said) == 1
    finally:
        memory.takes_cuda.cache_clear()


def test_what_torch_caches_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: asked.append("given up"))
    memory._give_up_cache(0)

    def refuse() -> None:
        asked.append("refused")
        raise RuntimeError("a graph is being captured")

    monkeypatch.setattr(torch.cuda, "empty_cache", refuse)
    memory._give_up_cache(0)
    assert asked == ["given up", "refused"]


def test_nobody_is_asked_for_memory_when_the_process_ends(tmp_path: Path) -> None:
    body = """
    import atexit, gc
    from farandole.library import abi, gpus
    seen = []
    library = abi.load()
    set_reclaim = library.gpu_set_reclaim
    library.gpu_set_reclaim = lambda reclaim, ms: (seen.append(bool(reclaim)), set_reclaim(reclaim, ms))[1]
    atexit.register(lambda: print("told", seen, flush=True))
    gpus.set_reclaim(lambda device: None)
    gpus.set_reclaim(print)
    raise SystemExit(3)
    """
    job = processes.python(tmp_path, body)
    assert job.process.returncode == 3 and job.lines("told ") == ["[True, True, False]"], job.report()


def test_the_end_of_a_process_waits_a_while_for_what_gives_up_memory(tmp_path: Path) -> None:
    body = """
    import atexit
    from farandole.library import abi, gpus
    asked = []
    abi.load().gpu_set_reclaim = lambda reclaim, ms: (asked.append(ms), abi.PENDING)[1]
    atexit.register(lambda: print("asked for", sum(asked), "ms", flush=True))
    gpus.set_reclaim(print)
    """
    job = processes.python(tmp_path, body)
    assert job.process.returncode == 0 and job.lines("asked for ") == ["5000 ms"], job.report()


def test_the_wheel_of_nccl_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "nvidia"]:
        monkeypatch.delitem(sys.modules, name)
    package = tmp_path / "nvidia" / "nccl"
    (package / "lib").mkdir(parents=True)
    # Packages with a file of their own come before others of the name, whatever is installed here.
    for folder in (package.parent, package):
        (folder / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    assert gpus.nccl_of_wheel() is None
    (package / "lib" / "libnccl.so.2").touch()
    assert gpus.nccl_of_wheel() == os.path.join(package, "lib", "libnccl.so.2")
    # What was imported here would be found by later tests.
    for name in ("nvidia.nccl", "nvidia"):
        sys.modules.pop(name, None)
