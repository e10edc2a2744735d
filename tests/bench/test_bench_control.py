"""What bench_control starts."""

from __future__ import annotations

from pathlib import Path

import bench_control
import pytest


@pytest.mark.parametrize("program", bench_control.PROGRAMS, ids=lambda program: program.name)
def test_it_is_where_the_build_puts_it(program: Path) -> None:
    assert program.is_file()
