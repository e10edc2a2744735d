"""Writes archives that are the same, byte for byte, whenever their files are."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import os
import subprocess
import tarfile
import time
import zipfile
from pathlib import Path

from project import ROOT

# The first moment that a zip file can tell.
EARLIEST_S = 315532800


def moment_s() -> int:
    """The time of every file: SOURCE_DATE_EPOCH, or that of the last commit, in seconds since 1970."""
    if given := os.environ.get("SOURCE_DATE_EPOCH"):
        return max(EARLIEST_S, int(given))
    if not (ROOT / ".git").exists():
        return EARLIEST_S
    log = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True)
    return max(EARLIEST_S, int(log.stdout.strip() or 0))


def write_wheel(stage: Path, wheel: Path) -> None:
    """Packs all that lies below `stage`, the list of its files included."""
    (info,) = stage.glob("*.dist-info")
    record = info / "RECORD"
    files = sorted(p for p in stage.rglob("*") if p.is_file())
    lines = [_record_line(file.relative_to(stage).as_posix(), file.read_bytes()) for file in files]
    record.write_text("".join([*lines, f"{record.relative_to(stage)},,\n"]))
    moment = time.gmtime(moment_s())[:6]
    with zipfile.ZipFile(wheel, "w") as archive:
        # Readers want what describes the wheel at its end.
        for file in sorted([*files, record], key=lambda p: (info in p.parents, p)):
            entry = zipfile.ZipInfo(file.relative_to(stage).as_posix(), moment)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o100755 if os.access(file, os.X_OK) else 0o100644) << 16
            archive.writestr(entry, file.read_bytes())


def _record_line(name: str, content: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(content)}\n"


def write_source(files: list[Path], stem: str, metadata: str, archive: Path) -> None:
    """Packs `files` of the tree, and `metadata` as PKG-INFO, into a .tar.gz whose only folder is `stem`."""
    contents = {f.relative_to(ROOT).as_posix(): (f.read_bytes(), f.stat().st_mode & 0o777) for f in files}
    contents["PKG-INFO"] = (metadata.encode(), 0o644)
    moment = moment_s()
    with gzip.GzipFile(archive, "wb", mtime=moment) as zipped, tarfile.open(fileobj=zipped, mode="w") as tar:
        for name, (content, mode) in sorted(contents.items()):
            entry = tarfile.TarInfo(f"{stem}/{name}")
            entry.size, entry.mode, entry.mtime = len(content), mode, moment
            tar.addfile(entry, io.BytesIO(content))
