"""The Grafana dashboard of deploy/kubernetes/monitoring/grafana, and what it asks Prometheus."""

from __future__ import annotations

import json
from typing import Any

import manifests

FILE = manifests.FOLDER / "monitoring" / "grafana" / "farandole.json"
DASHBOARD: dict[str, Any] = json.loads(FILE.read_text())
PANELS: list[dict[str, Any]] = DASHBOARD["panels"]
VARIABLES: dict[str, dict[str, Any]] = {each["name"]: each for each in DASHBOARD["templating"]["list"]}


def queries(**values: str) -> dict[str, str]:
    """Each query by its panel's title and letter, with values in the place of variables."""
    found = {}
    for panel in PANELS:
        for target in panel.get("targets", []):
            expression = target["expr"]
            for name, value in values.items():
                expression = expression.replace(f"${name}", value)
            found[f"{panel['title']}, {target['refId']}"] = expression
    return found
