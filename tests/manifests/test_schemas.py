"""Every object is one that its API server takes: Kubernetes' own kinds strictly against the schemas of several
releases, JobSet and Trainer against the types of their client. There is no schema to be installed for MPIJob and the
kinds of the Prometheus operator; test_kinds.py says what is known about these."""

from __future__ import annotations

from typing import Any

import kubernetes_validate
import manifests
import pytest
from kubeflow_trainer_api import models

RELEASES = ("1.31", "1.33", "1.35", kubernetes_validate.latest_version())
TYPES = {
    "JobSet": models.JobsetV1alpha2JobSet,
    "TrainJob": models.TrainerV1alpha1TrainJob,
    "TrainingRuntime": models.TrainerV1alpha1TrainingRuntime,
}
BY_HAND = ("MPIJob", "PodMonitor", "PrometheusRule", "ServiceMonitor")


def complain(found: dict[str, Any], release: str) -> str:
    try:
        kubernetes_validate.validate(found, release, strict=True)
    except kubernetes_validate.ValidationError as error:
        return f"{'.'.join(str(part) for part in error.path)}: {error.message}"
    return ""


def without_none(node: Any) -> Any:
    if isinstance(node, dict):
        return {name: without_none(value) for name, value in node.items() if value is not None}
    return [without_none(value) for value in node] if isinstance(node, list) else node


def lost(given: Any, kept: Any, path: str = "") -> list[str]:
    """Where `kept` lacks or changes something of `given`: the types drop what they do not know."""
    if isinstance(given, dict) and isinstance(kept, dict):
        return [p for name, value in given.items() for p in lost(value, kept.get(name), f"{path}.{name}")]
    if isinstance(given, list) and isinstance(kept, list) and len(given) == len(kept):
        return [p for i, value in enumerate(given) for p in lost(value, kept[i], f"{path}[{i}]")]
    return [] if given == kept else [path]


@pytest.mark.parametrize("overlay", manifests.OVERLAYS)
def test_kubernetes_takes_them(overlay: str) -> None:
    for found in manifests.render(overlay):
        if found["kind"] in TYPES or found["kind"] in BY_HAND:
            continue
        bad = {release: complain(found, release) for release in RELEASES}
        assert not any(bad.values()), (overlay, found["kind"], bad)


@pytest.mark.parametrize("kind", TYPES)
def test_their_own_types_know_every_field(kind: str) -> None:
    found = [each for overlay in manifests.OVERLAYS for each in manifests.render(overlay) if each["kind"] == kind]
    assert found
    for each in found:
        kept = without_none(TYPES[kind].from_dict(each).to_dict())
        assert lost(each, kept) == []


def test_jobs_inside_of_other_kinds_are_jobs() -> None:
    """Strictly, which the types of Trainer are not; Trainer itself completes the one of its runtime."""
    for overlay, spec in manifests.job_specs():
        job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "x"}, "spec": spec}
        assert [complain(job, release) for release in RELEASES] == [""] * len(RELEASES), overlay


def test_pods_inside_of_other_kinds_are_pods() -> None:
    for pod in manifests.pods():
        found = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "labels": pod.labels}, "spec": pod.spec}
        assert [complain(found, release) for release in RELEASES] == [""] * len(RELEASES), str(pod)


@pytest.mark.parametrize("overlay", manifests.OVERLAYS)
def test_they_are_put_where_the_user_says(overlay: str) -> None:
    assert [each["kind"] for each in manifests.render(overlay) if "namespace" in each["metadata"]] == []
