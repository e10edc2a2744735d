"""Hooks of MkDocs: the README is the first page, and links to files of the repository become their paths."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent
_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)#\s]+)(#[^)\s]*)?\)")


def on_files(files: Files, config: Any) -> Files:
    """Adds the README as the first page, as if it lay in docs/."""
    readme = (ROOT / "README.md").read_text()
    text = re.sub(r"\]\(docs/", "](", without_source_links(readme, ROOT))
    files.append(File.generated(config, "index.md", content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """A page's text without links that leave the site."""
    folder = (ROOT / "docs" / page.file.src_uri).parent
    return markdown if page.file.src_uri == "index.md" else without_source_links(markdown, folder)


def without_source_links(markdown: str, folder: Path) -> str:
    """`markdown` of a page in `folder`, with the path in the place of each link to a file outside of docs/.

    Raises:
        PluginError: there is no such file.
    """

    def replaced(match: re.Match[str]) -> str:
        text, target = match.group(1), match.group(2)
        if "://" in target or target.startswith("mailto:"):
            return match.group(0)
        path = (folder / target).resolve()
        if path.is_relative_to(ROOT / "docs"):
            return match.group(0)
        if not path.exists():
            raise PluginError(f"{folder.relative_to(ROOT)}: the page links to {target}, which is not there")
        name = path.relative_to(ROOT).as_posix()
        return f"`{name}`" if name in text or path.name in text else f"{text} (`{name}`)"

    return _LINK.sub(replaced, markdown)
