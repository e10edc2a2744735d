"""Writes two wheels to build/wheel/dist: farandole, and farandole-horovod, which gives it Horovod's names (alias/).

The first holds the Python package, libfarandole.so, and the executables with what they need; the second is pure Python.

The library needs nothing but libc and its kin. The executables bring Debian's gRPC, protobuf and abseil; auditwheel
copies those beside them under names of their own and computes the platform tag. Everything that is checked here stays
checked: a wheel that does not hold the promises of docs/decisions is not written.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from wheel.wheelfile import WheelFile

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "build" / "wheel"
EXECUTABLES = ("controller/farandole-controller", "agent/farandole-agent", "perf/farandole-perf")
LIBRARY = "frameworks/libfarandole.so"
# The platform's own; every manylinux policy has them. All else is carried.
PLATFORM_PACKAGES = ("libc6", "libgcc-s1", "libstdc++6", "zlib1g")
# Compiled or linked statically into what is shipped; their licences go along.
COMPILED_IN_PACKAGES = ("libabsl-dev", "libprotozero-dev", "libsodium-dev")
# glibc 2.34: the floor of docs/architecture.md.
GLIBC_FLOOR = (2, 34)

METADATA = """\
Metadata-Version: 2.4
Name: farandole
Version: {version}
Summary: Distributed training with Horovod's API: one controller calls the order, workers hold hands.
License-Expression: Apache-2.0
{license_files}
Requires-Python: >=3.9
Classifier: Operating System :: POSIX :: Linux
Classifier: Programming Language :: Python :: 3
Classifier: Topic :: Scientific/Engineering :: Artificial Intelligence
Requires-Dist: cloudpickle
Provides-Extra: torch
Requires-Dist: torch>=2.1; extra == "torch"
Description-Content-Type: text/markdown

{description}"""

WHEEL = """\
Wheel-Version: 1.0
Generator: farandole build_wheel
Root-Is-Purelib: false
Tag: py3-none-linux_x86_64
"""

ALIAS_METADATA = """\
Metadata-Version: 2.4
Name: farandole-horovod
Version: {version}
Summary: Farandole under Horovod's names: import horovod.torch, horovodrun. Not to be installed beside Horovod.
License-Expression: Apache-2.0
License-File: LICENSE
Requires-Python: >=3.9
Requires-Dist: farandole=={version}
Description-Content-Type: text/markdown

{description}"""

ALIAS_WHEEL = """\
Wheel-Version: 1.0
Generator: farandole build_wheel
Root-Is-Purelib: true
Tag: py3-none-any
"""

ALIAS_ENTRY_POINTS = """\
[console_scripts]
horovodrun = horovod.runner.launch:run_commandline
"""

ENTRY_POINTS = """\
[console_scripts]
farandole = farandole.launch.cli:main
farandole-perf = farandole.launch.perf:main
"""


def run(*command: str | Path, **extra: object) -> str:
    """Standard output of a command that must succeed."""
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, **extra)
    if done.returncode:
        raise SystemExit(f"build_wheel: {' '.join(map(str, command))}:\n{done.stdout}{done.stderr}")
    return done.stdout


def version() -> str:
    """The release number of the tree."""
    found = re.search(r'"(\d+\.\d+\.\d+)"', (ROOT / "proto" / "version.h").read_text())
    if not found:
        raise SystemExit("build_wheel: no version in proto/version.h")
    return found.group(1)


def shared_libraries(file: Path) -> dict[str, Path]:
    """Soname and path of everything that the loader would map for `file`."""
    lines = run("ldd", file).splitlines()
    if missing := [line for line in lines if "not found" in line]:
        raise SystemExit(f"build_wheel: {file} lacks {missing}")
    return {m.group(1): Path(m.group(2)) for line in lines if (m := re.match(r"\s*(\S+) => (/\S+)", line))}


def package_of(library: Path) -> str:
    """The Debian package that a library belongs to."""
    for name in (library, library.resolve(), Path("/usr") / str(library).lstrip("/")):
        found = subprocess.run(["dpkg", "-S", str(name)], capture_output=True, text=True)
        if found.returncode == 0:
            return found.stdout.split(":")[0]
    raise SystemExit(f"build_wheel: {library} belongs to no Debian package, so its licence is unknown")


def carried_packages(executables: list[Path]) -> dict[str, set[str]]:
    """Debian packages whose libraries go into the wheel, each with the sonames."""
    packages: dict[str, set[str]] = {}
    for executable in executables:
        for soname, path in shared_libraries(executable).items():
            package = package_of(path)
            if package not in PLATFORM_PACKAGES:
                packages.setdefault(package, set()).add(soname)
    return packages


def stage_package(stage: Path) -> list[Path]:
    """Copies the package and the compiled files; returns the executables."""
    package = stage / "farandole"
    shutil.copytree(ROOT / "python" / "farandole", package, ignore=shutil.ignore_patterns("__pycache__", "*_test.py"))
    (package / "lib").mkdir()
    (package / "bin").mkdir()
    built = {name: ROOT / "bazel-bin" / name for name in (LIBRARY, *EXECUTABLES)}
    for name, file in built.items():
        target = package / ("lib" if name == LIBRARY else "bin") / Path(name).name
        run("strip", "--strip-unneeded", "-o", target, file)
        target.chmod(0o755)
    foreign = {package_of(p) for p in shared_libraries(package / "lib" / "libfarandole.so").values()}
    if not foreign <= set(PLATFORM_PACKAGES):
        raise SystemExit(
            f"build_wheel: libfarandole.so depends on {foreign}; nothing may enter the user's process with it"
        )
    return [package / "bin" / Path(name).name for name in EXECUTABLES]


def stage_dist_info(stage: Path, packages: list[str]) -> None:
    """Metadata, entry points and licences."""
    info = stage / f"farandole-{version()}.dist-info"
    licenses = info / "licenses"
    licenses.mkdir(parents=True)
    shutil.copy(ROOT / "LICENSE", licenses / "LICENSE")
    for package in packages:
        shutil.copy(f"/usr/share/doc/{package}/copyright", licenses / f"{package}.txt")
    names = sorted(p.name for p in licenses.iterdir())
    text = METADATA.format(
        version=version(),
        license_files="\n".join(f"License-File: {name}" for name in names),
        description=(ROOT / "README.md").read_text(),
    )
    (info / "METADATA").write_text(text)
    (info / "WHEEL").write_text(WHEEL)
    (info / "entry_points.txt").write_text(ENTRY_POINTS)


def repair(plain: Path, carried: set[str]) -> Path:
    """Lets auditwheel carry the libraries and compute the tag; checks what came out instead of believing it."""
    dist = OUT / "dist"
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    run(sys.executable, "-m", "auditwheel", "repair", "--only-plat", "-w", dist, plain, env=environment)
    (wheel,) = dist.glob("*.whl")
    with WheelFile(wheel) as file:
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
    shutil.copytree(ROOT / "alias" / "horovod", stage / "horovod", ignore=shutil.ignore_patterns("__pycache__"))
    info = stage / f"farandole_horovod-{version()}.dist-info"
    (info / "licenses").mkdir(parents=True)
    shutil.copy(ROOT / "LICENSE", info / "licenses" / "LICENSE")
    description = (ROOT / "docs" / "migrating-from-horovod.md").read_text()
    (info / "METADATA").write_text(ALIAS_METADATA.format(version=version(), description=description))
    (info / "WHEEL").write_text(ALIAS_WHEEL)
    (info / "entry_points.txt").write_text(ALIAS_ENTRY_POINTS)
    wheel = OUT / "dist" / f"farandole_horovod-{version()}-py3-none-any.whl"
    with WheelFile(wheel, "w") as file:
        file.write_files(str(stage))
    return wheel


def main() -> int:
    """Builds the wheels from bazel-bin and prints their paths and sizes."""
    shutil.rmtree(OUT, ignore_errors=True)
    stage = OUT / "stage"
    stage.mkdir(parents=True)
    # The same commit gives the same bytes.
    os.environ.setdefault("SOURCE_DATE_EPOCH", run("git", "log", "-1", "--format=%ct", cwd=ROOT).strip() or "315532800")
    packages = carried_packages(stage_package(stage))
    stage_dist_info(stage, sorted({*packages, *COMPILED_IN_PACKAGES}))
    plain = OUT / "plain" / f"farandole-{version()}-py3-none-linux_x86_64.whl"
    plain.parent.mkdir()
    with WheelFile(plain, "w") as file:
        file.write_files(str(stage))
    for wheel in (repair(plain, set().union(*packages.values())), write_alias()):
        print(f"{wheel.relative_to(ROOT)}: {wheel.stat().st_size / 2**20:.2f} MiB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
