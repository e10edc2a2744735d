"""What a careful cluster asks of every pod (Kubernetes calls the strictest level `restricted`), and who may connect to
whom."""

from __future__ import annotations

import re
from typing import Any

import manifests
import pytest

PODS = manifests.pods()
WORKER = {"app.kubernetes.io/name": "farandole", "app.kubernetes.io/component": "worker"}


@pytest.mark.parametrize("pod", PODS, ids=str)
def test_no_rights(pod: manifests.Pod) -> None:
    shared = pod.spec["securityContext"]
    assert shared["runAsNonRoot"] is True and shared["runAsUser"] > 0 and shared["runAsGroup"] > 0
    assert shared["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod.spec["automountServiceAccountToken"] is False
    assert pod.spec["enableServiceLinks"] is False
    assert not {"hostNetwork", "hostPID", "hostIPC"} & pod.spec.keys()
    for container in pod.containers:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }


@pytest.mark.parametrize("pod", PODS, ids=str)
def test_limits_and_tags(pod: manifests.Pod) -> None:
    for container in pod.containers:
        for kind in ("requests", "limits"):
            assert {"cpu", "memory"} <= container["resources"][kind].keys()
        assert re.fullmatch(r"[\w./-]+:(?!latest$)[\w.-]+", container["image"])
    for volume in pod.spec["volumes"]:
        if "emptyDir" in volume:
            assert "sizeLimit" in volume["emptyDir"], volume["name"]
        assert "hostPath" not in volume


@pytest.mark.parametrize("pod", PODS, ids=str)
def test_volumes_are_there_and_used(pod: manifests.Pod) -> None:
    mounted = {mount["name"] for container in pod.containers for mount in container["volumeMounts"]}
    assert mounted == {volume["name"] for volume in pod.spec["volumes"]}


@pytest.mark.parametrize("pod", PODS, ids=str)
def test_secrets_are_files_that_the_programs_read(pod: manifests.Pod) -> None:
    """Mode 0440 of root's, which they take, is what fsGroup makes of 0400. Workers never see the controller's private
    key, nor its own key."""
    for container in pod.containers:
        assert "envFrom" not in container
        for variable in container.get("env", []):
            assert "secretKeyRef" not in variable.get("valueFrom", {}), variable["name"]
    for volume in pod.spec["volumes"]:
        secret = volume.get("secret")
        if not secret:
            continue
        files = {item["key"] for item in secret["items"]}
        if files != {"ca.crt"}:
            assert secret["defaultMode"] == 0o400 and pod.spec["securityContext"]["fsGroup"] > 0
        if pod.labels["app.kubernetes.io/component"] == "worker":
            assert "tls.key" not in files and secret["secretName"] != "farandole-key"


def test_no_secret_in_clear() -> None:
    for path in manifests.FOLDER.rglob("*"):
        text = path.read_text() if path.is_file() else ""
        assert not re.search(r"^kind: Secret$|PRIVATE KEY-----|[0-9a-f]{32}", text, re.M), path


def test_the_controller_is_asked_whether_it_is_ready() -> None:
    (container,) = manifests.find("base", "Deployment")["spec"]["template"]["spec"]["containers"]
    (port,) = [port["containerPort"] for port in container["ports"] if port["name"] == "health"]
    for probe in ("readinessProbe", "startupProbe"):
        assert container[probe]["grpc"] == {"port": port}
    assert "livenessProbe" not in container, "health says readiness"


def selects(selector: dict[str, Any], labels: dict[str, str]) -> bool:
    assert selector.keys() <= {"matchLabels"}, selector
    return selector.get("matchLabels", {}).items() <= labels.items()


def admits(policy: dict[str, Any], labels: dict[str, str], port: str, same_namespace: bool) -> bool:
    """Whether a NetworkPolicy lets a pod with these labels connect to that port, of a pod that it is for."""
    for rule in policy["spec"]["ingress"]:
        if "ports" in rule and {"port": port} not in rule["ports"]:
            continue
        for peer in rule["from"]:
            assert peer.keys() <= {"podSelector", "namespaceSelector"} and peer.get("namespaceSelector", {}) == {}
            if (same_namespace or "namespaceSelector" in peer) and selects(peer["podSelector"], labels):
                return True
    return False


def test_who_reaches_the_controller() -> None:
    policy, deployment = manifests.find("base", "NetworkPolicy"), manifests.find("base", "Deployment")
    own = deployment["spec"]["template"]["metadata"]["labels"]
    assert selects(policy["spec"]["podSelector"], own)
    assert not selects(policy["spec"]["podSelector"], WORKER)
    prometheus = {"app.kubernetes.io/name": "prometheus"}
    for same_namespace in (True, False):
        for labels, ports in ((WORKER, ["agents"]), (prometheus, ["metrics"]), (own, []), ({"app": "other"}, [])):
            open_to = [p for p in ("agents", "health", "metrics") if admits(policy, labels, p, same_namespace)]
            assert open_to == ports, (labels, same_namespace)
    assert sorted(policy["spec"]["policyTypes"]) == ["Egress", "Ingress"] and policy["spec"]["egress"] == []
    ports = {port["name"] for port in deployment["spec"]["template"]["spec"]["containers"][0]["ports"]}
    assert {port["port"] for rule in policy["spec"]["ingress"] for port in rule["ports"]} <= ports


@pytest.mark.parametrize("pod", [p for p in PODS if p.labels.items() >= WORKER.items()], ids=str)
def test_who_reaches_a_worker(pod: manifests.Pod) -> None:
    """The pods of its job on every port, nobody else."""
    policy = manifests.find(pod.overlay, "NetworkPolicy")
    assert selects(policy["spec"]["podSelector"], pod.labels)
    assert admits(policy, pod.labels, "any", same_namespace=True)
    assert not admits(policy, pod.labels, "any", same_namespace=False)
    other_job = {**pod.labels, "app.kubernetes.io/instance": "other"}
    for stranger in (other_job, {"app": "other"}, {"app.kubernetes.io/name": "prometheus"}):
        assert not admits(policy, stranger, "any", same_namespace=True), stranger
    assert policy["spec"]["policyTypes"] == ["Ingress"]


def test_services_choose_the_controller() -> None:
    pod = manifests.find("base", "Deployment")["spec"]["template"]
    ports = {port["name"] for port in pod["spec"]["containers"][0]["ports"]}
    for overlay in ("base", "monitoring/by-service"):
        service = manifests.find(overlay, "Service")["spec"]
        assert service["selector"].items() <= pod["metadata"]["labels"].items()
        assert {port["targetPort"] for port in service["ports"]} <= ports
