"""Lint, build, C++ tests, Python tests, then targets of the Makefile that are named as arguments; ends with one line
`N passed, M failed`. Exit code 1 if anything failed. `--until=SECONDS`, of the clock as `date +%s` has it: later none
of those targets is begun, and each one counts as skipped. The automatic build is ended after a time, and nothing that
it found would count. Targets of `--in-turn` come behind the others, and each hour begins with another one, so that on a
slow machine, too, each is run again and again.

Counted are lint checks, the build (one), the cases of every Bazel test, every pytest case, each further target (its
cases if it writes build/test/NAME.xml, else one). A step that breaks without naming a case counts as one failure, so
that nothing passes by not running. Skipped tests are listed with their reasons and counted beside the sum.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import time
import urllib.parse
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import lint

ROOT = lint.ROOT
OUT = ROOT / "build" / "test"


@dataclass
class Tally:
    """What one step found; `failed` and `skipped` hold "test: reason"."""

    passed: int = 0
    failed: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        """Adds the other's cases to this one's."""
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped


def read_junit(path: Path, where: str = "") -> Tally:
    """Cases of a JUnit file as GoogleTest and pytest write them."""
    tally = Tally()
    for case in ElementTree.parse(path).iter("testcase"):
        name = f"{where}{case.get('classname')}.{case.get('name')}"
        skip = case.find("skipped")
        failure = case.find("failure") if case.find("failure") is not None else case.find("error")
        if failure is not None:
            # Of a program that died or hung, Bazel says only here what became of it.
            reason = (failure.get("message", "").strip() or "no reason given").splitlines()[0][:400]
            tally.failed.append(f"{name}: {reason}")
        elif skip is not None or case.get("status") == "notrun":
            reason = skip.get("message", "") if skip is not None else "disabled"
            tally.skipped.append(f"{name}: {' '.join(reason.split())}")
        else:
            tally.passed += 1
    return tally


def at_least_one_failure(tally: Tally, what: str) -> Tally:
    """For a step whose exit code says that it failed."""
    if not tally.failed:
        tally.failed.append(what)
    return tally


def run_lint() -> Tally:
    """clang-format, ruff, mypy and the analysis of locks."""
    results = lint.run_checks()
    return Tally(sum(results.values()), [f"lint: {name}" for name, ok in results.items() if not ok])


def read_build_events(path: Path) -> Tally:
    """Sum over the test targets that Bazel reported, from its build event file."""
    tally = Tally()
    files: dict[str, list[Path]] = {}
    for line in path.read_text().splitlines():
        event = json.loads(line)
        label = event["id"].get("testResult", event["id"].get("testSummary", {})).get("label")
        for output in event.get("testResult", {}).get("testActionOutput", []):
            if output["name"] == "test.xml":
                files.setdefault(label, []).append(Path(urllib.parse.urlparse(output["uri"]).path))
        status = event.get("testSummary", {}).get("overallStatus")
        if status is None:
            continue
        target = Tally()
        for file in files.get(label, []):
            target.add(read_junit(file, f"{label} "))
        tally.add(target if status == "PASSED" else at_least_one_failure(target, f"{label}: {status}"))
    return tally


def run_bazel() -> Tally:
    """Builds everything, then runs every C++ test."""
    if subprocess.run(["bazel", "build", "//..."], cwd=ROOT).returncode:
        return Tally(failed=["bazel build //..."])
    events = OUT / "bazel.json"
    events.unlink(missing_ok=True)
    code = subprocess.run(["bazel", "test", "//...", f"--build_event_json_file={events}"], cwd=ROOT).returncode
    tally = Tally(passed=1)
    if events.exists():
        tally.add(read_build_events(events))
    # 4: everything was built, and there is no test.
    return tally if code in (0, 4) else at_least_one_failure(tally, f"bazel test //...: exit code {code}")


def run_pytest() -> Tally:
    """Every Python test, against what was just built. More at a time than cores: jobs wait as often as they compute."""
    report = OUT / "pytest.xml"
    report.unlink(missing_ok=True)
    # worksteal: who has no test left takes some of the others', also out of the middle of a file. On two cores two at a
    # time took 791 s, three 666 s, of which the processor's part was 622.
    options = [
        "-q",
        "-rs",
        f"-n{(os.cpu_count() or 2) * 3 // 2}",
        "--dist=worksteal",
        "--durations=15",
        f"--junitxml={report}",
    ]
    code = subprocess.run([sys.executable, "-m", "pytest", *options], cwd=ROOT).returncode
    tally = read_junit(report) if report.exists() else Tally()
    return tally if code == 0 else at_least_one_failure(tally, f"pytest: exit code {code}")


def run_target(name: str) -> Tally:
    """A target of the Makefile that tests what `make test` leaves out."""
    report = OUT / f"{name}.xml"
    report.unlink(missing_ok=True)
    code = subprocess.run(["make", "--no-print-directory", name], cwd=ROOT).returncode
    tally = read_junit(report) if report.exists() else Tally(passed=int(code == 0))
    return tally if code == 0 else at_least_one_failure(tally, f"make {name}: exit code {code}")


def too_late(name: str, now: float, until: float) -> str:
    """Why a target is not begun, `now` and `until` in seconds of the clock; "" if it is."""
    if now <= until:
        return ""
    return f"make {name}: this machine was slow, {(now - until) / 60:.1f} minutes ago was the last time to begin"


def in_turn(names: list[str], now: float) -> list[str]:
    """`names`, of which another one is the first in each hour; `now` in seconds of the clock."""
    first = int(now // 3600) % max(len(names), 1)
    return names[first:] + names[:first]


class Steps:
    """Runs one after the other, and says how long each took."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.total = Tally()
        self.took: list[tuple[str, float]] = []

    def run(self, name: str, step: Callable[..., Tally], *arguments: object) -> Tally:
        """What the step has found; it is counted in the sum."""
        started = time.monotonic()
        tally = step(*arguments)
        self.took.append((name, time.monotonic() - started))
        self.total.add(tally)
        return tally

    def table(self) -> str:
        """A line for each step, and one for all."""
        rows = [*self.took, ("all of it", time.monotonic() - self.began)]
        return "\n".join(f"{seconds:6.0f} s  {name}" for name, seconds in rows)


def main(arguments: list[str]) -> int:
    """Runs the steps; a failed one does not stop the next, except that without a build there is nothing to test."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--until", type=float, default=math.inf)
    parser.add_argument("--in-turn", nargs="*", default=[])
    parser.add_argument("targets", nargs="*")
    options = parser.parse_args(arguments)
    targets = [*options.targets, *in_turn(options.in_turn, time.time())]
    OUT.mkdir(parents=True, exist_ok=True)
    steps = Steps()
    steps.run("lint", run_lint)
    total = steps.total
    if steps.run("bazel", run_bazel).passed:
        steps.run("pytest", run_pytest)
        for name in targets:
            late = too_late(name, time.time(), options.until)
            if late:
                total.skipped.append(late)
            else:
                steps.run(name, run_target, name)
    else:
        total.failed += [f"{name}: not run, the build failed" for name in ("pytest", *targets)]
    print(steps.table())
    for name in total.skipped:
        print(f"SKIPPED {name}")
    for name in total.failed:
        print(f"FAILED {name}")
    if total.skipped:
        print(f"{len(total.skipped)} skipped, see above")
    print(f"{total.passed} passed, {len(total.failed)} failed")
    return 1 if total.failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
