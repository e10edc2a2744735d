"""deploy/apptainer built and run by a real Apptainer, as a user without rights: `make test-apptainer`."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import debian_roots
import images
import pages
import processes
import pytest
import stand_ins

PAGE = pages.DOCS / "slurm.md"
USER = "1000"
# What needs no framework; /host is this tree.
TRAIN = """
import sys
sys.path.insert(0, "/host/tests")
import os
import light as hvd
hvd.init()
total = hvd.allreduce(hvd.full((1,), hvd.rank() + 1.0), op=hvd.Sum, name="x")[0]
writable = os.access("/opt", os.W_OK)
os.write(1, f"rank {hvd.rank()} of {hvd.size()}, local {hvd.local_size()}: {total} {writable}\\n".encode())
hvd.shutdown()
"""
AS_USER = r"""
mount --rbind "$ROOT" host
mkdir -p home/user
cp -r "$HOME_OF_USER"/. home/user
printf '%s\n' root:x:0:0::/root:/bin/sh "user:x:$USER_ID:$USER_ID::/home/user:/bin/bash" >etc/passwd
printf '%s\n' root:x:0: "user:x:$USER_ID:" >etc/group
chown -R "$USER_ID:$USER_ID" home/user
ip link set lo up
export HOME=/home/user PATH=/home/user/bin:/usr/bin:/usr/sbin USER=user TMPDIR=/tmp
unset XDG_RUNTIME_DIR XDG_CACHE_HOME
enter /usr/sbin/chroot --userspec="$USER_ID:$USER_ID" / /bin/bash -euc "$SCRIPT"
"""
BUILD = """
cd /host
apptainer build --build-arg IMAGE=build/images/worker.tar ~/worker.sif deploy/apptainer/worker.def
cd
apptainer run worker.sif sh -c 'id -u; exit 3' || echo "code $?"
bash train.sbatch
"""


def batch_file() -> str:
    """That of the page, as the page says that it is to be changed."""
    ((_, text),) = pages.blocks(PAGE, "bash")
    (last,) = [block for _, block in pages.blocks(PAGE, "sh") if block.startswith("srun ")]
    lines = [line for line in text.splitlines() if not line.startswith("source ")]
    assert len(lines) == len(text.splitlines()) - 1 and lines[-1].startswith("srun ")
    return "\n".join([*lines[:-1], last])


def test_a_user_builds_the_image_and_trains_in_it(tmp_path: Path) -> None:
    if reason := debian_roots.why_not("apptainer"):
        pytest.skip(reason)
    command = ["setpriv", f"--reuid={USER}", "--clear-groups", "unshare", "-r", "true"]
    tried = subprocess.run(command, capture_output=True)
    if tried.returncode:
        pytest.skip(f"users may make no namespaces here: {tried.stderr.decode().strip()}")
    images.ours("worker")
    home = tmp_path / "home"
    (home / "bin").mkdir(parents=True)
    (home / "train.py").write_text(TRAIN)
    (home / "train.sbatch").write_text(batch_file())
    for name, script in (("srun", stand_ins.SRUN), ("scontrol", 'echo "${@: -1}"\n')):
        (home / "bin" / name).write_text("#!/bin/bash\n" + script)
        (home / "bin" / name).chmod(0o755)
    variables = {"ROOT": str(processes.ROOT), "HOME_OF_USER": str(home), "USER_ID": USER, "SCRIPT": BUILD}
    variables |= {"SLURM_JOB_ID": "7", "SLURM_NTASKS": "2", "SLURM_CPUS_PER_TASK": "1"}
    variables |= {"SLURM_JOB_NODELIST": "localhost", "APPTAINER_BIND": "/host"}
    (tmp_path / "root").mkdir()
    words = debian_roots.command("apptainer", tmp_path / "root", AS_USER, "-n")
    with processes.running(words, tmp_path, variables) as job:
        assert job.wait(300) == 0, job.report()
    assert re.search(r"^farandole \d+\.\d+\.\d+$", job.stdout, re.M), "the image's own test"
    assert f"{USER}\ncode 3\n" in job.stdout, job.report()
    assert sorted(job.lines("rank ")) == [f"{rank} of 2, local 2: 3.0 False" for rank in range(2)], job.report()
