"""A Kubernetes cluster of two nodes, for tests: what scripts/install_kubernetes.sh has built.

The control plane runs in the first node's namespaces. A switch, in a network of its own, connects the nodes; the way
of a node to it can be cut. Needs the rights of root.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import image_store
import images
import namespaces
from node import CGROUPS, CONTAINERS, DATABASE, INSTALLED, NAMES, PAUSE, ROOT, Node, until

KUBECTL = ROOT / ".deps" / "kubectl" / "usr" / "bin" / "kubectl"
NODES = 2
SERVICES = "10.96.0.0/16"


def why_not() -> str:
    """Why there can be no cluster here; empty if there can."""
    if os.geteuid() != 0:
        return "a cluster needs root"
    if not (INSTALLED / "bin" / "kubelet").exists():
        return "scripts/install_kubernetes.sh has not been run"
    if not os.access(CGROUPS / "memory", os.W_OK):
        return f"Kubernetes 1.20 wants control groups of version 1, and {CGROUPS}/memory is not there to be written"
    return namespaces.why_not()


class Cluster:
    """Starts it; ready when the nodes are.

    Args:
        folder: for logs and what nodes share; everything in it goes at the end but the logs.
        archives: images that the nodes have, as `docker save` makes them.

    Raises:
        TimeoutError: another one is there in this folder.
    """

    def __init__(self, folder: Path, archives: list[Path]) -> None:
        folder.parent.mkdir(exist_ok=True)
        self._lock = folder.with_suffix(".lock").open("w")
        until(lambda: image_store.locked(self._lock, fcntl.LOCK_EX), f"the end of another cluster in {folder}", 30)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        self.folder = folder
        self.logs = folder / "logs"
        self._config = folder / "admin.conf"
        self.nodes: list[Node] = []
        self._switch = namespaces.Namespace()
        self._images: IO[str] | None = None
        try:
            self._switch.ip("link", "add", "switch", "type", "bridge")
            self._switch.ip("link", "set", "switch", "up")
            for number in range(1, NODES + 1):
                self.nodes.append(Node(number, folder, self.nodes[0] if self.nodes else None))
            for node in self.nodes:
                node.connect(self._switch, self.nodes)
            self._start(archives)
        except BaseException:
            self.end()
            raise

    def _start(self, archives: list[Path]) -> None:
        self._write_files()
        self._begin_api()
        pause = images.pause(self.folder, PAUSE, INSTALLED / "root" / "bin" / "busybox")
        self._images = image_store.hold(self.nodes[0], [pause, *archives])
        for node in self.nodes:
            image_store.give(node.seen(CONTAINERS))
            node.begin_containers()
        until(lambda: self.kubectl("get", "--raw", "/readyz", check=False).returncode == 0, "the API server")
        first = self.nodes[0]
        first.begin("kube-controller-manager", *self._controller_manager())
        first.begin("kube-scheduler", f"--kubeconfig={self._config}", "--leader-elect=false")
        names = [
            "--keep-in-foreground",
            "--no-resolv",
            "--no-hosts",
            f"--hostsdir={self.folder}/names",
            "--user=root",
        ]
        first.begin("dnsmasq", *names, f"--listen-address={first.address}", "--bind-interfaces", f"--local=/{NAMES}/")
        for node in self.nodes:
            node.begin_services(first.address)
        until(lambda: self.ready() == {node.name for node in self.nodes}, "the nodes")

    def _write_files(self) -> None:
        (self.folder / "names").mkdir()
        (self.folder / "bin").mkdir()
        # What Debian's package would link when it is installed.
        for family in ("iptables", "ip6tables"):
            for name in (family, f"{family}-save", f"{family}-restore"):
                (self.folder / "bin" / name).symlink_to(INSTALLED / "root" / "usr" / "sbin" / "xtables-legacy-multi")
        self._make_certificates()
        server = f"https://{self.nodes[0].address}:16443"
        cluster = {"server": server, "certificate-authority": str(self.folder / "ca.crt")}
        (self._config).write_text(
            json.dumps(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "clusters": [{"name": "c", "cluster": cluster}],
                    "users": [{"name": "u", "user": {"token": "admin-of-a-test"}}],
                    "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                    "current-context": "c",
                }
            )
        )
        (self.folder / "tokens.csv").write_text('admin-of-a-test,admin,1,"system:masters"\n')

    def _make_certificates(self) -> None:
        address = self.nodes[0].address
        names = f"subjectAltName=IP:127.0.0.1,IP:{address},IP:10.96.0.1,DNS:kubernetes.default,DNS:localhost"
        (self.folder / "api.names").write_text(names)
        key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
        self._openssl("req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.crt", "-subj", "/CN=test", "-days", "2")
        self._openssl("req", *key, "-keyout", "api.key", "-out", "api.csr", "-subj", "/CN=kube-apiserver")
        signed = ["-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", "api.names"]
        self._openssl("x509", "-req", "-in", "api.csr", *signed, "-out", "api.crt")
        self._openssl("genrsa", "-out", "accounts.key", "2048")
        self._openssl("rsa", "-in", "accounts.key", "-pubout", "-out", "accounts.pub")

    def _openssl(self, *words: str) -> None:
        subprocess.run(["openssl", *words], cwd=self.folder, check=True, capture_output=True)

    def _begin_api(self) -> None:
        etcd = "http://127.0.0.1:12379"
        peers = "http://127.0.0.1:12380"
        self.nodes[0].begin(
            "etcd",
            f"--data-dir={DATABASE}",
            f"--listen-client-urls={etcd}",
            f"--advertise-client-urls={etcd}",
            f"--listen-peer-urls={peers}",
            f"--initial-advertise-peer-urls={peers}",
            f"--initial-cluster=default={peers}",
            "--unsafe-no-fsync",
        )
        self.nodes[0].begin(
            "kube-apiserver",
            f"--etcd-servers={etcd}",
            "--secure-port=16443",
            "--bind-address=0.0.0.0",
            f"--advertise-address={self.nodes[0].address}",
            f"--tls-cert-file={self.folder}/api.crt",
            f"--tls-private-key-file={self.folder}/api.key",
            f"--token-auth-file={self.folder}/tokens.csv",
            "--authorization-mode=RBAC",
            f"--service-account-key-file={self.folder}/accounts.pub",
            f"--service-account-signing-key-file={self.folder}/accounts.key",
            "--service-account-issuer=https://test",
            f"--service-cluster-ip-range={SERVICES}",
            "--allow-privileged",
            "--kubelet-preferred-address-types=InternalIP",
            "--disable-admission-plugins=ServiceAccount",
        )

    def _controller_manager(self) -> list[str]:
        return [
            f"--kubeconfig={self._config}",
            f"--service-account-private-key-file={self.folder}/accounts.key",
            f"--root-ca-file={self.folder}/ca.crt",
            "--leader-elect=false",
            # Of Jobs its successor has other ideas: indexed_jobs.py.
            "--controllers=*,-job,-ttl,-cloud-node-lifecycle,-route,-service",
        ]

    def run(self, *words: str, check: bool = True, timeout: float = 60.0) -> subprocess.CompletedProcess[str]:
        """A command beside the control plane. Raises RuntimeError with what it said if it fails."""
        return self.nodes[0].run(*words, check=check, timeout=timeout)

    def python(self, *words: str, **extra: Any) -> subprocess.Popen[str]:
        """A process of this Python with this tree's package, beside the control plane."""
        return self.nodes[0].python(*words, **extra)

    def kubectl(self, *words: str, check: bool = True, timeout: float = 60.0) -> subprocess.CompletedProcess[str]:
        """kubectl as the cluster's administrator."""
        return self.run(str(KUBECTL), *words, check=check, timeout=timeout)

    def get(self, *words: str) -> Any:
        """Objects as Kubernetes has them."""
        return json.loads(self.kubectl("get", *words, "-o", "json").stdout)

    def apply(self, *objects: Any) -> None:
        """Makes or changes objects; fields that are too new for the cluster are dropped."""
        path = self.folder / "objects.json"
        path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
        self.kubectl("apply", "--validate=false", "-f", str(path))

    def name_services(self) -> None:
        """Gives the Services that there are their names. A cluster does so by itself; this one when it is asked to."""
        lines = []
        for service in self.get("services", "--all-namespaces")["items"]:
            address, about = service["spec"]["clusterIP"], service["metadata"]
            if address != "None":
                lines.append(f"{address} {about['name']}.{about['namespace']}.svc.{NAMES}\n")
        # dnsmasq reads what is new in the folder, and keeps what was there.
        (self.folder / "names" / f"{time.monotonic_ns()}").write_text("".join(lines))

    def ready(self) -> set[str]:
        """Names of the nodes that are."""
        return {
            node["metadata"]["name"]
            for node in self.get("nodes")["items"]
            if any(c["type"] == "Ready" and c["status"] == "True" for c in node["status"]["conditions"])
        }

    def evict(self, pod: Any) -> None:
        """As when its node is drained."""
        about = {"name": pod["metadata"]["name"], "namespace": pod["metadata"]["namespace"]}
        path = self.folder / "eviction.json"
        path.write_text(json.dumps({"apiVersion": "policy/v1beta1", "kind": "Eviction", "metadata": about}))
        place = f"/api/v1/namespaces/{about['namespace']}/pods/{about['name']}/eviction"
        self.kubectl("create", "--raw", place, "-f", str(path))

    @contextmanager
    def closed(self, node: str) -> Iterator[None]:
        """A node gets no new pods meanwhile."""
        self.kubectl("cordon", node)
        try:
            yield
        finally:
            self.kubectl("uncordon", node)

    @contextmanager
    def cut(self, node: Node) -> Iterator[None]:
        """The switch passes nothing to or from a node, which is not told."""
        self._switch.ip("link", "set", node.port, "nomaster")
        try:
            yield
        finally:
            self._switch.ip("link", "set", node.port, "master", "switch")

    def end(self) -> None:
        """Nothing is left of it but its logs."""
        for node in self.nodes:
            node.end()
        self._switch.end()
        if self._images is not None:
            self._images.close()
        for path in self.folder.iterdir():
            if path != self.logs:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        self._lock.close()
