"""That the tests for a GPU tell a failure before the next test."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import processes

TESTS = """
def test_first():
    assert 1 + 1 == 3, "told at once"

def test_second():
    pass
"""


def test_a_failure_is_told_when_it_happens(tmp_path: Path) -> None:
    shutil.copy(processes.ROOT / "tests" / "gpu" / "conftest.py", tmp_path)
    (tmp_path / "test_both.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1, done.stdout + done.stderr
    assert done.stdout.index("AssertionError: told at once") < done.stdout.index("test_second PASSED"), done.stdout
