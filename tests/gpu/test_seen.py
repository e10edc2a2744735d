"""What people see of a job on GPUs: the timeline and the status."""

from __future__ import annotations

import collections
import json
import sys
from pathlib import Path

import processes
import pytest
from gpu import parts

# Tensors that lie apart, so that they are packed; until the test has seen the status.
BODY = """
        memory = [torch.ones(4001, device=device) for _ in range(40)]
        apart = memory[::2]
        while True:
            go = torch.tensor([float(os.path.exists("go"))], device=device)
            for tensor in hvd.grouped_allreduce([*apart, go], name="apart", prescale_factor=1 / 3, op=hvd.Sum):
                last = tensor.item() if tensor.numel() == 1 else 0.0
            if last:
                break
        print("ended", hvd.rank(), flush=True)
        """
STATUS = [sys.executable, "-m", "farandole", "status", "--json"]
PARTS = ("waitedUs", "packedUs", "ncclUs", "unpackedUs")


def members(folder: Path) -> list[dict]:
    """Of the job; none before its controller answers."""
    with processes.running(STATUS, folder) as asked:
        code = asked.wait()
    return json.loads(asked.stdout).get("members", []) if code == 0 and asked.stdout.strip() else []


def spans(path: Path) -> collections.Counter[str]:
    """How many spans there are of each name."""
    return collections.Counter(event["name"] for event in json.loads(path.read_text()) if event["ph"] == "B")


def test_phases_of_the_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "runtime").mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "runtime"))
    path, asked = tmp_path / "timeline.json", tmp_path / "asked"
    asked.mkdir()

    def measured() -> list[dict]:
        found = members(asked)
        told = [each["deviceTime"] for each in found if "deviceTime" in each]
        return (told if parts.ON_GPU else found) if len(told if parts.ON_GPU else found) == 2 else []

    with parts.launching(tmp_path, 2, BODY, HOROVOD_TIMELINE=str(path)) as job:
        seen = job.wait_for(measured, "two ranks in the status with what was measured", parts.TIMEOUT_S)
        (tmp_path / "go").touch()
        assert job.wait() == 0 and sorted(job.lines("ended ")) == ["0", "1"], job.report()
    found = spans(path)
    assert found["ALLREDUCE"] > 0 and found["QUEUE"] > 0, found
    if not parts.ON_GPU:
        assert not any("deviceTime" in each for each in seen) and not found["NCCL_ALLREDUCE"], (seen, found)
        return
    for name in ("MEMCPY_IN_FUSION_BUFFER", "NCCL_ALLREDUCE", "MEMCPY_OUT_FUSION_BUFFER"):
        assert found[name] > 0, found
    for time in seen:
        assert int(time["batches"]) > 0 and int(time["ncclUs"]) > 0, seen
        assert all(int(time[part]) >= 0 for part in PARTS) and int(time["packedUs"]) > 0, seen
