"""Images as containerd has them, unpacked once for all nodes of all runs: what a node begins with shares their files.

Nobody writes to an unpacked layer or to a blob, so that nodes have links to them; the databases alone are copied, into
memory: containerd waits for the disk with each of its changes, of which a pod takes dozens.
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
from pathlib import Path
from typing import IO

from node import ROOT, Node, until

STORE = ROOT / "build" / "kubernetes-images"
SOCKET = "/run/containerd/store.sock"
# Of containerd's folder.
LAYERS = "io.containerd.snapshotter.v1.overlayfs/snapshots"
BLOBS = "io.containerd.content.v1.content/blobs"
DATABASES = ("io.containerd.snapshotter.v1.overlayfs/metadata.db", "io.containerd.metadata.v1.bolt/meta.db")


def hold(node: Node, archives: list[Path]) -> IO[str]:
    """Has the store hold these images and no others until the file is closed.

    Raises:
        RuntimeError: it holds others, for a cluster of this tree that runs.
    """
    STORE.parent.mkdir(exist_ok=True)
    file = STORE.with_suffix(".lock").open("w")
    until(lambda: locked(file, fcntl.LOCK_SH), "the images, which another cluster unpacks")
    wanted = hashlib.sha256()
    for archive in archives:
        with archive.open("rb") as content:
            while block := content.read(1 << 20):
                wanted.update(block)
    mark = STORE / "sum"
    if not mark.exists() or mark.read_text() != wanted.hexdigest():
        if not locked(file, fcntl.LOCK_EX):
            file.close()
            raise RuntimeError(f"a cluster that runs has other images of {STORE}: end it before this one begins")
        fill(node, archives)
        mark.write_text(wanted.hexdigest())
        fcntl.flock(file, fcntl.LOCK_SH)
    return file


def locked(file: IO[str], kind: int) -> bool:
    """Whether nobody else holds it in a way that excludes this kind."""
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def fill(node: Node, archives: list[Path]) -> None:
    """With a containerd that runs for this alone."""
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


def give(folder: Path) -> None:
    """Makes a containerd's folder with all that the store holds; it may be on another file system."""
    root = STORE / "root"
    (folder / LAYERS).mkdir(parents=True)
    for layer in (root / LAYERS).iterdir():
        (folder / LAYERS / layer.name).symlink_to(layer)
    (folder / BLOBS).parent.mkdir()
    subprocess.run(["cp", "-as", root / BLOBS, folder / BLOBS], check=True)
    for database in DATABASES:
        (folder / database).parent.mkdir(exist_ok=True)
        shutil.copyfile(root / database, folder / database)
