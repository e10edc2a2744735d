"""Every query of the Grafana dashboard, every recording rule and every expression of docs/monitoring.md finds what it
asks for, of a real job and of a page with all metrics."""

from __future__ import annotations

import re
from collections.abc import Iterator

import deployed
import every_metric
import grafana
import pages
import prometheus
import pytest

JOB = "digits"
REAL, SYNTHETIC = "training", "synthetic"
QUERIES = grafana.queries(training_job=".*", __rate_interval="1m")
RECORDED = {rule["record"]: rule["expr"] for rule in prometheus.rules() if "record" in rule}
PAGE = pages.DOCS / "monitoring.md"
ASKED = re.findall(r"^\| [^|`]*\? \| `([^`|]+)`", PAGE.read_text(), re.M)
ASKED += re.findall(r"^ +expr: (.+)$", PAGE.read_text(), re.M)


@pytest.fixture(scope="module")
def scraped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[prometheus.Prometheus]:
    folder = tmp_path_factory.mktemp("queries")
    with deployed.controller(folder / "controller") as controller, every_metric.served() as page:
        targets = {REAL: controller.metrics, SYNTHETIC: page}
        with prometheus.running(folder / "prometheus", targets, prometheus.groups()) as found:
            with deployed.training(folder / "job", controller, JOB, LATE="1") as training:
                yield found
                training.end()


def find(scraped: prometheus.Prometheus, expression: str, **labels: str) -> list[prometheus.Sample]:
    """What has these labels, or has none of their names, and is a number; waits until something does."""

    def found() -> list[prometheus.Sample]:
        return [
            each
            for each in scraped.query(expression)
            if each["value"][1] != "NaN" and all(each["metric"].get(n, v) == v for n, v in labels.items())
        ]

    return scraped.until(found, f"data of {expression}")


def of_gpus(expression: str) -> bool:
    """A machine without GPUs has none of these; the synthetic page does."""
    return "farandole_rank_device_" in expression


@pytest.mark.parametrize("title", QUERIES)
def test_the_dashboard(scraped: prometheus.Prometheus, title: str) -> None:
    expression = QUERIES[title]
    find(scraped, expression.replace("$namespace", SYNTHETIC), training_job="on-gpus", namespace=SYNTHETIC)
    if not of_gpus(expression):
        find(scraped, expression.replace("$namespace", REAL), training_job=JOB, namespace=REAL)


@pytest.mark.parametrize("record", RECORDED)
def test_recording_rules(scraped: prometheus.Prometheus, record: str) -> None:
    for namespace, job in ((SYNTHETIC, "on-gpus"), (REAL, JOB)):
        assert find(scraped, record, training_job=job, namespace=namespace)[0]["metric"]["namespace"] == namespace


@pytest.mark.parametrize("expression", ASKED)
def test_the_docs(scraped: prometheus.Prometheus, expression: str) -> None:
    """Their comparisons are true of the page with all metrics alone: the job here is well."""
    find(scraped, expression, training_job="on-gpus")
    if not re.search(r"[<=>]", expression) and not of_gpus(expression):
        find(scraped, expression, training_job=JOB)


def test_there_are_queries_of_all_kinds() -> None:
    assert len(QUERIES) > 25 and len(RECORDED) == 4 and len(ASKED) == 8
    assert sum(map(of_gpus, QUERIES.values())) == 2


def test_they_tell_the_truth(scraped: prometheus.Prometheus) -> None:
    """Of the job: three ranks, of which the second is late by 0.15 s and nearly always the last."""

    def value(expression: str) -> float:
        (found,) = find(scraped, expression)
        return float(found["value"][1])

    of = f'{{training_job="{JOB}"}}'
    assert value(f"farandole_job_size{of}") == 3
    (worst,) = find(scraped, f"topk(1, farandole_rank_lateness_seconds{of})")
    assert worst["metric"]["rank"] == "1" and 0.1 < float(worst["value"][1]) < 1
    share = f'namespace_training_job_rank:farandole_rank_last:share10m{{training_job="{JOB}",rank="1"}}'
    scraped.until(lambda: value(share) > 0.8, "rank 1 is mostly the last one")
    # Three ranks with 8,000 bytes in each batch.
    bytes_each = f"farandole_job_bytes_total{of} / farandole_job_batches_total{of}"
    assert value(bytes_each) == pytest.approx(8000, rel=0.01)
