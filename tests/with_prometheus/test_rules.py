"""The rules with the numbers that they are deployed with: what promtool says of them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import prometheus
import yaml

TESTS = Path(__file__).with_name("rules_test.yml")


def written(folder: Path, groups: list[dict[str, Any]]) -> Path:
    """They, beside their tests."""
    (folder / "rules.yml").write_text(yaml.safe_dump({"groups": groups}))
    return Path(shutil.copy(TESTS, folder))


def test_promtool_takes_them(tmp_path: Path) -> None:
    written(tmp_path, prometheus.groups())
    done = prometheus.promtool("check", "rules", "--lint=all", "--lint-fatal", str(tmp_path / "rules.yml"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"SUCCESS: {len(prometheus.rules())} rules found" in done.stdout


def test_their_numbers(tmp_path: Path) -> None:
    done = prometheus.promtool("test", "rules", str(written(tmp_path, prometheus.groups())))
    assert done.returncode == 0, done.stdout + done.stderr


def test_other_numbers_are_noticed(tmp_path: Path) -> None:
    """Each rule with another number in it is not the one that the tests describe."""
    numbers = {
        "> 300": "> 330",
        "== 1": "== 2",
        "> 0.8": "> 0.9",
        "[15m:]": "[5m:]",
        "[10m]": "[20m]",
        "[5m]": "[10m]",
        "> 0.1": "> 0.2",
        "farandole_namespace_jobs >=": "farandole_namespace_jobs >",
        "farandole_namespace_agents >=": "farandole_namespace_agents >",
    }
    changes = [("expr", *pair) for pair in numbers.items()]
    changes += [("for", "2m", "4m"), ("for", "10m", "20m"), ("expr", "absent(", "count(")]
    for field, old, new in changes:
        for rule in [each for each in prometheus.rules() if old in each.get(field, "")]:
            name = rule.get("alert", rule.get("record"))
            changed = prometheus.groups()
            for each in (each for group in changed for each in group["rules"]):
                if each.get("alert", each.get("record")) == name:
                    each[field] = each[field].replace(old, new)
            done = prometheus.promtool("test", "rules", str(written(tmp_path, changed)))
            assert done.returncode != 0, (name, old, new)


def test_every_rule_is_tested() -> None:
    tests = yaml.safe_load(TESTS.read_text())["tests"]
    alerts: dict[str, set[bool]] = {}
    for each in (each for test in tests for each in test.get("alert_rule_test", [])):
        alerts.setdefault(each["alertname"], set()).add("exp_alerts" in each)
    recorded = " ".join(each["expr"] for test in tests for each in test.get("promql_expr_test", []))
    for rule in prometheus.rules():
        if "alert" in rule:
            assert alerts[rule["alert"]] == {True, False}, "both sides of the threshold"
        else:
            assert rule["record"] in recorded
