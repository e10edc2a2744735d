"""Programs that stand in for ssh and srun: they run on this host what they are to run on another one, or do something
else."""

from __future__ import annotations

import json
import stat
from pathlib import Path

from farandole.launch.remote.messages import MARK
from farandole.version import __version__

# Runs the command that ssh is given, as a host that finds us at 127.0.0.1.
RUN = 'export SSH_CONNECTION="127.0.0.1 1 127.0.0.1 22"; for last; do :; done; exec sh -c "$last"'

# Starts all tasks of a step on this host, with Slurm's variables; its first two words are options.
SRUN = """\
for task in $(seq 0 $((SLURM_NTASKS - 1))); do
  SLURM_PROCID=$task SLURM_LOCALID=$task SLURM_NODEID=0 SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=$SLURM_NTASKS \\
    SLURM_STEP_TASKS_PER_NODE=$SLURM_NTASKS "${@:3}" &
done
wait
"""


def program(folder: Path, body: str) -> str:
    """An executable script."""
    path = folder / "ssh"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


# To the check before a job, of hosts that pass it.
ANSWER = {"version": __version__, "error": "", "host": "there", "seen": "127.0.0.1", "address": ""}


def ssh(folder: Path, body: str, answer: object = ANSWER) -> str:
    """Hosts that answer so to the check; then `body`."""
    (folder / "answer").write_text(f"{MARK}{json.dumps(answer)}\n")
    return program(folder, f'case "$*" in *--check*) exec cat {folder}/answer;; esac; {body}')
