"""Lays out what a wheel of the tree holds: the Python package and what Bazel has compiled, beside it.

The library needs nothing but libc and its kin; that is checked here, for every wheel.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from project import ROOT

EXECUTABLES = ("controller/farandole-controller", "agent/farandole-agent", "perf/farandole-perf")
# Ours, and what frameworks call.
LIBRARIES = (
    "frameworks/libfarandole.so",
    "frameworks/jax/libfarandole_jax.so",
    "frameworks/mxnet/libfarandole_mxnet.so",
    "frameworks/tensorflow/libfarandole_tensorflow.so",
    "frameworks/torch/libfarandole_torch.so",
)
# The platform's own; every manylinux policy has them. All else is carried, or has to be installed.
PLATFORM_PACKAGES = ("libc6", "libgcc-s1", "libstdc++6", "zlib1g")
# Compiled or linked statically into what is shipped; their licences go along.
COMPILED_IN_PACKAGES = ("libabsl-dev", "libprotozero-dev", "libsodium-dev")
# Shipped as it is: what draws the dashboard's curves.
CARRIED_PACKAGES = ("libjs-chart.js",)
# Of the examples the one that goes with the .proto files.
QUERY_EXAMPLE = "query_controller.py"
NOT_SHIPPED = shutil.ignore_patterns("__pycache__", "*_test.py")


def run(*command: str | Path, **extra: object) -> str:
    """Standard output of a command that must succeed."""
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, **extra)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}:\n{done.stdout}{done.stderr}")
    return done.stdout


def shared_libraries(file: Path) -> dict[str, Path]:
    """Soname and path of everything that the loader would map for `file`."""
    lines = run("ldd", file).splitlines()
    if missing := [line for line in lines if "not found" in line]:
        raise SystemExit(f"{file} lacks {missing}")
    return {m.group(1): Path(m.group(2)) for line in lines if (m := re.match(r"\s*(\S+) => (/\S+)", line))}


def packages_of(libraries: Iterable[Path]) -> dict[Path, str]:
    """The Debian package that each of these belongs to."""
    names = {each: (str(each), str(each.resolve()), f"/usr{each}") for each in libraries}
    # All at once, as each question takes a tenth of a second. What it does not know it says on stderr.
    asked = sorted({name for several in names.values() for name in several})
    answer = subprocess.run(["dpkg", "-S", *asked], capture_output=True, text=True).stdout
    owners = {path: package for package, path in re.findall(r"^([\w.+-]+)[^\n]*: (/[^\n]*)$", answer, re.M)}
    found = {}
    for library, several in names.items():
        package = next((owners[name] for name in several if name in owners), None)
        if package is None:
            raise SystemExit(f"{library} belongs to no Debian package, so its licence is unknown")
        found[library] = package
    return found


def stage_package(stage: Path) -> list[Path]:
    """Copies the package and the compiled files; returns the executables."""
    package = stage / "farandole"
    shutil.copytree(ROOT / "python" / "farandole", package, ignore=NOT_SHIPPED)
    shutil.copytree(ROOT / "proto" / "farandole", package / "protos" / "farandole")
    (package / "examples").mkdir()
    shutil.copy(ROOT / "examples" / QUERY_EXAMPLE, package / "examples")
    (package / "lib").mkdir()
    (package / "bin").mkdir()
    built = {name: ROOT / "bazel-bin" / name for name in (*LIBRARIES, *EXECUTABLES)}
    for name, file in built.items():
        target = package / ("lib" if name in LIBRARIES else "bin") / Path(name).name
        run("strip", "--strip-unneeded", "-o", target, file)
        target.chmod(0o755)
    for library in (package / "lib").iterdir():
        foreign = set(packages_of(shared_libraries(library).values()).values())
        if not foreign <= set(PLATFORM_PACKAGES):
            raise SystemExit(f"{library.name} depends on {foreign}; nothing may enter the user's process with it")
    return [package / "bin" / Path(name).name for name in EXECUTABLES]


def stage_alias(stage: Path) -> None:
    """Copies Horovod's names."""
    shutil.copytree(ROOT / "alias" / "horovod", stage / "horovod", ignore=NOT_SHIPPED)
