"""Each alert fires by what it warns of, in a real Prometheus that scrapes a real controller, and not without it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import deployed
import prometheus
import pytest

NAMESPACE = "training"
# What would take minutes; every `for` becomes a second, too. test_rules.py has the true numbers.
SHORTER = {"farandole_job_longest_wait_seconds > 300": "farandole_job_longest_wait_seconds > 2"}


def shortened() -> list[dict[str, Any]]:
    """The rules, so that causes of seconds are enough."""
    made, changed = prometheus.groups(), set()
    for group in made:
        for rule in group["rules"]:
            if rule["expr"] in SHORTER:
                changed.add(rule["expr"])
                rule["expr"] = SHORTER[rule["expr"]]
            if "for" in rule:
                rule["for"] = "1s"
    assert changed == set(SHORTER)
    return made


class Watched:
    """A controller and the Prometheus that scrapes it."""

    def __init__(self, controller: deployed.Controller, scraping: prometheus.Prometheus) -> None:
        self.controller, self.scraping = controller, scraping

    def wait_for(self, alert: str, **labels: str) -> None:
        """Until it fires, with these labels."""

        def fires() -> bool:
            return labels.items() <= self.scraping.firing().get(f"Farandole{alert}", {}).items()

        self.scraping.until(lambda: f"Farandole{alert}" in self.scraping.firing() and fires(), f"{alert} {labels}")

    def wait_for_end(self, alert: str) -> None:
        self.scraping.until(lambda: f"Farandole{alert}" not in self.scraping.firing(), f"the end of {alert}")


@contextmanager
def watched(folder: Path) -> Iterator[Watched]:
    with deployed.controller(folder / "controller") as controller:
        with prometheus.running(folder / "prometheus", {NAMESPACE: controller.metrics}, shortened()) as scraping:
            scraping.until(lambda: scraping.query("farandole_controller_info"), "the first scrape")
            yield Watched(controller, scraping)


@pytest.fixture
def watch(tmp_path: Path) -> Iterator[Watched]:
    with watched(tmp_path) as found:
        yield found


def test_a_stopped_rank(tmp_path: Path, watch: Watched) -> None:
    with deployed.training(tmp_path / "job", watch.controller, "stopped") as training:
        size = 'farandole_job_size{training_job="stopped"} == 3'
        watch.scraping.until(lambda: watch.scraping.query(size), "the job is scraped")
        training.stop(1)
        watch.wait_for("JobStalled", training_job="stopped", namespace=NAMESPACE, severity="warning")
        watch.wait_for("Unresponsive", training_job="stopped", namespace=NAMESPACE, severity="warning")
        # Three waits that are true say nothing of ranks that go different ways.
        assert watch.scraping.firing().keys() == {"FarandoleJobStalled", "FarandoleUnresponsive"}
        training.go_on(1)
        watch.wait_for_end("JobStalled")
        watch.wait_for_end("Unresponsive")
        training.end()


def test_ranks_that_go_different_ways(tmp_path: Path, watch: Watched) -> None:
    with deployed.training(
        tmp_path / "job", watch.controller, "diverged", FARANDOLE_DIVERGENCE_SECONDS="10"
    ) as training:
        training.diverge()
        watch.wait_for("JobDiverged", training_job="diverged", namespace=NAMESPACE, severity="warning")
        assert training.job.wait() != 0


def test_a_late_rank(tmp_path: Path, watch: Watched) -> None:
    with deployed.training(tmp_path / "job", watch.controller, "late", LATE="1") as training:
        watch.wait_for("Straggler", training_job="late", rank="1", namespace=NAMESPACE, severity="info")
        assert watch.scraping.firing().keys() == {"FarandoleStraggler"}
        training.end()


def test_a_namespace_at_its_limit(tmp_path: Path, watch: Watched) -> None:
    with deployed.training(tmp_path / "job", watch.controller, "full.first") as training:
        watch.wait_for("NamespaceFull", job_namespace="full", namespace=NAMESPACE, severity="info")
        assert watch.scraping.firing().keys() == {"FarandoleNamespaceFull"}
        training.end()
        watch.wait_for_end("NamespaceFull")


def test_a_killed_controller_and_the_next_one(tmp_path: Path, watch: Watched) -> None:
    with deployed.training(tmp_path / "job", watch.controller, "trains-on") as training:
        twice = "count_over_time(farandole_controller_start_time_seconds[1m]) > 2"
        watch.scraping.until(lambda: watch.scraping.query(twice), "two scrapes")
        assert watch.scraping.firing() == {}
        watch.controller.kill()
        watch.wait_for("ControllerAbsent", severity="critical")
        watch.controller.start()
        watch.wait_for("ControllerRestarted", namespace=NAMESPACE, severity="warning")
        watch.wait_for_end("ControllerAbsent")
        training.end()


def test_every_alert_is_here() -> None:
    text = Path(__file__).read_text()
    alerts = [rule["alert"] for rule in prometheus.rules() if "alert" in rule]
    assert len(alerts) == 7
    for alert in alerts:
        assert f'watch.wait_for("{alert[len("Farandole") :]}"' in text, alert
