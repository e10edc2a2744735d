"""A controller that many jobs share, and a job of one pod that trains by it; as processes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import processes
from pod_parts import KEY, secret
from processes import Job

from farandole.base import locate
from farandole.launch.processes import tokens

STEPS = r"""
import os, sys, time
import light as hvd
hvd.init()
# Never a replay: each step needs the controller.
for step in range(10**9):
    hvd.allreduce(hvd.full((4,), 1.0), name=f"x{step}")
    if step % 50 == 0:
        os.write(1, f"at {step}\n".encode())
    enough = hvd.allreduce(hvd.full((1,), float(os.path.exists(sys.argv[1]))), op=hvd.Max, name=f"y{step}")
    if enough[0]:
        break
    time.sleep(0.002)
hvd.shutdown()
"""


class Controller:
    """With TLS if there is a folder `tls` with its files."""

    def __init__(self, folder: Path, *options: str, program: str | None = None) -> None:
        self.log = folder / "controller.log"
        reader, writer = os.pipe()
        tls = folder / "tls"
        command = [program or locate.find("farandole-controller"), "--key-file", str(secret(folder / "key", KEY))]
        command += ["--ready-fd", str(writer)]
        if tls.exists():
            command += ["--tls-cert", str(tls / "tls.crt"), "--tls-key", str(tls / "tls.key")]
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [*command, *options],
                pass_fds=[writer],
                stdin=subprocess.DEVNULL,
                stderr=log,
                env=processes.environment(),
            )
        os.close(writer)
        with os.fdopen(reader) as file:
            self.address = file.readline().strip()
        assert self.address, self.log.read_text()

    def has_said(self, words: str) -> bool:
        return words in self.log.read_text()


@contextmanager
def controller(folder: Path, *options: str, program: str | None = None) -> Iterator[Controller]:
    made = Controller(folder, *options, program=program)
    try:
        yield made
    finally:
        made.process.kill()
        made.process.wait()


@contextmanager
def training(
    folder: Path, address: str, *options: str, job: str = "digits", token_for: str = "", start_timeout_s: int = 8
) -> Iterator[Job]:
    """A pod of that job, with a token for it or for `token_for`; it trains until `enough` is there."""
    script = processes.script_file(folder, STEPS)
    token = secret(folder / f"token-{job}", tokens.member_token(KEY, token_for or job))
    command = [locate.find("farandole-agent"), "--job", job, "--controller", address, "--size", "1"]
    command += ["--token-file", str(token), *options, "--", sys.executable, str(script), str(folder / "enough")]
    place = folder / f"place{len(list(folder.glob('place*')))}"
    place.mkdir()
    variables = {"FARANDOLE_START_TIMEOUT": str(start_timeout_s), "FARANDOLE_CONTROLLER_TIMEOUT_SECONDS": "60"}
    # With --pod in the options.
    variables["FARANDOLE_POD_INDEX"] = "0"
    with processes.running(command, place, variables) as running:
        yield running


def await_steps(job: Job) -> None:
    seen = len(job.lines("at "))
    job.wait_for(lambda: len(job.lines("at ")) > seen + 1, "steps")
