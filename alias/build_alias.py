"""The build backend of this folder: that of the tree."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "scripts"))

from build_backend import *  # noqa: E402, F403
