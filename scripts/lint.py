"""Format and lint of every tracked or new source file; `--fix` rewrites instead of complaining."""

from __future__ import annotations

import subprocess
import sys
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
    cpp = source_files("*.cc", "*.h")
    return [
        ("clang-format", ["clang-format", *(["-i"] if fix else ["--dry-run", "-Werror"]), *cpp]),
        ("ruff check", [ruff, "check", "--quiet", *(["--fix"] if fix else []), "."]),
        ("ruff format", [ruff, "format", "--quiet", *([] if fix else ["--diff"]), "."]),
    ]


def run_checks(fix: bool = False) -> dict[str, bool]:
    """Runs every check and lets it print its complaints; maps its name to whether it passed."""
    return {name: subprocess.run(command, cwd=ROOT).returncode == 0 for name, command in checks(fix)}


def main() -> int:
    """Exit code 1 if any check failed."""
    failed = [name for name, ok in run_checks("--fix" in sys.argv[1:]).items() if not ok]
    print("lint: " + (f"failed: {', '.join(failed)} (make format mends most of it)" if failed else "ok"))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
