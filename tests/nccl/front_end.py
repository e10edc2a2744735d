"""What the package says of a real NCCL in .deps/nvidia; run by `make test-nccl` alone."""

from __future__ import annotations

import re
from pathlib import Path

import processes

WHEELS = processes.ROOT / ".deps"


def test_the_wheel_is_found_and_told(tmp_path: Path) -> None:
    body = """
    sys.path.append(sys.argv[1])
    from farandole.launch.cli import check_build
    from farandole.library import gpus
    from farandole.process import basics
    found = gpus.nccl()
    assert found.number >= 21801 and found.used, found
    assert basics.nccl_built() == 0, "there is no driver"
    assert len({line.split()[-1] for line in open("/proc/self/maps") if "libnccl" in line}) == 1
    print(check_build.text())
    """
    job = processes.python(tmp_path, body, str(WHEELS))
    assert job.process.returncode == 0, job.report()
    path = re.escape(str(WHEELS / "nvidia" / "nccl" / "lib" / "libnccl.so.2"))
    assert re.search(rf"\[X\] NCCL: NCCL 2\.32\.3 \({path}\) is here\n", job.stdout)
