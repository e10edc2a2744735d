"""A node of the tests' cluster: containerd, the kubelet and kube-proxy in namespaces of their own.

Its processes live in the process namespace of the first node, whose first process does nothing: when that is killed,
which happens at the latest when the test ends, nothing is left of processes, mounts, networks and sockets of all nodes.
What remains are a folder of this tree and empty control groups, which `end` removes.

Needs the rights of root.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import namespaces
import processes

ROOT = processes.ROOT
INSTALLED = ROOT / ".deps" / "kubernetes"
CGROUPS = Path("/sys/fs/cgroup")
NAMES = "cluster.local"
PODS = "10.77.0.0/16"
PAUSE = "localhost/pause:1"
SOCKET = "/run/containerd/containerd.sock"
# Of a node, in memory: what a pod does waits dozens of times until a change of these has been written.
CONTAINERS, DATABASE = Path("/run/containerd/root"), Path("/run/etcd")
START_S = 120.0
# The whole life of a node. Folders of the machine that its programs write to become empty ones of its own.
BEGIN = """
for folder in /run /tmp /var/lib/cni /var/lib/kubelet /var/log; do
  mkdir -p $folder && mount -t tmpfs tmpfs $folder
done
mkdir -p /var/log/pods /var/log/containers /run/lock
mount --make-rshared /
# A Service's packets between pods come back by the way on which their address was changed.
echo 1 > /proc/sys/net/ipv4/ip_forward
echo 1 > /proc/sys/net/bridge/bridge-nf-call-iptables
ip link set lo up
ip link add cni0 type bridge && ip addr add {gateway}/24 dev cni0 && ip link set cni0 up
echo ready
exec sleep infinity
"""
CONTAINERD = """version = 2
root = "{root}"
state = "/run/containerd/state"
[grpc]
  address = "{socket}"
[plugins."io.containerd.internal.v1.opt"]
  path = "{folder}/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  disable_apparmor = true
  restrict_oom_score_adj = true
  disable_tcp_service = true
  stream_server_address = "127.0.0.1"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{installed}/usr/lib/cni"
    conf_dir = "{folder}/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      BinaryName = "{installed}/usr/sbin/runc"
      Root = "/run/runc"
"""
CNI = {
    "type": "bridge",
    "bridge": "cni0",
    "isGateway": True,
    "isDefaultGateway": True,
    "ipMasq": False,
    "hairpinMode": True,
}
KUBELET = {
    "apiVersion": "kubelet.config.k8s.io/v1beta1",
    "kind": "KubeletConfiguration",
    "cgroupDriver": "cgroupfs",
    "failSwapOn": False,
    "makeIPTablesUtilChains": False,
    "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
    "authorization": {"mode": "AlwaysAllow"},
    "healthzPort": 0,
    "readOnlyPort": 0,
    "clusterDomain": NAMES,
    "resolvConf": "/dev/null",
    "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
    "imageGCHighThresholdPercent": 100,
    "serializeImagePulls": False,
    "enforceNodeAllocatable": ["pods"],
    "nodeStatusUpdateFrequency": "4s",
    # So soon the pods see that a Secret has changed; a minute otherwise.
    "syncFrequency": "5s",
}
PROXY = {
    "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
    "kind": "KubeProxyConfiguration",
    "mode": "iptables",
    "clusterCIDR": PODS,
    "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
    "healthzBindAddress": "127.0.0.1:10256",
    "metricsBindAddress": "127.0.0.1:10249",
}


def until(done: Callable[[], Any], what: str, seconds: float = START_S, every: float = 0.4) -> Any:
    """What `done` returns, once it is true. Raises TimeoutError."""
    end = time.monotonic() + seconds
    while not (found := done()):
        if time.monotonic() > end:
            raise TimeoutError(f"{what}: not within {seconds:.0f} s")
        time.sleep(every)
    return found


class Node:
    """Its namespaces are there at once; programs begin when they are told to.

    Args:
        number: from 1, in its name and its addresses.
        folder: for the files of all nodes; its own is below it, and so are the logs.
        first: the node in whose process namespace this one lives; None: it is the first.

    Attributes:
        address: among the nodes.
        pods: the network of its pods.
    """

    def __init__(self, number: int, folder: Path, first: Node | None) -> None:
        self.name, self.address, self.pods = f"n{number}", f"10.78.0.{number}", f"10.77.{number}.0/24"
        self.port = f"port{number}"
        self.folder, self._config, self._bin = folder / self.name, folder / "admin.conf", folder / "bin"
        self._logs = folder / "logs" / self.name
        self._gateway = f"10.77.{number}.1"
        # Of another cluster on this machine, a kubelet would end what it does not know.
        self._group = f"farandole-test-{os.getpid()}-{self.name}"
        self._programs: list[subprocess.Popen[Any]] = []
        self.folder.mkdir()
        self._logs.mkdir(parents=True)
        unshare = ["unshare", "--mount", "--net", "--uts", "--ipc"]
        if first is None:
            command = [*unshare, "--pid", "--fork", "--kill-child", "--mount-proc"]
        else:
            command = ["nsenter", "-t", str(first.pid), "--mount", "--pid", *unshare]
        self._holder = subprocess.Popen(
            [*command, "sh", "-ec", BEGIN.format(gateway=self._gateway)],
            stdout=subprocess.PIPE,
            preexec_fn=namespaces.die_with_the_test,
        )
        assert self._holder.stdout is not None
        if self._holder.stdout.readline() != b"ready\n":
            raise RuntimeError("no namespaces for a node; it says why above")
        # `unshare` and `nsenter` have forked: the process that holds the namespaces is their child.
        children = Path(f"/proc/{self._holder.pid}/task/{self._holder.pid}/children").read_text()
        self.pid = int(children.split()[0])

    def ip(self, *words: str) -> None:
        """Runs this machine's `ip` in the node's network."""
        command = ["nsenter", "-t", str(self.pid), "--net", "ip", *words]
        subprocess.run(command, check=True, capture_output=True, timeout=20)

    def connect(self, switch: namespaces.Namespace, nodes: list[Node]) -> None:
        """To a switch, and gives it the ways to the pods of the other nodes."""
        self.ip("link", "add", "nodes", "type", "veth", "peer", "name", self.port, "netns", str(switch.pid))
        switch.ip("link", "set", self.port, "master", "switch", "up")
        self.ip("addr", "add", f"{self.address}/24", "dev", "nodes")
        self.ip("link", "set", "nodes", "up")
        self.ip("route", "add", "default", "via", self._gateway, "dev", "cni0")
        for other in nodes:
            if other is not self:
                self.ip("route", "add", other.pods, "via", other.address)

    def begin(self, program: str, *words: str) -> None:
        """Starts one that runs until the end; what it says is among the logs."""
        with (self._logs / f"{Path(program).name}.log").open("wb") as log:
            self._programs.append(
                subprocess.Popen(
                    self.inside(program, *words), stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
                )
            )

    def seen(self, path: Path) -> Path:
        """Its file or folder, as this process can reach it."""
        return Path(f"/proc/{self.pid}/root{path}")

    def begin_containers(self) -> None:
        """containerd, with what it has of images."""
        # The containerd that filled the store may have made it.
        (self.folder / "cni").mkdir(exist_ok=True)
        ranges = {"type": "host-local", "dataDir": "/run/cni-addresses", "ranges": [[{"subnet": self.pods}]]}
        networks = {"cniVersion": "0.4.0", "name": "pods", "plugins": [{**CNI, "ipam": ranges}]}
        (self.folder / "cni" / "10-pods.conflist").write_text(json.dumps(networks))
        self.begin("containerd", f"--config={self.containerd_file('containerd', CONTAINERS)}")

    def containerd_file(self, name: str, root: Path, socket: str = SOCKET) -> Path:
        """The configuration of a containerd on this node."""
        path = self.folder / f"{name}.toml"
        installed = INSTALLED / "root"
        path.write_text(
            CONTAINERD.format(folder=self.folder, root=root, socket=socket, installed=installed, pause=PAUSE)
        )
        return path

    def begin_services(self, names: str) -> None:
        """kube-proxy, and the kubelet once there are containers; `names` is the address of the server of names."""
        proxy = {**PROXY, "hostnameOverride": self.name, "clientConnection": {"kubeconfig": str(self._config)}}
        (self.folder / "proxy.json").write_text(json.dumps(proxy))
        self.begin("kube-proxy", f"--config={self.folder}/proxy.json")
        until(self.ctr_answers, f"containerd of {self.name}")
        for group in CGROUPS.iterdir():
            if (group / "tasks").exists():
                (group / self._group).mkdir(exist_ok=True)
        kubelet = {**KUBELET, "cgroupRoot": f"/{self._group}", "clusterDNS": [names]}
        (self.folder / "kubelet.json").write_text(json.dumps(kubelet))
        self.begin(
            "kubelet",
            f"--config={self.folder}/kubelet.json",
            f"--kubeconfig={self._config}",
            f"--hostname-override={self.name}",
            f"--node-ip={self.address}",
            "--container-runtime=remote",
            f"--container-runtime-endpoint=unix://{SOCKET}",
        )

    def ctr_answers(self, socket: str = SOCKET) -> bool:
        """Whether a containerd does."""
        return self.run("ctr", "--address", socket, "version", check=False).returncode == 0

    def inside(self, *words: str) -> list[str]:
        """A command in the node's namespaces, with the cluster's programs on the PATH."""
        root = INSTALLED / "root"
        path = [self._bin, INSTALLED / "bin", *(root / place for place in ("usr/bin", "usr/sbin", "bin", "sbin"))]
        libraries = f"{root}/usr/lib/x86_64-linux-gnu:{root}/lib/x86_64-linux-gnu"
        settings = [
            f"PATH={':'.join(map(str, path))}:/usr/sbin:/usr/bin:/sbin:/bin",
            f"LD_LIBRARY_PATH={libraries}",
            f"XTABLES_LIBDIR={root}/usr/lib/x86_64-linux-gnu/xtables",
            f"KUBECONFIG={self._config}",
            "HOME=/run",
        ]
        enter = ["nsenter", "-t", str(self.pid), "--mount", "--net", "--pid", "--uts", "--ipc"]
        return [*enter, "env", "-i", *settings, *words]

    def run(self, *words: str, check: bool = True, timeout: float = 60.0) -> subprocess.CompletedProcess[str]:
        """A command in the node's namespaces. Raises RuntimeError with what it said if it fails."""
        done = subprocess.run(self.inside(*words), capture_output=True, text=True, timeout=timeout)
        if check and done.returncode:
            raise RuntimeError(f"{' '.join(words)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
        return done

    def python(self, *words: str, **extra: Any) -> subprocess.Popen[str]:
        """A process of this Python with this tree's package, in the node's network."""
        paths = f"PYTHONPATH={ROOT}/python:{ROOT}/tests"
        return subprocess.Popen(self.inside("env", paths, sys.executable, *words), text=True, **extra)

    def end(self) -> None:
        """Nothing is left of it but its logs. The first node's end is that of all processes: it comes first."""
        self._holder.kill()
        self._holder.wait()
        for program in self._programs:
            program.wait(10)
        for group in CGROUPS.iterdir():
            remove_groups(group / self._group)
        shutil.rmtree(self.folder)


def remove_groups(group: Path) -> None:
    """Empty control groups; the kernel has noticed soon that their processes are gone."""
    for path in sorted(group.rglob("*"), reverse=True):
        if path.is_dir():
            until(lambda path=path: removed(path), f"to remove {path}", 10)
    if group.is_dir():
        until(lambda: removed(group), f"to remove {group}", 10)


def removed(group: Path) -> bool:
    """Whether it is gone now."""
    try:
        group.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True
