"""What docs/monitoring.md scrapes and asks for is there, and its files are YAML."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "monitoring.md").read_text()


def test_metrics_exist() -> None:
    made = set(re.findall(r'"(farandole_\w+)"', (ROOT / "controller" / "metrics" / "metrics_text.cc").read_text()))
    named = set(re.findall(r"\bfarandole_\w+", PAGE))
    assert len(named) > 5
    assert named - made == set()


def test_files_are_yaml() -> None:
    files = dict(re.findall(r'^```yaml title="([\w.]+)"\n(.*?)^```$', PAGE, re.M | re.S))
    (scraped,) = yaml.safe_load(files["prometheus.yml"])["scrape_configs"]
    assert scraped["static_configs"] == [{"targets": ["127.0.0.1:9400"]}] and "--metrics-port 9400" in PAGE
    (group,) = yaml.safe_load(files["rules.yml"])["groups"]
    assert group["rules"][0]["expr"].startswith("farandole_job_longest_wait_seconds")
