"""Our library in one process with other people's gRPC and protobuf: both sides work, and no symbol crosses over."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from installed import ROOT, Installed

SCRIPT = Path(__file__).with_name("neighbours.py")
OLD_PROTOBUF = ROOT / "bazel-bin" / "tests" / "wheel" / "libprotobuf_user.so"
SHARED = re.compile(r"/(libc|libm|libgcc_s|libstdc\+\+|ld-linux-x86-64)\.so[.\d]*$")
BINDING = re.compile(r"binding file (\S+) \[\d+\] to (\S+) \[\d+\]: \w+ symbol `([^']+)'")


@pytest.mark.parametrize("first", ["", "grpc", "old", "grpc,old"])
def test_both_sides_work(installed: Installed, first: str) -> None:
    done = installed.run(2, SCRIPT, first, OLD_PROTOBUF=str(OLD_PROTOBUF))
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("neighbours and we are well") == 2, done.stdout


def crossings(bindings: list[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """Bindings between our library and anything but the platform, calls of our C ABI excepted."""
    ours = re.compile(r"/libfarandole\.so$")
    # A program at a fixed address, as Debian's Python is, passes on functions of the platform whose address it takes.
    platform = {(source, symbol) for source, target, symbol in bindings if SHARED.search(target)}
    return [
        (source, target, symbol)
        for source, target, symbol in bindings
        if (
            ours.search(source)
            and not (ours.search(target) or SHARED.search(target))
            and (target, symbol) not in platform
        )
        or (ours.search(target) and not ours.search(source) and not symbol.startswith("farandole_"))
    ]


def test_no_symbol_crosses_over(installed: Installed, tmp_path: Path) -> None:
    done = installed.run(
        2,
        SCRIPT,
        "grpc,old",
        OLD_PROTOBUF=str(OLD_PROTOBUF),
        LD_DEBUG="bindings",
        LD_DEBUG_OUTPUT=str(tmp_path / "ld"),
        LD_BIND_NOW="1",
    )
    assert done.returncode == 0, done.stdout
    bindings = [b for file in tmp_path.iterdir() for b in BINDING.findall(file.read_text(errors="replace"))]
    # The log is what it should be: it names our library, and the neighbours that might have met it.
    assert any(source.endswith("/libfarandole.so") for source, _, _ in bindings)
    assert any("libprotobuf.so" in target for _, target, _ in bindings)
    assert any("cygrpc" in source for source, _, _ in bindings)
    assert not crossings(bindings)


def test_crossings_are_recognised() -> None:
    library = "/site/farandole/lib/libfarandole.so"
    fine = [
        (library, "/lib/x86_64-linux-gnu/libc.so.6", "read"),
        (library, library, "farandole_rank"),
        ("/usr/bin/python3", library, "farandole_rank"),
        (library, "/usr/bin/python3", "free"),
        ("/usr/bin/python3", "/lib/x86_64-linux-gnu/libc.so.6", "free"),
    ]
    assert not crossings(fine)
    assert crossings([(library, "/usr/lib/libprotobuf.so.32", "_ZN6google")])
    assert crossings([(library, "/usr/bin/python3", "free")])
    assert crossings([("/site/torch/lib/libtorch.so", library, "_ZN4absl")])
