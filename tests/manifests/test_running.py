"""The programs run as the manifests say: with these command lines and variables, and with the Secrets that the README
makes; here as processes of this host, at other addresses and with files at other paths."""

from __future__ import annotations

import base64
import os
import re
import shlex
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import manifests
import processes
import pytest
import yaml

from farandole.base import locate

README = (manifests.FOLDER / "README.md").read_text()
HOSTS = {"0.0.0.0": "127.0.0.1", "farandole-controller": "localhost", "controller": "localhost"}
SCRIPT = """
import light as hvd
hvd.init()
total = hvd.allreduce(hvd.full((1,), hvd.rank() + 1.0), op=hvd.Sum, name="x")[0]
print("rank", hvd.rank(), hvd.size(), hvd.local_rank(), total, flush=True)
hvd.shutdown()
"""


@dataclass
class Deployed:
    """A controller, and where it is asked what."""

    secrets: dict[str, dict[str, Any]]
    ports: dict[str, int]
    audit: Path


def make_secrets(folder: Path) -> dict[str, dict[str, Any]]:
    """Those that the README's commands make, by name; but for another host name, as there is no DNS here."""
    folder.mkdir()
    (block,) = re.findall(r"```sh\n(umask.*?)```", README, re.S)
    assert "DNS:farandole-controller" in block
    block = block.replace("DNS:farandole-controller", f"DNS:{HOSTS['farandole-controller']}")
    wrapped = 'kubectl() { command kubectl "$@" --dry-run=client -o yaml && echo ---; }\n'
    path = f"{Path(locate.find('farandole-controller')).parent}:{manifests.KUBECTL.parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euc", wrapped + block], cwd=folder, env={**os.environ, "PATH": path}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return {found["metadata"]["name"]: found for found in yaml.safe_load_all(done.stdout) if found}


def mounted(pod: dict[str, Any], secrets: dict[str, dict[str, Any]], folder: Path) -> dict[str, str]:
    """Writes the Secrets of a pod; answers which path in its container is which one here."""
    names = {volume["name"]: volume["secret"] for volume in pod["volumes"] if "secret" in volume}
    paths = {}
    for mount in pod["containers"][0]["volumeMounts"]:
        for item in names.get(mount["name"], {}).get("items", []):
            here = folder / mount["name"] / item["path"]
            here.parent.mkdir(exist_ok=True)
            here.write_bytes(base64.b64decode(secrets[names[mount["name"]]["secretName"]]["data"][item["key"]]))
            here.chmod(0o600)
            paths[f"{mount['mountPath']}/{item['path']}"] = str(here)
    return paths


def configured(overlay: str, pod: dict[str, Any], folder: Path) -> dict[str, str]:
    """The same with its ConfigMaps."""
    names = {volume["name"]: volume["configMap"]["name"] for volume in pod["volumes"] if "configMap" in volume}
    paths = {}
    for mount in pod["containers"][0]["volumeMounts"]:
        if mount["name"] in names:
            made = manifests.find(overlay, "ConfigMap")
            assert made["metadata"]["name"] == names[mount["name"]]
            for key, text in made["data"].items():
                here = folder / f"{mount['name']}-{key}"
                here.write_text(text)
                paths[f"{mount['mountPath']}/{key}"] = str(here)
    return paths


def moved(words: list[str], paths: dict[str, str], ports: dict[str, int]) -> list[str]:
    """The same command line for other files and ports."""
    result = []
    for word in words:
        name, equals, value = word.partition("=")
        host, colon, port = value.partition(":")
        if colon and port in ports:
            # 127.0.0.1 in the place of all addresses, and what DNS would answer in the place of a name.
            value = f"{HOSTS[host]}:{ports[port]}"
        else:
            value = paths.get(value, value)
        result.append(f"{name}{equals}{value}")
    return result


@contextmanager
def deployed(folder: Path) -> Iterator[Deployed]:
    secrets = make_secrets(folder / "made")
    pod = manifests.find("base", "Deployment")["spec"]["template"]["spec"]
    ports = {str(port["containerPort"]): processes.free_port() for port in pod["containers"][0]["ports"]}
    paths = {**mounted(pod, secrets, folder), **configured("base", pod, folder)}
    words = moved(pod["containers"][0]["args"], paths, ports)
    audit = folder / "audit"
    reader, writer = os.pipe()
    command = [locate.find("farandole-controller"), *words, "--ready-fd", str(writer)]
    with audit.open("w") as out:
        process = subprocess.Popen(
            command, pass_fds=[writer], stdin=subprocess.DEVNULL, stdout=out, env=processes.environment(), cwd=folder
        )
    os.close(writer)
    try:
        with os.fdopen(reader) as file:
            assert file.readline().strip() == f"127.0.0.1:{ports['7000']}", shlex.join(command)
        yield Deployed(secrets, ports, audit)
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def controller(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployed]:
    with deployed(tmp_path_factory.mktemp("controller")) as found:
        yield found


def test_the_controller_is_healthy_and_measured(controller: Deployed) -> None:
    with grpc.insecure_channel(f"127.0.0.1:{controller.ports['7001']}") as channel:
        check = channel.unary_unary("/grpc.health.v1.Health/Check", bytes, bytes)
        # Field 1, status, is SERVING. Without a name of a service, as kubelet asks.
        assert check(b"", timeout=30, wait_for_ready=True) == b"\x08\x01"
    with urllib.request.urlopen(f"http://127.0.0.1:{controller.ports['9400']}/metrics", timeout=30) as answer:
        assert b"farandole_controller_info{" in answer.read()


def environments(overlay: str) -> list[dict[str, str]]:
    """What Kubernetes, JobSet and Trainer put into the containers of each pod, beside what the manifest has."""
    if overlay == "jobset":
        (jobs,) = manifests.find(overlay, "JobSet")["spec"]["replicatedJobs"]
        # The index of its Job is the label that the manifest asks for.
        return [{"JOB_COMPLETION_INDEX": "0", "FARANDOLE_POD_INDEX": str(i)} for i in range(jobs["replicas"])]
    if overlay == "kubeflow-trainer":
        nodes = manifests.find(overlay, "TrainJob")["spec"]["trainer"]["numNodes"]
        pet = {"PET_NNODES": str(nodes)}
        return [{**pet, "JOB_COMPLETION_INDEX": str(i), "PET_NODE_RANK": str(i)} for i in range(nodes)]
    job = manifests.find(overlay, "Job")["spec"]
    if "completions" not in job:
        return [{} for _ in range(job["parallelism"])]
    return [{"JOB_COMPLETION_INDEX": str(i)} for i in range(job["completions"])]


@pytest.mark.parametrize("overlay", ["job", "elastic", "jobset", "kubeflow-trainer"])
def test_pods_meet_at_the_controller(tmp_path: Path, controller: Deployed, overlay: str) -> None:
    (pod,) = [pod for pod in manifests.agents() if pod.overlay == overlay]
    (container,) = pod.containers
    args = container["args"]
    if overlay == "kubeflow-trainer":
        args = manifests.find(overlay, "TrainJob")["spec"]["trainer"]["args"]
    paths = mounted(pod.spec, controller.secrets, tmp_path)
    command = [locate.find("farandole-agent")]
    command += moved(container["command"][1:] + args[: args.index("--")], paths, controller.ports)
    command += ["--", sys.executable, str(processes.script_file(tmp_path, SCRIPT))]
    fixed = {each["name"]: each["value"] for each in container["env"] if "value" in each and each["name"] != "HOME"}
    made = environments(overlay)
    with ExitStack() as stack:
        jobs = []
        for index, variables in enumerate(made):
            place = tmp_path / f"pod{index}"
            place.mkdir()
            jobs.append(stack.enter_context(processes.running(command, place, {**fixed, **variables})))
        assert [job.wait() for job in jobs] == [0] * len(made), [job.report() for job in jobs]
    assert '"event":"job_began","namespace":"default","job":"example"' in controller.audit.read_text()
    said = sorted(line for job in jobs for line in job.lines("rank "))
    total = sum(range(len(made) + 1))
    assert said == [f"{rank} {len(made)} 0 {total:.1f}" for rank in range(len(made))]


@pytest.mark.parametrize("overlay", ["job", "elastic"])
def test_the_script_learns(tmp_path: Path, overlay: str) -> None:
    script = tmp_path / "train.py"
    script.write_text(manifests.find(overlay, "ConfigMap")["data"]["train.py"])
    with processes.running([sys.executable, str(script)], tmp_path) as job:
        assert job.wait() == 0, job.report()
    (accuracy,) = re.findall(r"accuracy ([\d.]+), ranks 1", job.stdout)
    assert float(accuracy) > 0.95


def test_the_readme_names_what_is_there() -> None:
    """Every folder and Secret, and no folder that is not."""
    folders = set(re.findall(r"^\| `([\w/-]+)/?` \|", README, re.M))
    components = {str(p.parent.relative_to(manifests.FOLDER)) for p in manifests.FOLDER.glob("components/*/*.yaml")}
    assert folders == {*manifests.OVERLAYS, *components}
    applied = set(re.findall(r"apply -k deploy/kubernetes/([\w/-]+)", README))
    assert applied and applied <= folders
    wanted = {
        volume["secret"]["secretName"]
        for pod in manifests.pods()
        for volume in pod.spec["volumes"]
        if "secret" in volume and pod.kind != "MPIJob"
    }
    assert wanted == set(re.findall(r"kubectl create secret generic ([\w-]+)", README))
