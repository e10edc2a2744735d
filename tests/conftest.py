from __future__ import annotations

import os
import signal
import sys
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "python"))

# What tests start inherits this. A shell without job control ignores SIGINT in what it starts with `&`, and an ignored
# signal stays so: Python would not raise KeyboardInterrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)
# Killed data loaders, killed launchers, mpirun and torchrun leave files.
_temporary = tempfile.TemporaryDirectory(prefix="farandole-test-")
os.environ["TMPDIR"] = os.environ["XDG_RUNTIME_DIR"] = os.environ["XDG_CACHE_HOME"] = _temporary.name
os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(ROOT / "build" / "torchinductor")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--kills", type=int, default=1, help="how often each way of killing a worker is tried")


def pytest_unconfigure() -> None:
    _temporary.cleanup()
