"""deploy/systemd/farandole-controller.service under a real systemd: it starts with the rights that it says and no
others, hosts join by TLS and a token, and it comes back. `make test-systemd`."""

from __future__ import annotations

import platform
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import machine
import pages
import processes
import pytest

from farandole.base import locate

UNIT = "farandole-controller.service"
FILE = processes.ROOT / "deploy" / "systemd" / UNIT
PAGE = pages.DOCS / "several-hosts.md"
# Lower is better, of 10.
EXPOSURE = 1.5
SCRIPT = """
hvd.init()
total = hvd.allreduce(full((1,), hvd.rank() + 1.0), op=hvd.Sum, name="x")[0]
os.write(1, f"sum {hvd.rank()} {total}\\n".encode())
# Both end after the same step.
while hvd.allreduce(full((1,), float(os.path.exists(sys.argv[1]))), op=hvd.Max, name="y")[0] == 0:
    time.sleep(0.005)
hvd.shutdown()
"""
ASK = "import urllib.request; print(urllib.request.urlopen('http://127.0.0.1:9400/metrics').read().decode())"


def secrets() -> str:
    """The commands of the page that make key and certificate."""
    (block,) = [text for _, text in pages.blocks(PAGE, "sh") if "openssl req" in text]
    return block


@pytest.fixture(scope="module")
def booted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[machine.Machine]:
    """A machine on which everything was done that the page says."""
    if reason := machine.why_not():
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("systemd")
    # What a controller of this tree loads, and the wheel would bring.
    libraries = Path(f"/usr/lib/{platform.machine()}-linux-gnu")
    with machine.booted(folder / "machine", libraries) as found:
        (found.root / "usr/local/bin").mkdir(parents=True, exist_ok=True)
        shutil.copy(locate.find("farandole-controller"), found.root / "usr/local/bin")
        etc = found.root / "etc"
        shutil.copy(FILE, etc / "systemd/system")
        (etc / f"systemd/system/{UNIT}.d").mkdir()
        (etc / f"systemd/system/{UNIT}.d/libraries.conf").write_text("[Service]\nEnvironment=LD_LIBRARY_PATH=/host\n")
        (etc / "farandole").mkdir(mode=0o700)
        commands = secrets().replace("sudo ", "").replace("DNS:$(hostname -f)", "DNS:localhost")
        assert "localhost" in commands
        done = subprocess.run(["bash", "-euc", commands.replace("/etc/farandole", str(etc / "farandole"))])
        assert done.returncode == 0
        assert {path.name for path in (etc / "farandole").iterdir()} == {"key", "tls.crt", "tls.key"}
        found.run("systemctl", "daemon-reload")
        found.run("systemctl", "enable", "--now", UNIT)
        yield found


def main_pid(booted: machine.Machine) -> int:
    """As this machine numbers it; waits until it listens."""
    listens = "listens on 0.0.0.0:7000, with TLS"

    def state() -> str:
        return booted.run("systemctl", "status", "--no-pager", "-l", "--lines=20", UNIT, check=False)

    inner = machine.until(lambda: listens in state() and int(booted.show(UNIT, "MainPID")), state)
    for path in Path("/proc").glob("[0-9]*/status"):
        try:
            text = path.read_text()
        except OSError:
            continue
        if re.search(rf"^NSpid:\t.*\t{inner}$", text, re.M) and "Name:\tfarandole-contr\n" in text:
            return int(path.parent.name)
    raise AssertionError(state())


def test_systemd_finds_nothing_wrong(booted: machine.Machine) -> None:
    assert booted.run("systemd-analyze", "verify", "--man=no", UNIT) == ""
    words = ("systemd-analyze", "security", "--no-pager", f"--threshold={EXPOSURE * 10:.0f}", UNIT)
    assert "Overall exposure level" in booted.run(*words)


def test_it_has_no_rights(booted: machine.Machine) -> None:
    pid = main_pid(booted)
    status = dict(re.findall(r"^(\w+):\s+(.*)$", Path(f"/proc/{pid}/status").read_text(), re.M))
    users = set(status["Uid"].split())
    assert len(users) == 1 and 61184 <= int(users.pop()) <= 65519, "a dynamic user"
    assert {status[name] for name in ("CapPrm", "CapEff", "CapBnd", "CapAmb")} == {"0" * 16}
    assert status["NoNewPrivs"] == "1" and status["Seccomp"] == "2"
    credentials = Path(f"/proc/{pid}/root/run/credentials/{UNIT}")
    assert {path.name: path.stat().st_mode & 0o777 for path in credentials.iterdir()} == dict.fromkeys(
        ("key", "tls.crt", "tls.key"), 0o400
    )
    mounts = [line.split() for line in Path(f"/proc/{pid}/mounts").read_text().splitlines()]
    writable = {where for _, where, _, options, *_ in mounts if "ro" not in options.split(",")}
    writable = {where for where in writable if not re.match(r"/(dev|proc)\b", where)}
    # Of /run all is root's; the others are its own.
    assert writable == {"/run", "/run/lock", "/tmp", "/var/tmp"}


def test_it_tells_when_it_began(booted: machine.Machine) -> None:
    """For which it may see /proc/stat."""
    main_pid(booted)
    page = subprocess.run(
        ["nsenter", "-t", str(booted.pid), "-n", sys.executable, "-c", ASK], capture_output=True, text=True, check=True
    ).stdout
    (began,) = re.findall(r"^farandole_controller_start_time_seconds (\S+)$", page, re.M)
    assert time.time() - 300 < float(began) < time.time() + 2


def agents(booted: machine.Machine, folder: Path, script: Path, end: Path) -> list[list[str]]:
    """The page's command, for two hosts with a rank each."""
    token, certificate = folder / "token", folder / "ca.crt"
    shutil.copy(booted.root / "etc/farandole/tls.crt", certificate)
    key = booted.root / "etc/farandole/key"
    made = subprocess.run(
        [locate.find("farandole-controller"), "token", "--job", "digits", "--key-file", str(key)],
        capture_output=True,
        text=True,
        check=True,
    )
    token.write_text(made.stdout)
    token.chmod(0o600)
    words = ["nsenter", "-t", str(booted.pid), "-n", locate.find("farandole-agent"), "--job", "digits"]
    words += ["--controller", "localhost:7000", "--token-file", str(token), "--tls-ca", str(certificate)]
    words += ["--size", "2", "--local-size", "1", "--first-rank"]
    return [[*words, rank, "--", sys.executable, str(script), str(end)] for rank in ("0", "1")]


def test_hosts_join_and_train_on_while_it_is_started_again(tmp_path: Path, booted: machine.Machine) -> None:
    script, end = processes.script_file(tmp_path, SCRIPT), tmp_path / "end"
    first = main_pid(booted)
    with ExitStack() as stack:
        jobs = []
        for index, words in enumerate(agents(booted, tmp_path, script, end)):
            (tmp_path / str(index)).mkdir()
            jobs.append(stack.enter_context(processes.running(words, tmp_path / str(index))))
        for rank, job in enumerate(jobs):
            job.wait_for(lambda job=job: job.lines("sum "), "a sum")
            assert job.lines("sum ") == [f"{rank} 3.0"]
        restarts = int(booted.show(UNIT, "NRestarts"))
        booted.run("systemctl", "kill", f"--signal={signal.SIGKILL.name}", UNIT)
        machine.until(lambda: int(booted.show(UNIT, "NRestarts")) == restarts + 1, lambda: "not started again")
        assert main_pid(booted) != first
        end.touch()
        assert [job.wait() for job in jobs] == [0, 0], [job.report() for job in jobs]


def test_a_file_that_is_wrong_is_said_once(booted: machine.Machine) -> None:
    """Code 2 is not tried again: nothing but a person mends it."""
    key = booted.root / "etc/farandole/key"
    good = key.read_text()
    try:
        key.write_text("")
        booted.run("systemctl", "restart", UNIT, check=False)
        machine.until(
            lambda: booted.show(UNIT, "ActiveState") == "failed", lambda: booted.run("systemctl", "status", UNIT)
        )
        assert booted.show(UNIT, "ExecMainStatus") == "2"
    finally:
        key.write_text(good)
        booted.run("systemctl", "restart", UNIT)
    main_pid(booted)
