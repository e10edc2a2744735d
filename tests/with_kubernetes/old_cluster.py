"""Manifests of today for a cluster of Kubernetes 1.20: what that does not know is left out or said in its words."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from cluster import KUBECTL


def rendered(folder: Path) -> list[dict[str, Any]]:
    """The objects of a kustomization."""
    import yaml

    done = subprocess.run([KUBECTL, "kustomize", str(folder)], capture_output=True, text=True, check=True)
    return [understood(found) for found in yaml.safe_load_all(done.stdout)]


def understood(manifest: dict[str, Any]) -> dict[str, Any]:
    """Probes by gRPC became ones that connect: a copy."""
    copy = json.loads(json.dumps(manifest))
    for container in copy.get("spec", {}).get("template", {}).get("spec", {}).get("containers", ()):
        for name in ("startupProbe", "readinessProbe"):
            probe = container.get(name, {})
            if "grpc" in probe:
                probe["tcpSocket"] = probe.pop("grpc")
        # There is no registry.
        container["imagePullPolicy"] = "Never"
    return copy
