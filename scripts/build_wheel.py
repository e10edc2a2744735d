"""Writes two wheels to build/wheel/dist: farandole, and farandole-horovod, which gives it Horovod's names (alias/).

The first holds the Python package, libfarandole.so, and the executables with what they need; the second is pure Python.

The executables bring Debian's gRPC, protobuf and abseil; auditwheel copies those beside them under names of their own
and computes the platform tag. Everything that is checked here stays checked: a wheel that does not hold the promises of
docs/decisions is not written. What `pip install .` makes, for this machine alone, is build_backend.py's.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
import zipfile
from pathlib import Path

from archive import moment_s, write_wheel
from build_backend import PLAIN_TAG
from project import ALIAS, FARANDOLE, ROOT
from stage import (
    CARRIED_PACKAGES,
    COMPILED_IN_PACKAGES,
    PLATFORM_PACKAGES,
    packages_of,
    run,
    shared_libraries,
    stage_alias,
    stage_package,
)

OUT = ROOT / "build" / "wheel"
# glibc 2.34: the floor of docs/architecture.md.
GLIBC_FLOOR = (2, 34)


def carried_packages(executables: list[Path]) -> dict[str, set[str]]:
    """Debian packages whose libraries go into the wheel, each with the sonames."""
    libraries = {item for executable in executables for item in shared_libraries(executable).items()}
    owners = packages_of(path for _, path in libraries)
    packages: dict[str, set[str]] = {}
    for soname, path in libraries:
        if owners[path] not in PLATFORM_PACKAGES:
            packages.setdefault(owners[path], set()).add(soname)
    return packages


def repair(plain: Path, carried: set[str]) -> Path:
    """Lets auditwheel carry the libraries and compute the tag; checks what came out instead of believing it."""
    dist = OUT / "dist"
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    run(sys.executable, "-m", "auditwheel", "repair", "--only-plat", "-w", dist, plain, env=environment)
    (wheel,) = dist.glob("*.whl")
    with zipfile.ZipFile(wheel) as file:
        grafted = {Path(n).name for n in file.namelist() if n.startswith("farandole.libs/") and ".so" in n}
    # libgrpc-0a1b2c3d.so.29 -> libgrpc.so.29; the digits behind depend on the link's target.
    stems = {re.sub(r"-[0-9a-f]{8}(?=\.so)", "", name).split(".so")[0] for name in grafted}
    wanted = {re.sub(r"-[\d.]+$", "", name.split(".so")[0]) for name in carried}
    if {re.sub(r"-[\d.]+$", "", s) for s in stems} != wanted:
        raise SystemExit(f"build_wheel: carried {sorted(stems)}, wanted {sorted(wanted)}")
    tag = re.search(r"-py3-none-manylinux_(\d+)_(\d+)_", wheel.name)
    if not tag or (int(tag.group(1)), int(tag.group(2))) > GLIBC_FLOOR:
        raise SystemExit(f"build_wheel: {wheel.name} needs more than glibc {GLIBC_FLOOR[0]}.{GLIBC_FLOOR[1]}")
    return wheel


def write_alias() -> Path:
    """The wheel farandole-horovod."""
    stage = OUT / "alias"
    stage_alias(stage)
    ALIAS.write_dist_info(stage, "py3-none-any", [])
    wheel = OUT / "dist" / f"{ALIAS.stem}-py3-none-any.whl"
    write_wheel(stage, wheel)
    return wheel


def made_of(plain: Path) -> str:
    """A sum of all that `repair` makes the wheel of: the libraries that it carries are this machine's."""
    parts = [plain.read_bytes(), Path(__file__).read_bytes(), run("dpkg-query", "-W").encode()]
    return hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()


def main() -> int:
    """Builds the wheels from bazel-bin, or keeps those that are there, and prints their paths and sizes."""
    stage, dist, mark = OUT / "stage", OUT / "dist", OUT / "made_of"
    for folder in (stage, OUT / "alias", OUT / "plain"):
        shutil.rmtree(folder, ignore_errors=True)
    stage.mkdir(parents=True)
    # The same commit gives the same bytes; auditwheel wants to be told.
    os.environ["SOURCE_DATE_EPOCH"] = str(moment_s())
    packages = carried_packages(stage_package(stage))
    FARANDOLE.write_dist_info(stage, PLAIN_TAG, sorted({*packages, *COMPILED_IN_PACKAGES, *CARRIED_PACKAGES}))
    plain = OUT / "plain" / f"{FARANDOLE.stem}-{PLAIN_TAG}.whl"
    plain.parent.mkdir()
    write_wheel(stage, plain)
    wanted = made_of(plain)
    if not mark.exists() or mark.read_text() != wanted or len(list(dist.glob("*.whl"))) != 2:
        mark.unlink(missing_ok=True)
        shutil.rmtree(dist, ignore_errors=True)
        repair(plain, set().union(*packages.values()))
    write_alias()
    mark.write_text(wanted)
    for wheel in sorted(dist.glob("*.whl")):
        print(f"{wheel.relative_to(ROOT)}: {wheel.stat().st_size / 2**20:.2f} MiB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
