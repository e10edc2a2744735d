"""Hosts that are network namespaces with an sshd each. Keys, configuration and known hosts are the test's own."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import namespaces

START_S = 20.0


def why_not() -> str:
    """Why there can be no such hosts here; empty if there can."""
    for program in ("sshd", "ssh", "ssh-keygen"):
        if shutil.which(program, path="/usr/sbin:/usr/bin:/sbin:/bin") is None:
            return f"no {program}: scripts/install_deps.sh installs it"
    return namespaces.why_not()


@dataclass
class SshHosts:
    """The launcher's host is number 0; node1, node2, ... have an sshd each.

    Attributes:
        network: all hosts.
        ssh: for FARANDOLE_SSH.
        own: a folder that is another one on each of the nodes.
    """

    network: namespaces.Network
    ssh: str
    own: Path

    def launch(self, *arguments: str) -> list[str]:
        """`farandole run` on the launcher's host, as a command."""
        return self.network.hosts[0].command(sys.executable, "-m", "farandole", "run", *arguments)

    def files(self, node: str) -> str:
        """What lies in `own` on a node, a name a line."""
        command = self.network.hosts[0].command(*self.ssh.split(), node, "ls", str(self.own))
        return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=START_S).stdout


def _key(path: Path) -> str:
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(path)]
    subprocess.run(command, check=True, capture_output=True, timeout=START_S)
    return path.with_suffix(".pub").read_text().strip()


def _start_sshd(host: namespaces.Namespace, name: str, config: Path, log: Path, own: Path) -> subprocess.Popen:
    # Folders that are gone with the daemon, one of them for privilege separation, and a name of its own.
    script = (
        f"mount -t tmpfs none {own} && mount -t tmpfs none /run && mkdir /run/sshd && hostname {name} && "
        f"exec /usr/sbin/sshd -D -e -f {config}"
    )
    with log.open("wb") as err:
        return subprocess.Popen(
            host.command("unshare", "-m", "-u", "sh", "-c", script),
            stdin=subprocess.DEVNULL,
            stderr=err,
            preexec_fn=namespaces.die_with_the_test,
        )


def _wait_for(log: Path, daemon: subprocess.Popen) -> None:
    deadline = time.monotonic() + START_S
    while "Server listening" not in log.read_text():
        assert daemon.poll() is None and time.monotonic() < deadline, log.read_text()
        time.sleep(0.02)


@contextmanager
def ssh_hosts(folder: Path, nodes: int) -> Iterator[SshHosts]:
    """So many hosts besides the launcher's."""
    place = folder / "ssh"
    own = folder / "own"
    place.mkdir(mode=0o700)
    own.mkdir()
    (place / "authorized").write_text(_key(place / "user") + "\n")
    (place / "sshd_config").write_text(
        f"HostKey {place}/host\nAuthorizedKeysFile {place}/authorized\nStrictModes no\nUsePAM no\nPidFile none\n"
        "PermitRootLogin prohibit-password\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n"
    )
    host_key = _key(place / "host")
    addresses = [namespaces.Network.address(node) for node in range(1, nodes + 1)]
    (place / "known").write_text("".join(f"{address} {host_key}\n" for address in addresses))
    common = f"UserKnownHostsFile {place}/known\nGlobalKnownHostsFile none\nStrictHostKeyChecking yes\n"
    common += f"IdentityFile {place}/user\nIdentitiesOnly yes\n"
    named = "".join(f"Host node{node}\n  HostName {address}\n" for node, address in enumerate(addresses, 1))
    (place / "ssh_config").write_text(f"{named}Host *\n{common}")
    with ExitStack() as stack:
        network = namespaces.Network(nodes + 1)
        stack.callback(network.end)
        daemons = []
        for node in range(1, nodes + 1):
            log = place / f"sshd{node}.log"
            daemon = _start_sshd(network.hosts[node], f"node{node}", place / "sshd_config", log, own)
            stack.callback(daemon.wait)
            stack.callback(daemon.kill)
            daemons.append((log, daemon))
        for log, daemon in daemons:
            _wait_for(log, daemon)
        yield SshHosts(network, f"ssh -F {place}/ssh_config", own)
