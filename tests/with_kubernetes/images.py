"""Images for the cluster of the tests: ours, made anew when what they are made of has changed, and that of a pod's
namespaces."""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import sys
import tarfile
from pathlib import Path

import processes

ROOT = processes.ROOT
OUT = ROOT / "build" / "images"
MADE_OF = ("deploy/images", "scripts/build_images.py", "build/wheel/dist")


def ours(*names: str) -> list[Path]:
    """Archives of images of scripts/build_images.py."""
    wanted = hashlib.sha256()
    for place in MADE_OF:
        for path in sorted((ROOT / place).rglob("*") if (ROOT / place).is_dir() else [ROOT / place]):
            if path.is_file():
                wanted.update(path.read_bytes())
    archives = [OUT / f"{name}.tar" for name in names]
    missing = []
    for name, archive in zip(names, archives):
        mark = archive.with_suffix(".sum")
        if not archive.exists() or not mark.exists() or mark.read_text() != wanted.hexdigest():
            missing.append(name)
    if missing:
        subprocess.run([sys.executable, str(ROOT / "scripts" / "build_images.py"), *missing], check=True)
    for name in missing:
        (OUT / f"{name}.sum").write_text(wanted.hexdigest())
    return archives


def pause(folder: Path, name: str, busybox: Path) -> Path:
    """An image that does nothing, as `docker save` would write it: the kubelet wants one for each pod's namespaces."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        add(tar, "bin/busybox", busybox.read_bytes(), 0o755)
    digest = hashlib.sha256(layer.getvalue()).hexdigest()
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Entrypoint": ["/bin/busybox", "sleep", "infinity"]},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
    }
    text = json.dumps(config).encode()
    config_name = f"{hashlib.sha256(text).hexdigest()}.json"
    manifest = [{"Config": config_name, "RepoTags": [name], "Layers": [f"{digest}/layer.tar"]}]
    path = folder / "pause.tar"
    with tarfile.open(path, "w") as archive:
        for entry, data in (
            (config_name, text),
            (f"{digest}/layer.tar", layer.getvalue()),
            ("manifest.json", json.dumps(manifest).encode()),
        ):
            add(archive, entry, data, 0o644)
    return path


def add(tar: tarfile.TarFile, name: str, data: bytes, mode: int) -> None:
    """A file in an archive."""
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(data), mode
    tar.addfile(entry, io.BytesIO(data))
