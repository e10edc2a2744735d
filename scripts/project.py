"""The metadata of a project of this tree: what its pyproject.toml says, as a wheel wants it written."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent
VERSION_FILE = ROOT / "python" / "farandole" / "version.py"


def copyright_of(package: str) -> Path:
    """Of a Debian package that is installed, or only unpacked for the build."""
    below = f"usr/share/doc/{package}/copyright"
    for found in [*Path("/").glob(below), *(ROOT / ".deps").glob(f"*/{below}")]:
        return found
    raise SystemExit(f"no licence of {package} is on this machine; `make deps` installs what is shipped")


class Project:
    """`folder` holds the pyproject.toml: the root of the tree, or alias/."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        content = tomllib.loads((folder / "pyproject.toml").read_text())
        self._table: dict[str, Any] = content["project"]
        # Dependencies that name the release, which pyproject.toml's own list cannot.
        self._own: dict[str, Any] = content.get("tool", {}).get("farandole", {})

    @property
    def name(self) -> str:
        """As people write it."""
        return self._table["name"]

    @property
    def version(self) -> str:
        """The release of the tree; both projects have the same."""
        found = re.search(r'^__version__ = "(\d+\.\d+\.\d+)"$', VERSION_FILE.read_text(), re.MULTILINE)
        if not found:
            raise SystemExit(f"no __version__ in {VERSION_FILE}")
        return found.group(1)

    @property
    def stem(self) -> str:
        """Name and version as the names of files begin."""
        return f"{self.name.replace('-', '_')}-{self.version}"

    @property
    def dependencies(self) -> list[str]:
        """What is installed with it."""
        own = self._own.get("dependencies", [])
        return [r.format(version=self.version) for r in self._table.get("dependencies", []) + own]

    def metadata(self, licenses: list[str]) -> str:
        """The core metadata; `licenses` are the names of the files in the folder of licences."""
        table = self._table
        fields = [("Metadata-Version", "2.4"), ("Name", self.name), ("Version", self.version)]
        fields += [("Summary", table["description"]), ("Keywords", ",".join(table["keywords"]))]
        fields += [("License-Expression", table["license"]), *(("License-File", name) for name in licenses)]
        fields += [("Requires-Python", table["requires-python"])]
        fields += [("Classifier", name) for name in table["classifiers"]]
        fields += [("Requires-Dist", requirement) for requirement in self.dependencies]
        for extra, requirements in table.get("optional-dependencies", {}).items():
            fields += [("Provides-Extra", extra)]
            fields += [("Requires-Dist", f'{requirement}; extra == "{extra}"') for requirement in requirements]
        fields += [("Description-Content-Type", "text/markdown")]
        head = "".join(f"{name}: {value}\n" for name, value in fields)
        return f"{head}\n{(self.folder / table['readme']).read_text()}"

    def entry_points(self) -> str:
        """The commands that an installer makes."""
        return "[console_scripts]\n" + "".join(f"{k} = {v}\n" for k, v in self._table["scripts"].items())

    def write_dist_info(self, stage: Path, tag: str, debian_packages: list[str]) -> Path:
        """Writes what a wheel says of itself below `stage`; the licences of `debian_packages` go along."""
        info = stage / f"{self.stem}.dist-info"
        licenses = info / "licenses"
        licenses.mkdir(parents=True)
        shutil.copy(ROOT / "LICENSE", licenses / "LICENSE")
        for package in debian_packages:
            shutil.copy(copyright_of(package), licenses / f"{package}.txt")
        (info / "METADATA").write_text(self.metadata(sorted(p.name for p in licenses.iterdir())))
        pure = str(tag.endswith("-any")).lower()
        (info / "WHEEL").write_text(
            f"Wheel-Version: 1.0\nGenerator: farandole {self.version}\nRoot-Is-Purelib: {pure}\nTag: {tag}\n"
        )
        (info / "entry_points.txt").write_text(self.entry_points())
        return info


FARANDOLE = Project(ROOT)
ALIAS = Project(ROOT / "alias")


def foreign_dependencies() -> list[str]:
    """What both projects need of others."""
    return sorted(r for r in {*FARANDOLE.dependencies, *ALIAS.dependencies} if not r.startswith(FARANDOLE.name))


if __name__ == "__main__":
    print("\n".join(foreign_dependencies()))
