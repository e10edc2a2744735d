"""A deployed controller is replaced by one of another version while a job trains."""

from __future__ import annotations

import re
import stat
from pathlib import Path

import processes
from controller_parts import await_steps, controller, training

from farandole.base import locate
from farandole.version import __version__


def of_version(folder: Path, version: str) -> str:
    """The controller's program, but for the version that is written in it."""
    program = Path(locate.find("farandole-controller")).read_bytes()
    written = b"\0" + __version__.encode() + b"\0"
    assert program.count(written) == 1 and len(version) == len(__version__)
    changed = folder / f"controller-{version}"
    changed.write_bytes(program.replace(written, b"\0" + version.encode() + b"\0"))
    changed.chmod(stat.S_IRWXU)
    return str(changed)


def steps(job: processes.Job) -> list[int]:
    return [int(line) for line in job.lines("at ")]


def test_a_patch_takes_over_without_a_lost_step(tmp_path: Path) -> None:
    major, minor, patch = __version__.split(".")
    newer = of_version(tmp_path, f"{major}.{minor}.{int(patch) + 1}")
    with controller(tmp_path) as old:
        with training(tmp_path, old.address) as job:
            await_steps(job)
            old.process.terminate()
            assert old.process.wait(10) == 0
            with controller(tmp_path, "--listen", old.address, "--log-level", "info", program=newer) as new:
                assert f"version {major}.{minor}.{int(patch) + 1} " in new.log.read_text()
                await_steps(job)
                (tmp_path / "enough").touch()
                assert job.wait() == 0, job.report()
            seen = steps(job)
            assert seen == list(range(0, 50 * len(seen), 50)), "each step once"


def test_another_minor_version_is_refused_with_both_numbers(tmp_path: Path) -> None:
    major, minor, patch = __version__.split(".")
    other = of_version(tmp_path, f"{major}.{int(minor) + 1}.{patch}")
    with controller(tmp_path, program=other) as made, training(tmp_path, made.address) as job:
        assert job.wait() not in (0, None), job.report()
    assert re.search(rf"{re.escape(__version__)}.*{major}\.{int(minor) + 1}\.{patch}", job.stderr), job.report()
