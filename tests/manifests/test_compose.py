"""deploy/compose/compose.yaml: read by docker-compose, what it lets its containers do, and its command lines as
processes of this host with the secrets that docs/containers.md makes."""

from __future__ import annotations

import functools
import json
import os
import re
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import manifests
import pages
import processes
import pytest
from test_commands import check_flags
from test_running import HOSTS, moved

from farandole.base import locate

FILE = manifests.ROOT / "deploy" / "compose" / "compose.yaml"
COMPOSE = manifests.ROOT / ".deps" / "compose" / "usr" / "bin" / "docker-compose"
SERVICES = ("controller", "host0", "host1")
HOSTS_OF_JOB = SERVICES[1:]
# Written at once: the agent has Python print without a buffer.
SCRIPT = """
import os, sys, time
import light as hvd
hvd.init()
total = hvd.allreduce(hvd.full((1,), hvd.rank() + 1.0), op=hvd.Sum, name="x")[0]
os.write(1, f"rank {hvd.rank()} {hvd.size()} {hvd.local_rank()} {total}\\n".encode())
while hvd.allreduce(hvd.full((1,), float(os.path.exists(sys.argv[1]))), op=hvd.Max, name="y")[0] == 0:
    time.sleep(0.005)
hvd.shutdown()
"""


def read(file: Path) -> subprocess.CompletedProcess[str]:
    assert COMPOSE.exists(), f"{COMPOSE} is missing: run scripts/install_deps.sh --compose"
    return subprocess.run([COMPOSE, "-f", file, "config", "--format", "json"], capture_output=True, text=True)


@functools.cache
def config() -> dict[str, Any]:
    """As docker-compose understands it."""
    done = read(FILE)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    return json.loads(done.stdout)


def test_docker_compose_takes_it(tmp_path: Path) -> None:
    assert sorted(config()["services"]) == sorted(SERVICES)
    wrong = tmp_path / "compose.yaml"
    wrong.write_text(FILE.read_text().replace("read_only:", "reads_only:"))
    assert "reads_only" in read(wrong).stderr


@pytest.mark.parametrize("name", SERVICES)
def test_no_rights(name: str) -> None:
    service = config()["services"][name]
    assert service["read_only"] is True and service["user"] == "65532:65532"
    assert service["cap_drop"] == ["ALL"] and service["security_opt"] == ["no-new-privileges:true"]
    assert not service.keys() & {"privileged", "cap_add", "devices", "network_mode", "pid", "ipc", "userns_mode"}
    assert re.fullmatch(r"farandole/[\w-]+:\d+\.\d+\.\d+", service["image"])
    assert all(volume["read_only"] and "docker.sock" not in volume["source"] for volume in service.get("volumes", []))
    assert all(Path(volume["source"]).is_file() for volume in service.get("volumes", []))
    assert all(port["host_ip"] == "127.0.0.1" for port in service.get("ports", []))


def test_each_sees_the_secrets_that_it_names_and_no_others() -> None:
    for name, service in config()["services"].items():
        named = set(re.findall(r"/run/secrets/([\w.]+)", " ".join(service["command"])))
        assert {secret["source"] for secret in service["secrets"]} == named
        assert ("key" in named) == (name == "controller") == ("tls.key" in named)
        assert all(secret["target"] == f"/run/secrets/{secret['source']}" for secret in service["secrets"])
    assert not re.search(r"PRIVATE KEY-----|[0-9a-f]{32}", FILE.read_text())


def test_programs_know_their_flags() -> None:
    services = config()["services"]
    check_flags("farandole-controller", services["controller"]["command"])
    sizes, first = set(), 0
    for name in HOSTS_OF_JOB:
        command = services[name]["command"]
        assert command[0] == "farandole-agent"
        check_flags("farandole-agent", command[1:])
        given = manifests.flags(command[1:])
        assert int(given["--first-rank"]) == first
        first += int(given["--local-size"])
        sizes.add(int(given["--size"]))
    assert sizes == {first}


def make_secrets(folder: Path) -> dict[str, str]:
    """By the commands of the page, for another host and without another owner; path in a container to path here."""
    (block,) = [text for _, text in pages.blocks(pages.DOCS / "containers.md", "sh") if "mkdir secrets" in text]
    *lines, owner, start = block.splitlines()
    assert owner == "chown root:65532 secrets/* && chmod 440 secrets/*" and start == "docker compose up"
    assert "DNS:controller " in block
    script = "\n".join(lines).replace("DNS:controller ", f"DNS:{HOSTS['controller']} ")
    path = f"{Path(locate.find('farandole-controller')).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euc", script], cwd=folder, env={**os.environ, "PATH": path}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    found = {secret: Path(entry["file"]) for secret, entry in config()["secrets"].items()}
    assert {path.parent for path in found.values()} == {FILE.parent / "secrets"}
    assert {path.name for path in found.values()} == {path.name for path in (folder / "secrets").iterdir()}
    return {f"/run/secrets/{name}": str(folder / "secrets" / path.name) for name, path in found.items()}


def test_they_run(tmp_path: Path) -> None:
    services, paths = config()["services"], make_secrets(tmp_path)
    ports = {port: str(processes.free_port()) for port in ("7000", "9400")}
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    controller = [locate.find("farandole-controller"), *moved(services["controller"]["command"], paths, ports)]
    with ExitStack() as stack:
        (tmp_path / "controller").mkdir()
        serving = stack.enter_context(processes.running(controller, tmp_path / "controller"))
        jobs = []
        for name in HOSTS_OF_JOB:
            command = services[name]["command"]
            words = moved(command[1 : command.index("--")], paths, ports)
            words = [locate.find("farandole-agent"), *words, "--", sys.executable, str(script), str(tmp_path / "end")]
            (tmp_path / name).mkdir()
            variables = services[name]["environment"]
            jobs.append(stack.enter_context(processes.running(words, tmp_path / name, variables)))
        for job in jobs:
            job.wait_for(lambda job=job: len(job.lines("rank ")) == 2, "the sums of two ranks")
        health = services["host0"]["healthcheck"]["test"]
        assert health[:3] == ["CMD", "farandole", "status"]
        asked = [sys.executable, "-m", "farandole", *moved(health[2:], paths, ports)]
        told = subprocess.run(asked, env=processes.environment(), capture_output=True, text=True, timeout=60)
        assert told.returncode == 0 and "4 ranks" in told.stdout, told
        (tmp_path / "end").touch()
        assert [job.wait() for job in jobs] == [0, 0], [job.report() for job in jobs]
        said = sorted(line for job in jobs for line in job.lines("rank "))
        assert said == [f"{rank} 4 {rank % 2} 10.0" for rank in range(4)]
        told = subprocess.run(asked, env=processes.environment(), capture_output=True, text=True, timeout=60)
        assert told.returncode == 1, "the job has ended"
        serving.process.terminate()
        serving.wait()
