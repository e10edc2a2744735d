"""Redraws a terminal with the page of a job: by ``rich`` if it is installed, else by itself."""

from __future__ import annotations

import os
import shutil
import sys
from typing import TYPE_CHECKING

from farandole.launch.status import view

if TYPE_CHECKING:
    from rich.console import Group


def is_possible() -> bool:
    """Whether stdout is a terminal in which the cursor can be moved."""
    return sys.stdout.isatty() and os.environ.get("TERM", "") not in ("", "dumb", "unknown")


class Plain:
    """Needs nothing; without colours."""

    def __enter__(self) -> Plain:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def show(self, page: view.Page) -> None:
        """Draws over what is there; lines that do not fit are cut."""
        columns, rows = shutil.get_terminal_size()
        visible = view.lines(page, columns)[: rows - 1]
        print("\x1b[H" + "".join(f"{line}\x1b[K\n" for line in visible) + "\x1b[J", end="", flush=True)


class Rich:
    """In colours unless NO_COLOR is set; keeps what stood in the terminal before, and leaves the last page there.

    Raises:
        ImportError: `rich` is not installed.
    """

    def __init__(self) -> None:
        from rich.live import Live

        # Without a thread that redraws what has not changed.
        self._live = Live(auto_refresh=False, vertical_overflow="crop")

    def __enter__(self) -> Rich:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def show(self, page: view.Page) -> None:
        """Draws over the page before; lines that do not fit are cut until the last page."""
        self._live.update(group(page, self._live.console.width), refresh=True)


def group(page: view.Page, columns: int) -> Group:
    """What rich prints for a page in a terminal of this width."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    # Text takes brackets in names as they are, where rich reads styles from a str.
    parts: list[Text | Table] = [Text(page.alert, "bold red"), Text()] if page.alert else []
    parts.append(Text(page.title, "bold", no_wrap=True, overflow="ellipsis"))
    parts += [Text(sentence) for sentence in page.sentences]
    parts += [Text(wait, "yellow" if wait.startswith("!") else "green") for wait in page.waits]
    if page.rows:
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        names, *rows = view.fitting(page.rows, columns)
        for name in names[:-1]:
            table.add_column(Text(name), justify="right", no_wrap=True)
        table.add_column(Text(names[-1]), overflow="fold")
        for row in rows:
            table.add_row(*map(Text, row), style="" if row[-1] in (view.OK, view.LEFT) else "red")
        parts += [Text(), table]
    parts += [Text(page.more)] if page.more else []
    return Group(*parts)


def make() -> Plain | Rich:
    """What there is here to redraw a terminal with."""
    try:
        return Rich()
    except ImportError:
        return Plain()
