"""Every metric that is named anywhere is there, and the files of docs/monitoring.md are YAML."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "monitoring.md").read_text()


MADE = set(re.findall(r'"(farandole_\w+)"', (ROOT / "controller" / "metrics" / "metrics_text.cc").read_text()))
# Not the names of recording rules, in which one of a metric stands behind a colon.
NAMED = re.compile(r"(?<![\w:/])farandole_(?:controller_|jobs\b|job_|rank_)\w*\b")


def test_metrics_exist() -> None:
    files = [*(ROOT / "docs").rglob("*.md"), *(f for f in (ROOT / "deploy").rglob("*") if f.is_file())]
    named = {str(file.relative_to(ROOT)): set(NAMED.findall(file.read_text())) for file in files}
    assert sum(bool(names) for names in named.values()) >= 4 and len(named["docs/monitoring.md"]) > 5
    assert {file: names - MADE for file, names in named.items() if names - MADE} == {}


def test_all_metrics_are_described() -> None:
    page = (ROOT / "docs" / "metrics.md").read_text()
    rows = " ".join(re.findall(r"^\| (.*?) \| (?:gauge|counter) \|", page, re.M))
    assert set(re.findall(r"`(\w+)`", rows)) == MADE


def test_files_are_yaml() -> None:
    files = dict(re.findall(r'^```yaml title="([\w.]+)"\n(.*?)^```$', PAGE, re.M | re.S))
    (scraped,) = yaml.safe_load(files["prometheus.yml"])["scrape_configs"]
    assert scraped["static_configs"] == [{"targets": ["127.0.0.1:9400"]}] and "--metrics-port 9400" in PAGE
    (group,) = yaml.safe_load(files["rules.yml"])["groups"]
    assert group["rules"][0]["expr"].startswith("farandole_job_longest_wait_seconds")
