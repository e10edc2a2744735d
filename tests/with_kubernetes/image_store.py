"""Images as containerd has them, unpacked once for all nodes of all runs: what a node begins with shares their files.

Nobody writes to an unpacked layer or to a blob, so that nodes have links to them; the databases alone are copied.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path

from node import ROOT, Node, until

STORE = ROOT / "build" / "kubernetes-images"
SOCKET = "/run/containerd/store.sock"
# Of containerd's folder.
LAYERS = "io.containerd.snapshotter.v1.overlayfs/snapshots"
BLOBS = "io.containerd.content.v1.content/blobs"
DATABASES = ("io.containerd.snapshotter.v1.overlayfs/metadata.db", "io.containerd.metadata.v1.bolt/meta.db")


def fill(node: Node, archives: list[Path]) -> None:
    """Has the store hold these images and no others, with a containerd that runs for this alone."""
    wanted = hashlib.sha256()
    for archive in archives:
        with archive.open("rb") as file:
            while block := file.read(1 << 20):
                wanted.update(block)
    mark = STORE / "sum"
    if mark.exists() and mark.read_text() == wanted.hexdigest():
        return
    shutil.rmtree(STORE, ignore_errors=True)
    STORE.mkdir(parents=True)
    config = node.containerd_file("store", STORE / "root", SOCKET)
    containerd = subprocess.Popen(node.inside("containerd", f"--config={config}"), stderr=subprocess.DEVNULL)
    try:
        until(lambda: node.ctr_answers(SOCKET), "containerd of the store")
        for archive in archives:
            words = ("--address", SOCKET, "--namespace", "k8s.io", "images", "import", str(archive))
            node.run("ctr", *words, timeout=300)
    finally:
        # nsenter has forked, and would not pass a signal on.
        child = Path(f"/proc/{containerd.pid}/task/{containerd.pid}/children").read_text().split()
        subprocess.run(["kill", *child], check=True)
        containerd.wait(30)
    mark.write_text(wanted.hexdigest())


def give(folder: Path) -> None:
    """Makes a containerd's folder with all that the store holds."""
    root = STORE / "root"
    (folder / LAYERS).mkdir(parents=True)
    for layer in (root / LAYERS).iterdir():
        (folder / LAYERS / layer.name).symlink_to(layer)
    (folder / BLOBS).parent.mkdir()
    subprocess.run(["cp", "-al", root / BLOBS, folder / BLOBS], check=True)
    for database in DATABASES:
        (folder / database).parent.mkdir(exist_ok=True)
        shutil.copyfile(root / database, folder / database)
