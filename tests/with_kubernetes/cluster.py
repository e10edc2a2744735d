"""A Kubernetes cluster of one node, for tests: what scripts/install_kubernetes.sh has built, in namespaces of its own.

All of it, pods included, lives in a process namespace whose first process does nothing: when that is killed, which
happens at the latest when the test ends, nothing is left of processes, mounts, networks and sockets. What remains is a
folder of this tree and empty control groups, which `end` removes.

Needs the rights of root.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import images
import namespaces
import processes

ROOT = processes.ROOT
INSTALLED = ROOT / ".deps" / "kubernetes"
KUBECTL = ROOT / ".deps" / "kubectl" / "usr" / "bin" / "kubectl"
CGROUPS = Path("/sys/fs/cgroup")
CGROUP = "farandole-test"
ADDRESS, SERVICES, NAMES = "10.77.0.1", "10.96.0.0/16", "cluster.local"
API = "https://127.0.0.1:16443"
PAUSE = "localhost/pause:1"
START_S = 120.0
# The whole life of the cluster. Folders of the machine that its programs write to become empty ones of their own.
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
ip link add cni0 type bridge && ip addr add 10.77.0.1/16 dev cni0 && ip link set cni0 up
ip route add default via 10.77.0.1 dev cni0
echo ready
exec sleep infinity
"""
CONTAINERD = """version = 2
root = "{folder}/containerd/root"
state = "/run/containerd/state"
[grpc]
  address = "/run/containerd/containerd.sock"
[plugins."io.containerd.internal.v1.opt"]
  path = "{folder}/containerd/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  disable_apparmor = true
  restrict_oom_score_adj = true
  disable_tcp_service = true
  stream_server_address = "127.0.0.1"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{root}/usr/lib/cni"
    conf_dir = "{folder}/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      BinaryName = "{root}/usr/sbin/runc"
      Root = "/run/runc"
"""
CNI = {
    "cniVersion": "0.4.0",
    "name": "pods",
    "plugins": [
        {
            "type": "bridge",
            "bridge": "cni0",
            "isGateway": True,
            "isDefaultGateway": True,
            "ipMasq": False,
            "hairpinMode": True,
            "ipam": {
                "type": "host-local",
                "dataDir": "/run/cni-addresses",
                "ranges": [[{"subnet": "10.77.0.0/16", "rangeStart": "10.77.1.1", "rangeEnd": "10.77.1.250"}]],
            },
        }
    ],
}
KUBELET = {
    "apiVersion": "kubelet.config.k8s.io/v1beta1",
    "kind": "KubeletConfiguration",
    "cgroupDriver": "cgroupfs",
    "cgroupRoot": f"/{CGROUP}",
    "failSwapOn": False,
    "makeIPTablesUtilChains": False,
    "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
    "authorization": {"mode": "AlwaysAllow"},
    "healthzPort": 0,
    "readOnlyPort": 0,
    "clusterDomain": NAMES,
    "clusterDNS": [ADDRESS],
    "resolvConf": "/dev/null",
    "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
    "imageGCHighThresholdPercent": 100,
    "serializeImagePulls": False,
    "enforceNodeAllocatable": ["pods"],
    "nodeStatusUpdateFrequency": "4s",
}
PROXY = {
    "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
    "kind": "KubeProxyConfiguration",
    "mode": "iptables",
    "clusterCIDR": "10.77.0.0/16",
    "hostnameOverride": "n1",
    "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
    "healthzBindAddress": "127.0.0.1:10256",
    "metricsBindAddress": "127.0.0.1:10249",
}


def why_not() -> str:
    """Why there can be no cluster here; empty if there can."""
    if os.geteuid() != 0:
        return "a cluster needs root"
    if not (INSTALLED / "bin" / "kubelet").exists():
        return "scripts/install_kubernetes.sh has not been run"
    return namespaces.why_not()


def until(done: Callable[[], Any], what: str, seconds: float = START_S, every: float = 0.2) -> Any:
    """What `done` returns, once it is true. Raises TimeoutError."""
    end = time.monotonic() + seconds
    while not (found := done()):
        if time.monotonic() > end:
            raise TimeoutError(f"{what}: not within {seconds:.0f} s")
        time.sleep(every)
    return found


class Cluster:
    """Starts it; ready when the node is.

    Args:
        folder: for logs, the database and images; everything in it goes at the end but the logs.
    """

    def __init__(self, folder: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        self.folder = folder
        self.logs = folder / "logs"
        self.logs.mkdir()
        self._config = folder / "admin.conf"
        self._programs: dict[str, subprocess.Popen[bytes]] = {}
        unshare = ["unshare", "--mount", "--net", "--pid", "--uts", "--ipc", "--fork", "--kill-child", "--mount-proc"]
        self._first = subprocess.Popen(
            [*unshare, "sh", "-ec", BEGIN], stdout=subprocess.PIPE, preexec_fn=namespaces.die_with_the_test
        )
        try:
            assert self._first.stdout is not None
            if self._first.stdout.readline() != b"ready\n":
                raise RuntimeError("no namespaces for a cluster; it says why above")
            # `unshare` has forked: the first process of the namespaces is its child.
            children = Path(f"/proc/{self._first.pid}/task/{self._first.pid}/children").read_text()
            self._pid = int(children.split()[0])
            self._start()
        except BaseException:
            self.end()
            raise

    def _start(self) -> None:
        self._write_files()
        self._begin_api()
        self._begin("kube-controller-manager", *self._controller_manager())
        self._begin("kube-scheduler", f"--kubeconfig={self._config}", "--leader-elect=false")
        self._begin("containerd", f"--config={self.folder}/containerd.toml")
        self._begin("kube-proxy", f"--config={self.folder}/proxy.json")
        names = [
            "--keep-in-foreground",
            "--no-resolv",
            "--no-hosts",
            f"--hostsdir={self.folder}/names",
            "--user=root",
        ]
        self._begin("dnsmasq", *names, f"--listen-address={ADDRESS}", "--bind-interfaces", f"--local=/{NAMES}/")
        until(lambda: self._ctr_answers(), "containerd")
        self.load(images.pause(self.folder, PAUSE, INSTALLED / "root" / "bin" / "busybox"))
        for group in CGROUPS.iterdir():
            if (group / "tasks").exists():
                (group / CGROUP).mkdir(exist_ok=True)
        self._begin("kubelet", *self._kubelet())
        until(self._node_is_ready, "the node")

    def _write_files(self) -> None:
        (self.folder / "containerd.toml").write_text(
            CONTAINERD.format(folder=self.folder, root=INSTALLED / "root", pause=PAUSE)
        )
        (self.folder / "cni").mkdir()
        (self.folder / "cni" / "10-pods.conflist").write_text(json.dumps(CNI))
        (self.folder / "kubelet.json").write_text(json.dumps(KUBELET))
        (self.folder / "proxy.json").write_text(
            json.dumps({**PROXY, "clientConnection": {"kubeconfig": str(self._config)}})
        )
        (self.folder / "names").mkdir()
        (self.folder / "bin").mkdir()
        # What Debian's package would link when it is installed.
        for family in ("iptables", "ip6tables"):
            for name in (family, f"{family}-save", f"{family}-restore"):
                (self.folder / "bin" / name).symlink_to(INSTALLED / "root" / "usr" / "sbin" / "xtables-legacy-multi")
        self._make_certificates()
        cluster = {"server": API, "certificate-authority": str(self.folder / "ca.crt")}
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
        names = f"subjectAltName=IP:127.0.0.1,IP:{ADDRESS},IP:10.96.0.1,DNS:kubernetes.default,DNS:localhost"
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
        self._begin(
            "etcd",
            f"--data-dir={self.folder}/etcd",
            f"--listen-client-urls={etcd}",
            f"--advertise-client-urls={etcd}",
            f"--listen-peer-urls={peers}",
            f"--initial-advertise-peer-urls={peers}",
            f"--initial-cluster=default={peers}",
            "--unsafe-no-fsync",
        )
        self._begin(
            "kube-apiserver",
            f"--etcd-servers={etcd}",
            "--secure-port=16443",
            "--bind-address=0.0.0.0",
            f"--advertise-address={ADDRESS}",
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
        until(lambda: self.kubectl("get", "--raw", "/readyz", check=False).returncode == 0, "the API server")

    def _controller_manager(self) -> list[str]:
        return [
            f"--kubeconfig={self._config}",
            f"--service-account-private-key-file={self.folder}/accounts.key",
            f"--root-ca-file={self.folder}/ca.crt",
            "--leader-elect=false",
            # Of Jobs its successor has other ideas: indexed_jobs.py.
            "--controllers=*,-job,-ttl,-cloud-node-lifecycle,-route,-service",
        ]

    def _kubelet(self) -> list[str]:
        return [
            f"--config={self.folder}/kubelet.json",
            f"--kubeconfig={self._config}",
            "--hostname-override=n1",
            f"--node-ip={ADDRESS}",
            "--container-runtime=remote",
            "--container-runtime-endpoint=unix:///run/containerd/containerd.sock",
        ]

    def _begin(self, program: str, *words: str) -> None:
        with (self.logs / f"{program}.log").open("wb") as log:
            self._programs[program] = subprocess.Popen(
                self._inside(program, *words), stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )

    def _inside(self, *words: str) -> list[str]:
        """A command in the cluster's namespaces, with its programs on the PATH."""
        root = INSTALLED / "root"
        path = [
            self.folder / "bin",
            INSTALLED / "bin",
            *(root / folder for folder in ("usr/bin", "usr/sbin", "bin", "sbin")),
        ]
        libraries = f"{root}/usr/lib/x86_64-linux-gnu:{root}/lib/x86_64-linux-gnu"
        settings = [
            f"PATH={':'.join(map(str, path))}:/usr/sbin:/usr/bin:/sbin:/bin",
            f"LD_LIBRARY_PATH={libraries}",
            f"XTABLES_LIBDIR={root}/usr/lib/x86_64-linux-gnu/xtables",
            f"KUBECONFIG={self._config}",
            "HOME=/run",
        ]
        enter = ["nsenter", "-t", str(self._pid), "--mount", "--net", "--pid", "--uts", "--ipc"]
        return [*enter, "env", "-i", *settings, *words]

    def run(self, *words: str, check: bool = True, timeout: float = 60.0) -> subprocess.CompletedProcess[str]:
        """A command in the cluster's namespaces. Raises RuntimeError with what it said if it fails."""
        done = subprocess.run(self._inside(*words), capture_output=True, text=True, timeout=timeout)
        if check and done.returncode:
            raise RuntimeError(f"{' '.join(words)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
        return done

    def python(self, *words: str, **extra: Any) -> subprocess.Popen[str]:
        """A process of this Python with this tree's package, in the cluster's network."""
        paths = f"PYTHONPATH={ROOT}/python:{ROOT}/tests"
        return subprocess.Popen(self._inside("env", paths, sys.executable, *words), text=True, **extra)

    def name_when_there(self, namespace: str, service: str) -> None:
        """Waits for a Service, and gives it its name."""
        until(lambda: self.kubectl("get", "service", "-n", namespace, service, check=False).returncode == 0, service)
        self.name_services()

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

    def load(self, archive: Path) -> None:
        """An image of a file, as `docker save` makes them."""
        address = ["--address", "/run/containerd/containerd.sock", "--namespace", "k8s.io"]
        self.run("ctr", *address, "images", "import", str(archive), timeout=300)

    def name_services(self) -> None:
        """Gives the Services that there are their names. A cluster does so by itself; this one when it is asked to."""
        lines = []
        for service in self.get("services", "--all-namespaces")["items"]:
            address, about = service["spec"]["clusterIP"], service["metadata"]
            if address != "None":
                lines.append(f"{address} {about['name']}.{about['namespace']}.svc.{NAMES}\n")
        # dnsmasq reads what is new in the folder, and keeps what was there.
        (self.folder / "names" / f"{time.monotonic_ns()}").write_text("".join(lines))

    def _ctr_answers(self) -> bool:
        return self.run("ctr", "--address", "/run/containerd/containerd.sock", "version", check=False).returncode == 0

    def _node_is_ready(self) -> bool:
        nodes = self.get("nodes")["items"]
        return any(c["type"] == "Ready" and c["status"] == "True" for n in nodes for c in n["status"]["conditions"])

    def end(self) -> None:
        """Nothing is left of it but its logs."""
        self._first.kill()
        self._first.wait()
        for program in self._programs.values():
            program.wait(10)
        for group in CGROUPS.iterdir():
            remove_groups(group / CGROUP)
        for path in self.folder.iterdir():
            if path != self.logs:
                shutil.rmtree(path) if path.is_dir() else path.unlink()


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


def logs_of(cluster: Cluster, names: Sequence[str]) -> str:
    """The ends of what programs have said, for a failed test."""
    return "".join(f"--- {name}\n{(cluster.logs / f'{name}.log').read_text()[-3000:]}" for name in names)
