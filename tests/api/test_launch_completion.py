"""What a shell makes of `farandole completion`."""

from __future__ import annotations

import subprocess

import pytest

from farandole.launch import cli


@pytest.mark.parametrize(
    ("words", "last", "found"),
    [
        ("farandole st", 1, ["status"]),
        ("farandole run --output", 2, ["--output-filename"]),
        ("/opt/bin/horovodrun --max-", 1, ["--max-restarts", "--max-np", "--max-num-proc"]),
        ("farandole status --js", 2, ["--json"]),
        # The shell's own business.
        ("farandole run train", 2, []),
        # It has no effect.
        ("farandole run --gl", 2, []),
    ],
)
def test_bash(capsys: pytest.CaptureFixture, words: str, last: int, found: list[str]) -> None:
    assert cli.main(["completion"]) == 0
    ask = f'COMP_WORDS=({words}); COMP_CWORD={last}; _farandole; echo "${{COMPREPLY[@]}}"'
    done = subprocess.run(
        ["bash", "-c", capsys.readouterr().out + ask], capture_output=True, text=True, timeout=30, check=True
    )
    assert done.stdout.split() == found and not done.stderr
