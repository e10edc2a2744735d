"""`pip install .` and `pip install -e .`: what a source tree gives."""

from __future__ import annotations

import tarfile
from email.parser import Parser
from pathlib import Path

import pytest
from environments import Environment
from installed import ROOT

NAMES = [ROOT, ROOT / "alias"]


@pytest.fixture
def empty(tmp_path: Path) -> Environment:
    return Environment(tmp_path / "environment")


def places(environment: Environment) -> list[str]:
    """Where the package, its library and Horovod's names were found."""
    code = "import farandole, horovod; from farandole.base import locate; print(farandole.__file__, horovod.__file__, "
    done = environment.run("python", "-c", code + "locate.find('libfarandole.so'), sep='\\n')")
    assert done.returncode == 0, done.stdout
    return done.stdout.split()


def test_an_installation_needs_the_tree_no_more(empty: Environment) -> None:
    done = empty.pip("install", "--no-deps", *NAMES)
    assert done.returncode == 0, done.stdout
    assert all(Path(place).is_relative_to(empty.site) for place in places(empty))
    assert {p.name for p in (empty.site / "farandole" / "bin").iterdir()} == {
        "farandole-agent",
        "farandole-controller",
        "farandole-perf",
    }
    started = empty.run("farandole", "--version")
    assert started.returncode == 0, started.stdout
    assert (empty.bin / "horovodrun").exists()


def test_an_editable_installation_is_the_tree(empty: Environment) -> None:
    done = empty.pip("install", "--no-deps", "-e", NAMES[0], "-e", NAMES[1])
    assert done.returncode == 0, done.stdout
    package, names, library = places(empty)
    assert Path(package) == ROOT / "python" / "farandole" / "__init__.py"
    assert Path(names) == ROOT / "alias" / "horovod" / "__init__.py"
    assert Path(library) == ROOT / "bazel-bin" / "frameworks" / "libfarandole.so"
    assert empty.run("farandole", "--version").returncode == 0


def test_missing_debian_packages_are_named(empty: Environment, tmp_path: Path) -> None:
    query = tmp_path / "bin" / "dpkg-query"
    query.parent.mkdir()
    query.write_text('#!/bin/sh\n/usr/bin/dpkg-query "$@" | grep -v libsodium-dev | grep -v bazel-bootstrap\n')
    query.chmod(0o755)
    (empty.bin / "dpkg-query").symlink_to(query)
    done = empty.pip("install", "--no-deps", ROOT)
    assert done.returncode != 0
    assert "as root run: apt-get install bazel-bootstrap libsodium-dev\n" in done.stdout, done.stdout
    assert "Traceback" not in done.stdout


def test_the_source_archive_holds_what_a_build_needs(empty: Environment, tmp_path: Path) -> None:
    code = f"import os, build_backend; os.chdir({str(ROOT)!r}); print(build_backend.build_sdist({str(tmp_path)!r}))"
    done = empty.run("python", "-c", code, PYTHONPATH=str(ROOT / "scripts"))
    assert done.returncode == 0, done.stdout
    stem = done.stdout.strip()[: -len(".tar.gz")]
    with tarfile.open(tmp_path / f"{stem}.tar.gz") as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
        information = archive.extractfile(f"{stem}/PKG-INFO")
        assert information and Parser().parsestr(information.read().decode())["Name"] == "farandole"
    assert {"pyproject.toml", "alias/pyproject.toml", "WORKSPACE", "scripts/install_deps.sh"} <= names
    assert not any(name.startswith((".git/", "bazel-", "build/")) for name in names)
