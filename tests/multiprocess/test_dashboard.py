"""`farandole dashboard` beside a job that runs: whether what it tells browsers is true."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import processes
import pytest
from job_parts import UNTIL_GO, part, pids, wait_for_another
from streams import Stream, url_of

from farandole.base import locate
from farandole.launch.processes import tokens

COMMAND = [sys.executable, "-m", "farandole", "dashboard"]


@pytest.fixture(autouse=True)
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only this test's jobs are found."""
    (tmp_path / "runtime").mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "runtime"))


def silent_ranks(told: dict) -> list[int]:
    return [m["member"]["rank"] for m in (told["status"] or {"members": []})["members"] if not m["responsive"]]


def test_a_stopped_rank_a_killed_controller_and_the_end_are_told(tmp_path: Path) -> None:
    with processes.launching(tmp_path, 2, UNTIL_GO) as job:
        pid = pids(job, 2)
        with processes.running(COMMAND, tmp_path) as dashboard:
            stream = Stream(url_of(dashboard))
            assert stream.until(lambda told: told["status"])["status"]["size"] == 2
            os.kill(pid[1], signal.SIGSTOP)
            stream.until_event("rank 1 on host")
            os.kill(pid[1], signal.SIGCONT)
            stream.until_event("rank 1 answers again")

            old = part(job, "controller")
            job.process.send_signal(signal.SIGSTOP)
            os.kill(old, signal.SIGKILL)
            reason = stream.until(lambda told: told["outage"])["outage"]["text"]
            assert "does not answer" in reason and "the ranks go on without it meanwhile" in reason
            job.process.send_signal(signal.SIGCONT)
            wait_for_another(job, "controller", old)
            stream.until_event("there is a status again")
            running = stream.until(lambda told: (told["status"] or {}).get("state") == "JOB_STATE_RUNNING")
            assert running["outage"] is None and silent_ranks(running) == []

            (tmp_path / "go").touch()
            assert job.wait() == 0, job.report()
            assert stream.until(lambda told: told["end"])["end"].endswith("is over")
            dashboard.process.send_signal(signal.SIGTERM)
            assert dashboard.wait() == 130 and stream.news() is None, dashboard.report()
            stream.close()


def test_it_ends_when_it_is_told_to_while_the_job_goes_on(tmp_path: Path) -> None:
    with processes.launching(tmp_path, 2, UNTIL_GO) as job:
        pids(job, 2)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with processes.running(COMMAND, tmp_path) as dashboard:
                url_of(dashboard)
                dashboard.process.send_signal(number)
                assert dashboard.wait() == 130 and not dashboard.stderr, dashboard.report()
        with socket.create_server(("127.0.0.1", 0)) as taken:
            where = f"127.0.0.1:{taken.getsockname()[1]}"
            with processes.running([*COMMAND, "--listen", where], tmp_path) as dashboard:
                assert dashboard.wait() == 1 and f"{where}: " in dashboard.stderr, dashboard.report()
        (tmp_path / "go").touch()
        assert job.wait() == 0, job.report()


def test_a_controller_behind_a_forwarded_port_is_known_by_its_certificate(tmp_path: Path) -> None:
    """As `kubectl port-forward` shows one of `farandole kubernetes run`: on loopback, and with a name of its own."""
    key, token, certificate = (tmp_path / name for name in ("key", "token", "certificate"))
    for file, text in ((key, "k" * 64), (token, tokens.observer_token("k" * 64, "digits"))):
        file.write_text(text)
        file.chmod(0o600)
    program = [locate.find("farandole-controller"), "--key-file", str(key)]
    certificate.write_text(
        subprocess.run([*program, "--print-certificate"], check=True, capture_output=True, text=True).stdout
    )
    reader, writer = os.pipe()
    served = [*program, "--tls-pinned", "--ready-fd", str(writer)]
    # Where it would complain of those who come without TLS.
    with subprocess.Popen(served, pass_fds=[writer], stderr=subprocess.DEVNULL) as controller:
        os.close(writer)
        with os.fdopen(reader) as ready:
            flags = ["--controller", ready.readline().strip(), "--job", "digits", "--token-file", str(token)]
        answers = {}
        for command in ("status", "dashboard"):
            for pinned in ([], ["--tls-pinned", str(certificate)]):
                line = [sys.executable, "-m", "farandole", command, *flags, *pinned]
                with processes.running(line, tmp_path) as asked:
                    assert asked.wait() == 1, asked.report()
                answers[command, bool(pinned)] = asked.stderr
        controller.kill()
    for command in ("status", "dashboard"):
        assert "no agent of job digits has connected" in answers[command, True]
        assert "does not answer" in answers[command, False]
