"""Format, lint, types and locks of every tracked or new source file, and a strict build of the docs; `--fix` rewrites
what can be, and no more."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def source_files(*patterns: str) -> list[str]:
    """Files of the tree that git does not ignore, relative to its root; everything where there is no git."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *patterns]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout.decode()
    return sorted(f for f in set(listed.split("\0")) if f and (ROOT / f).is_file())


def checks(fix: bool) -> list[tuple[str, list[str]]]:
    """Name and command of each check."""
    ruff = str(Path(sys.executable).parent / "ruff")
    cpp = source_files("*.cc", "*.cu", "*.h")
    docs = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet"]
    types = [] if fix else [("mypy", [sys.executable, "-m", "mypy", "--no-error-summary"])]
    return [
        *([] if fix else [("docs", docs)]),
        ("clang-format", ["clang-format", *(["-i"] if fix else ["--dry-run", "-Werror"]), *cpp]),
        ("ruff check", [ruff, "check", "--quiet", *(["--fix"] if fix else []), "."]),
        ("ruff format", [ruff, "format", "--quiet", *([] if fix else ["--diff"]), "."]),
        *types,
    ]


def make_grpc_headers() -> Path:
    """What protoc makes of the wire contract, for a compiler that runs outside of Bazel."""
    out = ROOT / "build" / "lint"
    out.mkdir(parents=True, exist_ok=True)
    plugin = "--plugin=protoc-gen-grpc=/usr/bin/grpc_cpp_plugin"
    protos = source_files("proto/*.proto")
    subprocess.run(
        ["protoc", "-Iproto", plugin, f"--cpp_out={out}", f"--grpc_out={out}", *protos], cwd=ROOT, check=True
    )
    return out


def guarded_sources() -> list[str]:
    """C++ sources of the product with state that a mutex guards, in themselves or in the header of their name."""
    guarded = re.compile(r"ABSL_GUARDED_BY|ABSL_EXCLUSIVE_LOCKS_REQUIRED|MutexLock")
    found = []
    for path in source_files("*.cc"):
        if path.startswith("tests/") or path.endswith("_test.cc"):
            continue
        pair = [ROOT / path, (ROOT / path).with_suffix(".h")]
        if any(guarded.search(file.read_text()) for file in pair if file.exists()):
            found.append(path)
    return found


def thread_safety(files: list[str]) -> bool:
    """clang's analysis of locks: state is touched with its mutex held, and functions that want one are given it."""
    command = [
        "clang++-14",
        "-std=c++17",
        "-fsyntax-only",
        "-Wno-everything",
        "-Wthread-safety",
        "-Werror=thread-safety",
    ]
    command += ["-I.", f"-I{make_grpc_headers()}"]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        codes = list(pool.map(lambda file: subprocess.run([*command, file], cwd=ROOT).returncode, files))
    return not any(codes)


def run_checks(fix: bool = False) -> dict[str, bool]:
    """Runs every check and lets it print its complaints; maps its name to whether it passed."""
    passed = {name: subprocess.run(command, cwd=ROOT).returncode == 0 for name, command in checks(fix)}
    return passed if fix else {**passed, "thread safety": thread_safety(guarded_sources())}


def main() -> int:
    """Exit code 1 if any check failed."""
    failed = [name for name, ok in run_checks("--fix" in sys.argv[1:]).items() if not ok]
    print("lint: " + (f"failed: {', '.join(failed)} (make format mends most of it)" if failed else "ok"))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
