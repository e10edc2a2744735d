"""A Prometheus of a test's own: Debian's, unpacked into .deps, on loopback, with its data in the test's folder."""

from __future__ import annotations

import json
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import processes
import yaml

BIN = processes.ROOT / ".deps" / "prometheus" / "usr" / "bin"
RULES = processes.ROOT / "deploy" / "kubernetes" / "monitoring" / "rules" / "prometheus_rule.yaml"
WAIT_S = 60.0
# As often as the metrics page is written anew.
EVERY = "1s"

Sample = dict[str, Any]


def groups() -> list[dict[str, Any]]:
    """Of rules, as they are deployed."""
    return yaml.safe_load(RULES.read_text())["spec"]["groups"]


def rules() -> list[dict[str, Any]]:
    return [rule for group in groups() for rule in group["rules"]]


def promtool(*words: str) -> subprocess.CompletedProcess[str]:
    assert (BIN / "promtool").exists(), f"{BIN} is missing: run scripts/install_deps.sh --prometheus"
    return subprocess.run([str(BIN / "promtool"), *words], capture_output=True, text=True, timeout=WAIT_S)


class Prometheus:
    """One that runs; asked by its HTTP API."""

    def __init__(self, url: str, log: Path) -> None:
        self.url, self.log = url, log

    def ask(self, path: str, **words: str) -> Any:
        """The data of an answer. A query that is not understood fails the test with what Prometheus says."""
        try:
            with urllib.request.urlopen(
                f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(words)}", timeout=30
            ) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{words}: {error.code} {error.read().decode()}") from None

    def query(self, expression: str) -> list[Sample]:
        """What it is now."""
        found = self.ask("query", query=expression)
        assert found["resultType"] == "vector", expression
        return found["result"]

    def firing(self) -> dict[str, dict[str, str]]:
        """Labels of the alerts that fire, by name."""
        found = self.ask("alerts")["alerts"]
        return {each["labels"]["alertname"]: each["labels"] for each in found if each["state"] == "firing"}

    def until(self, done: Callable[[], Any], what: str, seconds: float = WAIT_S) -> Any:
        """What `done` returns, once it is true; fails the test if that takes too long."""
        end = time.monotonic() + seconds
        while not (found := done()):
            assert time.monotonic() < end, f"{what}: not within {seconds:.0f} s\n{self.log.read_text()[-4000:]}"
            time.sleep(0.1)
        return found


@contextmanager
def running(folder: Path, targets: dict[str, str], rule_groups: list[dict[str, Any]]) -> Iterator[Prometheus]:
    """Scrapes HOST:PORT of each namespace, and evaluates the rules. A namespace is a label of targets in Kubernetes."""
    assert (BIN / "prometheus").exists(), f"{BIN} is missing: run scripts/install_deps.sh --prometheus"
    folder.mkdir()
    static = [{"targets": [address], "labels": {"namespace": name}} for name, address in targets.items()]
    config = {
        "global": {"scrape_interval": EVERY, "scrape_timeout": EVERY, "evaluation_interval": EVERY},
        "rule_files": ["rules.yml"],
        "scrape_configs": [{"job_name": "farandole", "static_configs": static}],
    }
    (folder / "rules.yml").write_text(yaml.safe_dump({"groups": rule_groups}))
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    address = f"127.0.0.1:{processes.free_port()}"
    command = [str(BIN / "prometheus"), "--config.file=prometheus.yml", "--storage.tsdb.path=data"]
    command += [f"--web.listen-address={address}", "--query.lookback-delta=5m"]
    with processes.running(command, folder) as job:
        made = Prometheus(f"http://{address}", job.err)

        def ready() -> bool:
            assert job.process.poll() is None, job.report()
            try:
                return urllib.request.urlopen(f"{made.url}/-/ready", timeout=5).status == 200
            except OSError:
                return False

        try:
            made.until(ready, "Prometheus is ready")
            yield made
        finally:
            job.process.terminate()
            job.wait()
