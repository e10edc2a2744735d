"""The manifests of deploy/kubernetes as kustomize renders them, and the pods that they make."""

from __future__ import annotations

import functools
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "deploy" / "kubernetes"
KUBECTL = ROOT / ".deps" / "kubectl" / "usr" / "bin" / "kubectl"

# All that `kubectl apply -k` takes.
OVERLAYS = tuple(
    sorted(
        str(path.parent.relative_to(FOLDER))
        for path in FOLDER.rglob("kustomization.yaml")
        if "kind: Component" not in path.read_text()
    )
)


@functools.cache
def render(overlay: str) -> list[dict[str, Any]]:
    """The objects of an overlay."""
    assert KUBECTL.exists(), f"{KUBECTL} is missing: run scripts/install_deps.sh --kubectl"
    done = subprocess.run([KUBECTL, "kustomize", FOLDER / overlay], capture_output=True, text=True)
    assert done.returncode == 0, f"kubectl kustomize {overlay}: {done.stderr}"
    return [found for found in yaml.safe_load_all(done.stdout) if found]


def find(overlay: str, kind: str) -> dict[str, Any]:
    """The only object of this kind."""
    (found,) = [each for each in render(overlay) if each["kind"] == kind]
    return found


@dataclass(frozen=True)
class Pod:
    """A template of pods: in which overlay and object, and what kubelet is given."""

    overlay: str
    kind: str
    name: str
    template: dict[str, Any]

    @property
    def spec(self) -> dict[str, Any]:
        return self.template["spec"]

    @property
    def labels(self) -> dict[str, str]:
        return self.template["metadata"]["labels"]

    @property
    def containers(self) -> list[dict[str, Any]]:
        return [*self.spec.get("initContainers", []), *self.spec["containers"]]

    def __str__(self) -> str:
        return f"{self.overlay}-{self.kind}-{self.name}"


def _templates(node: object) -> Iterator[dict[str, Any]]:
    """What has containers in its spec, wherever it stands: also the templates of kinds inside of kinds."""
    if isinstance(node, dict):
        if isinstance(node.get("spec"), dict) and "containers" in node["spec"]:
            yield node
        for value in node.values():
            yield from _templates(value)
    elif isinstance(node, list):
        for value in node:
            yield from _templates(value)


def pods() -> list[Pod]:
    """Of all overlays."""
    return [
        Pod(overlay, each["kind"], template["spec"]["containers"][0]["name"], template)
        for overlay in OVERLAYS
        for each in render(overlay)
        for template in _templates(each)
    ]


def agents() -> list[Pod]:
    """Pods whose first process is an agent."""
    return [pod for pod in pods() if pod.spec["containers"][0].get("command", [""])[0].endswith("/farandole-agent")]


def job_specs() -> list[tuple[str, dict[str, Any]]]:
    """Every batch/v1 JobSpec, with its overlay: also those inside of JobSets and of Trainer's runtimes."""
    found = [(name, each["spec"]) for name in OVERLAYS for each in render(name) if each["kind"] == "Job"]
    sets = [(name, each["spec"]) for name in OVERLAYS for each in render(name) if each["kind"] == "JobSet"]
    runtimes = [(name, each) for name in OVERLAYS for each in render(name) if each["kind"] == "TrainingRuntime"]
    sets += [(name, each["spec"]["template"]["spec"]) for name, each in runtimes]
    return found + [(name, job["template"]["spec"]) for name, spec in sets for job in spec["replicatedJobs"]]


def flags(words: list[str]) -> dict[str, str]:
    """--name=value of a command line up to `--`; a flag without a value has "". Refuses any other word."""
    result = {}
    for word in words[: words.index("--")] if "--" in words else words:
        match = re.fullmatch(r"(--[\w-]+)(?:=(.*))?", word)
        assert match, f"{word!r} is no --flag or --flag=value"
        result[match[1]] = match[2] or ""
    return result
