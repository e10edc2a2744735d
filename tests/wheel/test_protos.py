"""The .proto files and the example in the wheel: a client of one's own, as docs/status.md tells it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import processes
from installed import Installed

from farandole.launch.status import job_files

DOCS = processes.ROOT / "docs" / "status.md"
STEPS = """
    hvd.init()
    hvd.allreduce(torch.ones(1), name="first")
    os.write(1, b"begun\\n")
    while not os.path.exists("end"):
        time.sleep(0.02)
    """


def commands() -> str:
    """The lines of the page, with the file of the job as $file."""
    (block,) = re.findall(r"```sh\n(.*?query_controller.*?)```", DOCS.read_text(), re.DOTALL)
    return block.replace("pip install grpcio-tools\n", "").replace("/run/user/1000/farandole/JOB", "$file")


def test_a_job_is_asked_as_the_page_says(installed: Installed, tmp_path: Path) -> None:
    with processes.launching(tmp_path, 2, STEPS) as job:
        job.wait_for(lambda: len(job.lines("begun")) == 2, "both ranks")
        (file,) = [file for file in job_files.read_all() if file.pid == job.process.pid]
        variables = {**os.environ, "PYTHONPATH": str(installed.site), "TMPDIR": str(tmp_path)}
        variables["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        variables["file"] = os.path.join(job_files.folder(), file.job)
        command = ["bash", "-ec", commands()]
        done = subprocess.run(command, env=variables, cwd=tmp_path, capture_output=True, text=True, timeout=120)
        (tmp_path / "end").touch()
        assert job.wait() == 0, job.report()
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    # Names, 64-bit numbers and enums as protobuf's JSON has them.
    assert answer["job"] == file.job and answer["size"] == 2 and len(answer["members"]) == 2
    assert answer["state"] == "JOB_STATE_RUNNING" and answer["generation"]["number"] == "1"


def test_every_proto_file_is_there(installed: Installed) -> None:
    tree = processes.ROOT / "proto"
    shipped = installed.site / "farandole" / "protos"
    wanted = {p.relative_to(tree): p.read_text() for p in tree.rglob("*.proto")}
    assert {p.relative_to(shipped): p.read_text() for p in shipped.rglob("*.proto")} == wanted
