"""The build backend of pyproject.toml (PEP 517 and 660): `pip install .` and `pip install -e .`.

It compiles with Debian's packages, and what it compiles uses their libraries: an installation for this machine. Wheels
for other machines are build_wheel.py's. An editable installation takes the tree's Python sources, and the binaries that
Bazel has built last.

pip calls the functions, in the folder of the project that is to be built.
"""

from __future__ import annotations

import platform
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Optional

from archive import write_source, write_wheel
from project import ALIAS, FARANDOLE, ROOT, Project
from stage import CARRIED_PACKAGES, COMPILED_IN_PACKAGES, stage_alias, stage_package

# What a builder may be told by its caller; nothing is read of it.
Settings = Optional[dict[str, Any]]
PLAIN_TAG = f"py3-none-linux_{platform.machine()}"


def _project() -> Project:
    return ALIAS if Path.cwd() == ALIAS.folder else FARANDOLE


def _tag(project: Project) -> str:
    return PLAIN_TAG if project is FARANDOLE else "py3-none-any"


def _check_packages() -> None:
    """Ends with a sentence that names the Debian packages which are missing; installs none."""
    if _project() is FARANDOLE and subprocess.run([ROOT / "scripts" / "install_deps.sh", "--check"]).returncode:
        raise SystemExit(1)


def _compile() -> None:
    done = subprocess.run(["make", "product"], cwd=ROOT)
    if done.returncode:
        raise SystemExit(f"make product failed with exit code {done.returncode}; its output says why")


def _write_dist_info(project: Project, folder: Path) -> str:
    packages = [*COMPILED_IN_PACKAGES, *CARRIED_PACKAGES] if project is FARANDOLE else []
    return project.write_dist_info(folder, _tag(project), packages).name


def _pack(project: Project, stage: Path, wheel_directory: str) -> str:
    _write_dist_info(project, stage)
    wheel = Path(wheel_directory) / f"{project.stem}-{_tag(project)}.whl"
    write_wheel(stage, wheel)
    return wheel.name


def get_requires_for_build_wheel(config_settings: Settings = None) -> list[str]:
    """Nothing; the first that pip calls, so what is missing is said here."""
    _check_packages()
    return []


get_requires_for_build_editable = get_requires_for_build_wheel


def prepare_metadata_for_build_wheel(metadata_directory: str, config_settings: Settings = None) -> str:
    """Writes the .dist-info folder alone and returns its name."""
    return _write_dist_info(_project(), Path(metadata_directory))


prepare_metadata_for_build_editable = prepare_metadata_for_build_wheel


def build_wheel(wheel_directory: str, config_settings: Settings = None, metadata_directory: str = "") -> str:
    """Compiles, packs a wheel for this machine and returns its name."""
    project = _project()
    with tempfile.TemporaryDirectory() as folder:
        stage = Path(folder)
        if project is FARANDOLE:
            _compile()
            stage_package(stage)
        else:
            stage_alias(stage)
        return _pack(project, stage, wheel_directory)


def build_editable(
    wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None
) -> str:
    """Compiles, packs a wheel that points to the tree's sources, and returns its name."""
    project = _project()
    if project is FARANDOLE:
        _compile()
    sources = ROOT / "python" if project is FARANDOLE else ALIAS.folder
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / f"{project.name}.pth").write_text(f"{sources}\n")
        return _pack(project, Path(folder), wheel_directory)


def build_sdist(sdist_directory: str, config_settings: Settings = None) -> str:
    """Packs the sources that git knows and returns the archive's name. It holds both projects; the root's is built."""
    if _project() is not FARANDOLE or not (ROOT / ".git").exists():
        raise SystemExit("the source archive is made at the root of a git checkout: it holds the whole tree")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout
    files = [ROOT / name for name in listed.split("\0") if name and (ROOT / name).is_file()]
    archive = Path(sdist_directory) / f"{FARANDOLE.stem}.tar.gz"
    write_source(files, FARANDOLE.stem, FARANDOLE.metadata(["LICENSE"]), archive)
    return archive.name
