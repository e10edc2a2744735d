"""Command lines, variables and exit codes in the manifests are those of the programs."""

from __future__ import annotations

import functools
import re
import subprocess

import manifests
import pytest

from farandole.base import locate

CONFIGURATION = (manifests.ROOT / "docs" / "configuration.md").read_text()
CONTAINERS = (manifests.ROOT / "docs" / "containers.md").read_text()
AGENTS = manifests.agents()


@functools.cache
def options(program: str) -> dict[str, bool]:
    """Of `--help`: whether each takes a value."""
    text = subprocess.run([locate.find(program), "--help"], capture_output=True, text=True, check=True).stdout
    return {match[1]: match[2] != "" for match in re.finditer(r"^  (--[\w-]+)((?: [A-Z][\w:,.]*)?) {2}", text, re.M)}


def check_flags(program: str, words: list[str]) -> None:
    known = options(program)
    assert len(known) > 10
    for name, value in manifests.flags(words).items():
        assert name in known, f"{program} has no {name}"
        assert (value != "") == known[name], name


def test_the_controller_knows_its_flags() -> None:
    (container,) = manifests.find("base", "Deployment")["spec"]["template"]["spec"]["containers"]
    assert "command" not in container, "its image begins with the controller"
    check_flags("farandole-controller", container["args"])
    listened = manifests.flags(container["args"])
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    wanted = {"agents": "--listen", "health": "--health-listen", "metrics": "--metrics-listen"}
    assert {name: listened[flag] for name, flag in wanted.items()} == {n: f"0.0.0.0:{p}" for n, p in ports.items()}


@pytest.mark.parametrize("pod", AGENTS, ids=str)
def test_the_agent_knows_its_flags(pod: manifests.Pod) -> None:
    (container,) = pod.containers
    assert container["command"][0] == "/usr/bin/farandole-agent"
    words = container["command"][1:] + container["args"]
    check_flags("farandole-agent", words)
    (port,) = manifests.find("base", "Service")["spec"]["ports"]
    assert manifests.flags(words)["--controller"] == f"farandole-controller:{port['port']}"
    for variable in container["env"]:
        if variable["name"].startswith("FARANDOLE_"):
            assert f"`{variable['name']}`" in CONFIGURATION, variable["name"]


def test_there_are_agents_everywhere() -> None:
    wanted = {"elastic", "gpu", "gpu-rdma", "job", "jobset", "kubeflow-trainer", "rdma"}
    assert {pod.overlay for pod in AGENTS} == wanted


@pytest.mark.parametrize("pod", [p for p in manifests.pods() if p.kind != "MPIJob"], ids=str)
def test_files_of_the_command_line_are_mounted(pod: manifests.Pod) -> None:
    for container in pod.containers:
        words = [*container.get("command", []), *container["args"]]
        paths = {word.rpartition("=")[2] for word in words if re.search(r"(^|=)/(?!usr/bin/)", word)}
        volumes = {volume["name"]: volume for volume in pod.spec["volumes"]}
        there = set()
        for mount in container["volumeMounts"]:
            volume = volumes[mount["name"]]
            files = [item["path"] for item in volume.get("secret", {}).get("items", [])]
            if "configMap" in volume:
                files += list(manifests.find(pod.overlay, "ConfigMap")["data"])
                assert volume["configMap"]["name"] == manifests.find(pod.overlay, "ConfigMap")["metadata"]["name"]
            there |= {f"{mount['mountPath']}/{file}" for file in files}
        assert paths and paths <= there


@pytest.mark.parametrize("overlay", ["job", "gpu", "rdma", "gpu-rdma"])
def test_sizes_fit_together(overlay: str) -> None:
    spec = manifests.find(overlay, "Job")["spec"]
    (container,) = spec["template"]["spec"]["containers"]
    given = manifests.flags(container["args"])
    local = int(given["--local-size"])
    assert spec["completionMode"] == "Indexed"
    assert spec["parallelism"] == spec["completions"]
    assert int(given["--size"]) == spec["completions"] * local
    assert spec["backoffLimit"] == 3 * spec["completions"] - 1
    limits = container["resources"]["limits"]
    assert ("nvidia.com/gpu" in limits) == ("gpu" in overlay)
    assert limits.get("nvidia.com/gpu", local) == local
    assert any(name.startswith("rdma/") for name in limits) == ("rdma" in overlay)


def test_sizes_of_the_others_fit_together() -> None:
    """The agent computes the size."""
    (jobs,) = manifests.find("jobset", "JobSet")["spec"]["replicatedJobs"]
    (container,) = jobs["template"]["spec"]["template"]["spec"]["containers"]
    variables = {each["name"]: each.get("value", each.get("valueFrom")) for each in container["env"]}
    assert jobs["template"]["spec"]["completions"] == jobs["template"]["spec"]["parallelism"] == 1
    assert variables["FARANDOLE_PODS"] == str(jobs["replicas"])
    path = variables["FARANDOLE_POD_INDEX"]["fieldRef"]["fieldPath"]
    assert path == "metadata.labels['jobset.sigs.k8s.io/job-index']"
    assert "--size" not in manifests.flags(container["args"])
    job = manifests.find("kubeflow-trainer", "TrainJob")
    check_flags("farandole-agent", job["spec"]["trainer"]["args"])
    assert "--size" not in manifests.flags(job["spec"]["trainer"]["args"])


def test_exit_codes_are_those_of_the_docs() -> None:
    """docs/containers.md: a Job fails at once except for the codes that it may count, and for 0."""
    table = CONTAINERS[CONTAINERS.index("| code | what has happened |") :].split("\n\n")[0]
    retried = {int(code) for row in re.findall(r"^\| ([\d, ]+) \|", table, re.M) for code in row.split(",")} - {0, 2}
    sentence = re.search(r"`podFailurePolicy` fails for all others, and counts ([\d, and]+) up to", CONTAINERS)
    assert sentence and retried == {int(code) for code in re.findall(r"\d+", sentence[1])}
    found = manifests.job_specs()
    assert {overlay for overlay, _ in found} == {pod.overlay for pod in AGENTS}
    elastic = re.search(r"ignores (\d+) \(`Ignore`\)", CONTAINERS)
    for overlay, spec in found:
        if overlay == "elastic":
            disrupted, left = spec["podFailurePolicy"]["rules"]
            assert {disrupted["action"], left["action"]} == {"Ignore"}
            assert elastic and left["onExitCodes"] == {"operator": "In", "values": [int(elastic[1])]}
            continue
        ignored, final = spec["podFailurePolicy"]["rules"]
        assert ignored == {"action": "Count", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
        assert final["action"] == "FailJob" and final["onExitCodes"]["operator"] == "NotIn", overlay
        assert set(final["onExitCodes"]["values"]) == retried, overlay
        assert spec["template"]["spec"]["restartPolicy"] == "Never"


def test_all_ways_of_starting_run_the_same_pods() -> None:
    """What is written down three times says the same three times."""
    plain = {}
    for overlay, spec in manifests.job_specs():
        if overlay in ("job", "jobset", "kubeflow-trainer"):
            (container,) = spec["template"]["spec"]["containers"]
            own = ("FARANDOLE_POD_INDEX", "FARANDOLE_PODS")
            env = [each for each in container["env"] if each["name"] not in own]
            container = {**container, "args": container["args"][container["args"].index("--") :], "env": env}
            template = {**spec["template"], "spec": {**spec["template"]["spec"], "containers": [container]}}
            plain[overlay] = template, spec["podFailurePolicy"]
    assert len(plain) == 3
    assert plain["jobset"] == plain["job"]
    assert plain["kubeflow-trainer"] == plain["job"]
