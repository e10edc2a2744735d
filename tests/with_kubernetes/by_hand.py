"""`make cluster`: the cluster of the tests, to try the commands of docs/kubernetes.md by hand.

It runs as long as a shell in its network does, or the command that the arguments say; the exit code is that one's.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import images
import substitutes
from cluster import KUBECTL, Cluster, why_not
from node import ROOT

FOLDER = ROOT / "build" / "cluster"
# As docs/kubernetes.md names them.
IMAGES = ("controller", "worker-examples")
LOOK_S = 1.0
# Of this machine's 127.0.0.1: leads to the same one in the shell, for the page of the dashboard.
PORT = 8400


def name_services(cluster: Cluster, over: threading.Event) -> None:
    """Names of Services that are made come soon, as in any cluster."""
    known = ""
    while not over.wait(LOOK_S):
        found = cluster.kubectl("get", "services", "-A", "-o", "name", check=False).stdout
        if found != known:
            cluster.name_services()
            known = found


def forward(cluster: Cluster) -> subprocess.Popen[bytes]:
    """Ends when its stdin is closed."""
    with socket.create_server(("127.0.0.1", PORT)) as listener:
        enter = ["nsenter", "-t", str(cluster.nodes[0].pid), "--net"]
        words = [sys.executable, str(Path(__file__).with_name("port.py")), str(listener.fileno()), str(PORT)]
        return subprocess.Popen([*enter, *words], stdin=subprocess.PIPE, pass_fds=[listener.fileno()])


def inside(cluster: Cluster, words: list[str]) -> list[str]:
    """A command that sees the cluster, and this tree's programs."""
    path = f"PATH={Path(sys.executable).parent}:{KUBECTL.parent}:{os.environ['PATH']}"
    kept = [f"{name}={os.environ[name]}" for name in ("HOME", "LANG", "TERM") if name in os.environ]
    own = ["PS1=[cluster] \\w\\$ ", "env", "-u", "LD_LIBRARY_PATH", "-C", os.getcwd()]
    return cluster.nodes[0].inside("env", path, *kept, *own, *words)


def main(words: list[str]) -> int:
    """Returns the exit code."""
    if reason := why_not():
        print(f"cluster: {reason}", file=sys.stderr)
        return 1
    cluster = Cluster(FOLDER, images.ours(*IMAGES))
    over = threading.Event()
    names = threading.Thread(target=name_services, args=(cluster, over))
    way = None
    try:
        substitutes.begin(cluster)
        names.start()
        way = forward(cluster)
        if not words:
            print(
                f"A cluster of {len(cluster.nodes)} nodes, which have the images of {', '.join(IMAGES)}. In this shell "
                f"kubectl and farandole speak to it, and its 127.0.0.1:{PORT} is that of this machine; with the shell "
                "it ends.",
                flush=True,
            )
        return subprocess.run(inside(cluster, words or ["bash", "--norc", "--noprofile"])).returncode
    finally:
        over.set()
        if way is not None:
            way.communicate()
        if names.is_alive():
            names.join()
        cluster.end()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
