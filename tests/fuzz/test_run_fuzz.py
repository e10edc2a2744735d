"""What scripts/run_fuzz.py links a fuzzer with."""

from __future__ import annotations

import run_fuzz


def test_the_libraries_of_the_tree_are_found() -> None:
    text = (run_fuzz.ROOT / "third_party/system/system.BUILD").read_text()
    libraries = run_fuzz.LIBRARIES.findall(text)
    assert "-l:libsodium.a" in libraries
    assert "-labsl_status" in libraries
