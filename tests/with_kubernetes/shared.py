"""deploy/kubernetes as users apply it: a controller that many jobs share, its secrets, a job, and pods beside them."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import old_cluster
from cluster import Cluster
from jobs import IMAGE, name_service
from node import ROOT, until

FOLDER = ROOT / "deploy" / "kubernetes"
CONTROLLER, JOB = "farandole-controller", "example"
LABELS = {"app.kubernetes.io/name": "farandole", "app.kubernetes.io/component": "worker"}
PROGRAMS = f"{ROOT}/bazel-bin/controller:{ROOT}/.deps/kubectl/usr/bin:/usr/bin:/bin"
# The controller's ports.
AGENTS, METRICS = 7000, 9400


def make_secrets(cluster: Cluster, folder: Path) -> None:
    """As the page of deploy/kubernetes makes them, in the place of others."""
    for name in ("farandole-key", "farandole-tls", "farandole-token"):
        cluster.kubectl("delete", "secret", name, "--ignore-not-found")
    page = (FOLDER / "README.md").read_text()
    (shell,) = [block for block in re.findall(r"```sh\n(.*?)```", page, re.DOTALL) if "openssl rand" in block]
    cluster.run("env", f"PATH={PROGRAMS}", "sh", "-ec", f"cd {folder}\n{shell}")


def change_secret(cluster: Cluster, name: str, **files: str) -> None:
    """Exchanges files of a Secret, as by cert-manager; names of files have _ for the dot."""
    data = {file.replace("_", "."): text for file, text in files.items()}
    # Not `apply`, which would empty the files that it has written before.
    cluster.kubectl("patch", "secret", name, "--type=merge", "--patch", json.dumps({"stringData": data}))


def make_certificate(folder: Path, name: str, *options: str) -> tuple[str, str]:
    """A certificate and its key, which it has signed itself."""
    files = ("-keyout", f"{name}.key", "-out", f"{name}.crt")
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    command = ("openssl", "req", "-x509", *key, "-days", "2", "-subj", f"/CN={name}", *options, *files)
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return (folder / f"{name}.crt").read_text(), (folder / f"{name}.key").read_text()


def token_of(cluster: Cluster, key: Path, job: str) -> str:
    """A token that follows from a controller's key."""
    words = ("farandole-controller", "token", "--job", job, "--key-file", str(key))
    return cluster.run("env", f"PATH={PROGRAMS}", *words).stdout.strip()


def controller_objects() -> list[Any]:
    """Of the shared controller."""
    return old_cluster.rendered(FOLDER / "base")


def job_objects(overlay: str) -> list[Any]:
    """Of a job, whose pods share two cores here."""
    objects = old_cluster.rendered(FOLDER / overlay)
    for container in containers_of(objects):
        container["image"] = IMAGE
        container["resources"]["requests"] = {"cpu": "100m", "memory": "256Mi"}
        container["env"].append({"name": "OMP_NUM_THREADS", "value": "1"})
    return objects


def containers_of(objects: list[Any]) -> Iterator[Any]:
    """Of the pods that these make."""
    for found in objects:
        yield from found.get("spec", {}).get("template", {}).get("spec", {}).get("containers", ())


def controller_pod(cluster: Cluster) -> Any:
    """That of the shared controller, if it is ready; None: it is not."""
    pods = cluster.get("pods", "-l", "app.kubernetes.io/component=controller,app.kubernetes.io/name=farandole")["items"]
    ready = [
        pod
        for pod in pods
        if "deletionTimestamp" not in pod["metadata"]
        and any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions", ()))
    ]
    return ready[0] if ready else None


@contextmanager
def applied(cluster: Cluster, objects: list[Any], name: str) -> Iterator[None]:
    """Objects, which are deleted afterwards; `name` is that of the one that makes pods: kind/name."""
    cluster.apply(*objects)
    try:
        yield
    finally:
        cluster.kubectl("delete", name, "--ignore-not-found")


@contextmanager
def controller(cluster: Cluster, clients: str = "") -> Iterator[None]:
    """The shared controller, ready, with new secrets; with `clients` it wants certificates that these have signed."""
    folder = cluster.folder / "secrets"
    folder.mkdir(exist_ok=True)
    make_secrets(cluster, folder)
    objects = controller_objects()
    if clients:
        change_secret(cluster, "farandole-tls", clients_crt=clients)
        for container in containers_of(objects):
            container["args"].append("--tls-client-ca=/tls/clients.crt")
        (deployment,) = [found for found in objects if found["kind"] == "Deployment"]
        (volume,) = [v for v in deployment["spec"]["template"]["spec"]["volumes"] if v["name"] == "tls"]
        volume["secret"]["items"].append({"key": "clients.crt", "path": "clients.crt"})
    with applied(cluster, objects, f"deployment/{CONTROLLER}"):
        until(lambda: name_service(cluster, CONTROLLER), "the Service", 30)
        until(lambda: controller_pod(cluster), "the shared controller", 60)
        yield


class Bystander:
    """A pod that does nothing until it is told to."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self._cluster, self.name = cluster, name

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """A command in it."""
        return self._cluster.kubectl("exec", self.name, "--", *words, check=False)

    def write(self, path: str, text: str) -> None:
        """A file in it, that no other user may read."""
        words = ("sh", "-c", f'umask 077; rm -f {path}; printf %s "$0" >{path}', text)
        done = self.run(*words)
        assert done.returncode == 0, done.stderr

    def reaches(self, address: str, port: int) -> bool:
        """Whether it can connect."""
        code = f"import socket; socket.create_connection(('{address}', {port}), 2)"
        return self.run("python", "-c", code).returncode == 0

    def address(self) -> str:
        """Its own."""
        return self._cluster.get("pod", self.name)["status"]["podIP"]


@contextmanager
def bystander(cluster: Cluster, name: str, labels: dict[str, str] | None = None, node: str = "") -> Iterator[Bystander]:
    """One that runs, on any node if none is named."""
    container = {"name": "idle", "image": IMAGE, "imagePullPolicy": "Never", "command": ["sleep", "infinity"]}
    spec = {"containers": [container], "terminationGracePeriodSeconds": 0}
    if node:
        spec["nodeName"] = node
    about = {"name": name, "labels": labels or {}}
    with applied(cluster, [{"apiVersion": "v1", "kind": "Pod", "metadata": about, "spec": spec}], f"pod/{name}"):
        until(lambda: cluster.get("pod", name)["status"]["phase"] == "Running", name, 60)
        yield Bystander(cluster, name)
