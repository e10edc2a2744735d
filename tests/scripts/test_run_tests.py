"""What scripts/run_tests.py reads from a JUnit file."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import run_tests


def test_a_failure_says_why(tmp_path: Path) -> None:
    report = tmp_path / "test.xml"
    report.write_text(
        """<testsuites><testsuite>
        <testcase classname="Suite" name="Good" status="run"/>
        <testcase classname="Suite" name="Bad" status="run"><failure message="a.cc:1&#x0A;more"/></testcase>
        <testcase name="a/b_test" status="run"><error message="exited with error code 142"/></testcase>
        <testcase classname="Suite" name="Mute" status="run"><error message=" "/></testcase>
        <testcase classname="Suite" name="Off" status="notrun"/>
        </testsuite></testsuites>"""
    )
    tally = run_tests.read_junit(report, "//a:b_test ")
    assert tally.passed == 1
    assert tally.failed == [
        "//a:b_test Suite.Bad: a.cc:1",
        "//a:b_test None.a/b_test: exited with error code 142",
        "//a:b_test Suite.Mute: no reason given",
    ]
    assert tally.skipped == ["//a:b_test Suite.Off: disabled"]


@pytest.mark.parametrize(
    ("code", "cases", "passed", "failed"), [(0, 0, 1, 0), (2, 0, 0, 1), (0, 3, 3, 0), (2, 3, 3, 1)]
)
def test_a_target_counts_its_cases_or_one(
    code: int, cases: int, passed: int, failed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def make(command: list[str], cwd: Path) -> subprocess.CompletedProcess:
        if cases:
            text = "<testsuite>" + '<testcase classname="a" name="b"/>' * cases + "</testsuite>"
            (tmp_path / "target.xml").write_text(text)
        return subprocess.CompletedProcess(command, code)

    monkeypatch.setattr(run_tests, "OUT", tmp_path)
    # Of an earlier run.
    (tmp_path / "target.xml").write_text("<testsuite/>")
    monkeypatch.setattr(subprocess, "run", make)
    tally = run_tests.run_target("target")
    assert (tally.passed, len(tally.failed)) == (passed, failed)


def test_what_a_slow_machine_has_no_time_for_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    begun = []
    monkeypatch.setattr(run_tests, "OUT", tmp_path)
    monkeypatch.setattr(run_tests, "run_lint", lambda: run_tests.Tally(passed=1))
    monkeypatch.setattr(run_tests, "run_bazel", lambda: run_tests.Tally(passed=1))
    monkeypatch.setattr(run_tests, "run_pytest", lambda: run_tests.Tally(passed=1))
    monkeypatch.setattr(run_tests, "run_target", lambda name: begun.append(name) or run_tests.Tally(passed=1))
    assert run_tests.main(["--until=1", "wheel-test", "test-rdma"]) == 0
    assert begun == []
    out = capsys.readouterr().out
    assert "SKIPPED make wheel-test: this machine was slow" in out
    assert out.endswith("2 skipped, see above\n3 passed, 0 failed\n")
    assert run_tests.main(["wheel-test", "test-rdma", "--in-turn", "test-jax"]) == 0
    assert begun == ["wheel-test", "test-rdma", "test-jax"]
    assert "skipped" not in capsys.readouterr().out


def test_each_target_is_the_first_in_some_hour() -> None:
    names = ["a", "b", "c"]
    orders = [run_tests.in_turn(names, 3600.0 * hour + 1) for hour in range(3)]
    assert sorted(order[0] for order in orders) == names
    assert all(sorted(order) == names for order in orders)
    assert run_tests.in_turn([], 1.0) == []
