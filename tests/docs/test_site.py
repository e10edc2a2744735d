"""The docs' site: it builds without a warning, describes every public name, and needs no other host."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
from pathlib import Path

import docs_pages
import pytest
from mkdocs.exceptions import PluginError

ROOT = Path(__file__).resolve().parents[2]
MODULES = (
    "farandole",
    "farandole.torch",
    "farandole.torch.elastic",
    "farandole.elastic",
    "farandole.data",
    "farandole.exceptions",
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", folder]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def anchors(site: Path) -> set[str]:
    pages = [page.read_text() for page in (site / "api").glob("*.html")]
    return {anchor for page in pages for anchor in re.findall(r'id="(farandole\.[\w.]+)"', page)}


@pytest.mark.parametrize("module_name", MODULES)
def test_public_names_are_described(anchors: set[str], module_name: str) -> None:
    modules = {name: importlib.import_module(name) for name in MODULES}
    module = modules[module_name]
    public = getattr(module, "__all__", None) or [
        name for name, value in vars(module).items() if isinstance(value, type)
    ]
    assert public

    def is_described(name: str) -> bool:
        # What a module has of another one may be described there.
        homes = [home for home, other in modules.items() if getattr(other, name, None) is getattr(module, name)]
        return any(f"{home}.{name}" in anchors for home in homes)

    assert [name for name in public if not is_described(name)] == []


def test_pages_load_nothing_from_other_hosts(site: Path) -> None:
    loaded = re.compile(r"""(?:\bsrc=|<link\b[^>]*\bhref=)["']?((?:https?:)?//[^"'\s>]+)""")
    pages = list(site.rglob("*.html"))
    assert len(pages) > 30
    assert {str(page): found for page in pages if (found := loaded.findall(page.read_text()))} == {}


def test_search_works_on_pages_opened_as_files(site: Path) -> None:
    # Browsers let such a page load scripts, but neither fetch an index nor start a worker.
    script = (site / "search" / "search_index.js").read_text()
    assert script.startswith("var __index = ")
    index = json.loads(script.removeprefix("var __index = "))
    assert "api/torch.html#farandole.torch.allreduce" in {entry["location"] for entry in index["docs"]}
    assert 'src="../javascripts/iframe-worker.js"' in (site / "api" / "torch.html").read_text()


def test_link_to_a_source_becomes_its_path() -> None:
    folder = ROOT / "docs" / "decisions"
    text = "See [the job](../../controller/job/job.h) and [replay](../replay.md)."
    assert (
        docs_pages.without_source_links(text, folder)
        == "See the job (`controller/job/job.h`) and [replay](../replay.md)."
    )
    assert docs_pages.without_source_links("[`base/`](../base)", ROOT / "docs") == "`base`"


def test_link_to_a_missing_source_is_refused() -> None:
    with pytest.raises(PluginError, match="links to ../../controller/none.h, which is not there"):
        docs_pages.without_source_links("[x](../../controller/none.h)", ROOT / "docs" / "decisions")
