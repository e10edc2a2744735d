"""Kinds for which no schema can be installed, by hand: MPIJob and those of the Prometheus operator. And what Trainer
and JobSet want by name."""

from __future__ import annotations

import re
from typing import Any

import manifests

PAGE = (manifests.ROOT / "docs" / "metrics.md").read_text()
TEXT = (manifests.ROOT / "controller" / "metrics" / "metrics_text.cc").read_text()
METRICS = set(re.findall(r'"(farandole_\w+)"', TEXT))
# Of PromQL, as far as the rules need it.
WORDS = {"absent", "and", "by", "changes", "group_left", "max", "on", "or", "rate", "sum"}


def rules() -> list[dict[str, Any]]:
    groups = manifests.find("monitoring/rules", "PrometheusRule")["spec"]["groups"]
    return [rule for group in groups for rule in group["rules"]]


def test_every_metric_exists() -> None:
    recorded = {rule["record"] for rule in rules() if "record" in rule}
    labels = {"namespace"} | set(re.findall(r"\b(training_job|rank|phase|state|version)\b", PAGE))
    assert len(METRICS) > 20 and len(recorded) == 4
    for rule in rules():
        named = set(re.findall(r"[a-z][\w:]*", re.sub(r"\[[\w:]+\]", "", rule["expr"])))
        assert named & (METRICS | recorded), rule
        assert named <= METRICS | recorded | labels | WORDS, rule
        assert rule["expr"].count("(") == rule["expr"].count(")")
        # rate() is for counters.
        assert all(f'"{name}", "counter"' in TEXT for name in re.findall(r"rate\((\w+)", rule["expr"])), rule


def test_rules_are_whole() -> None:
    alerts = {rule["alert"]: rule for rule in rules() if "alert" in rule}
    wanted = ("ControllerAbsent", "ControllerRestarted", "JobDiverged", "JobStalled")
    wanted += ("NamespaceFull", "Straggler", "Unresponsive")
    assert sorted(alerts) == [f"Farandole{name}" for name in wanted]
    for rule in alerts.values():
        assert rule.keys() <= {"alert", "expr", "for", "labels", "annotations"}
        assert rule["labels"]["severity"] in ("critical", "warning", "info")
        assert set(rule["annotations"]) == {"summary", "description"}
    for rule in rules():
        assert "alert" in rule or re.fullmatch(r"[a-z_]+:[a-z_]+:[a-z0-9]+", rule["record"])


def test_monitors_find_the_controller() -> None:
    pod = manifests.find("base", "Deployment")["spec"]["template"]
    ports = {port["name"] for port in pod["spec"]["containers"][0]["ports"]}
    by_pod = manifests.find("monitoring/by-pod", "PodMonitor")
    assert by_pod["apiVersion"] == "monitoring.coreos.com/v1"
    assert by_pod["spec"]["selector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    assert [end["port"] for end in by_pod["spec"]["podMetricsEndpoints"]] == ["metrics"] and "metrics" in ports
    by_service, service = (manifests.find("monitoring/by-service", kind) for kind in ("ServiceMonitor", "Service"))
    wanted = by_service["spec"]["selector"]["matchLabels"].items()
    assert wanted <= service["metadata"]["labels"].items()
    assert not wanted <= manifests.find("base", "Service")["metadata"]["labels"].items()
    names = [port["name"] for port in service["spec"]["ports"]]
    assert [end["port"] for end in by_service["spec"]["endpoints"]] == names


def test_an_mpi_job_starts_its_ranks_as_the_docs_say() -> None:
    job = manifests.find("mpi-operator", "MPIJob")
    assert job["apiVersion"] == "kubeflow.org/v2beta1"
    assert job["spec"].keys() <= {"slotsPerWorker", "runPolicy", "sshAuthMountPath", "mpiReplicaSpecs"}
    launcher, workers = (job["spec"]["mpiReplicaSpecs"][role] for role in ("Launcher", "Worker"))
    (container,) = launcher["template"]["spec"]["containers"]
    words, variables = container["args"], {each["name"]: each["value"] for each in container["env"]}
    assert container["command"] == ["mpirun"]
    ranks = workers["replicas"] * job["spec"]["slotsPerWorker"]
    assert words[:2] == ["-np", str(ranks)]
    handed_on = {words[i + 1] for i, word in enumerate(words) if word == "-x"}
    assert handed_on == variables.keys() == {"FARANDOLE_CONTROLLER", "FARANDOLE_KEY_FILE"}
    launching = (manifests.ROOT / "docs" / "launching.md").read_text()
    assert "| `mpirun` (Open MPI) |" in launching and all(f"`{name}`" in launching for name in handed_on)
    assert variables["FARANDOLE_CONTROLLER"].startswith(f"{job['metadata']['name']}-worker-0.")
    (worker,) = workers["template"]["spec"]["containers"]
    folder, _, name = variables["FARANDOLE_KEY_FILE"].rpartition("/")
    (mount,) = [each["name"] for each in worker["volumeMounts"] if each["mountPath"] == folder]
    (secret,) = [each["secret"] for each in workers["template"]["spec"]["volumes"] if each["name"] == mount]
    assert [item["path"] for item in secret["items"]] == [name]


def test_trainer_finds_what_it_looks_for() -> None:
    runtime, job = (manifests.find("kubeflow-trainer", kind) for kind in ("TrainingRuntime", "TrainJob"))
    assert job["spec"]["runtimeRef"]["name"] == runtime["metadata"]["name"]
    assert job["spec"]["runtimeRef"]["kind"] == runtime["kind"]
    assert "torch" in runtime["spec"]["mlPolicy"]
    (node,) = runtime["spec"]["template"]["spec"]["replicatedJobs"]
    assert node["name"] == "node"
    assert node["template"]["metadata"]["labels"] == {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}
    (container,) = node["template"]["spec"]["template"]["spec"]["containers"]
    assert container["name"] == "node"


def test_a_final_failure_ends_a_job_set() -> None:
    specs = [manifests.find("jobset", "JobSet")["spec"]]
    specs += [manifests.find("kubeflow-trainer", "TrainingRuntime")["spec"]["template"]["spec"]]
    for spec in specs:
        (rule,) = spec["failurePolicy"]["rules"]
        assert rule["action"] == "FailJobSet" and rule["onJobFailureReasons"] == ["PodFailurePolicy"]
        assert spec["failurePolicy"]["maxRestarts"] > 0
        assert [job["template"]["spec"]["backoffLimit"] for job in spec["replicatedJobs"]] == [0]
