"""The Grafana dashboard is one that Grafana takes: against the types that Grafana generates from its own schema, and by
what these do not say. Whether its queries find anything: tests/with_prometheus."""

from __future__ import annotations

import json
import re
from typing import Any

import grafana
import manifests
import pytest
from grafana import DASHBOARD, PANELS, VARIABLES
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models import dashboard, units
from test_schemas import lost

COLUMNS = 24
SHOWN = [panel for panel in PANELS if panel["type"] != "row"]
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
UNITS = {value for value in vars(units).values() if isinstance(value, str)}


def test_grafana_knows_every_field() -> None:
    register_default_plugins()
    kept = json.loads(JSONEncoder().encode(dashboard.Dashboard.from_json(DASHBOARD)))
    assert lost(DASHBOARD, kept) == []
    assert lost({**DASHBOARD, "weekdayStart": ""}, kept) == [".weekdayStart"]


def test_panels_have_numbers_and_names_of_their_own() -> None:
    for values in ([panel["id"] for panel in PANELS], [panel["title"] for panel in PANELS]):
        assert len(set(values)) == len(values) and all(values)


def cells(panel: dict[str, Any]) -> set[tuple[int, int]]:
    at = panel["gridPos"]
    assert at["w"] > 0 and at["h"] > 0 and at["x"] >= 0 and at["x"] + at["w"] <= COLUMNS, panel["title"]
    return {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}


def test_panels_fill_the_grid_and_do_not_overlap() -> None:
    """In the order of the file, so that each stands below the row that it belongs to."""
    taken = [cell for panel in PANELS for cell in cells(panel)]
    assert len(set(taken)) == len(taken)
    assert {y for _, y in taken} == set(range(max(y for _, y in taken) + 1))
    places = [(panel["gridPos"]["y"], panel["gridPos"]["x"]) for panel in PANELS]
    assert places == sorted(places)


def test_rows() -> None:
    wanted = ["Overview", "Who waits", "Late ranks", "Work", "GPUs", "Control plane", "Namespaces of jobs"]
    assert [panel["title"] for panel in PANELS if panel["type"] == "row"] == wanted
    assert PANELS[0]["type"] == "row"
    for before, after in zip(PANELS, PANELS[1:]):
        assert "row" not in (before["type"], after["type"]) or before["type"] != after["type"], "an empty row"


@pytest.mark.parametrize("panel", SHOWN, ids=lambda panel: panel["title"])
def test_a_panel_is_whole(panel: dict[str, Any]) -> None:
    assert panel["type"] in ("stat", "table", "timeseries")
    assert panel["datasource"] == SOURCE
    assert re.fullmatch(r"[A-Z1].{20,}[.,\w]", panel["description"])
    assert panel["fieldConfig"]["defaults"]["unit"] in UNITS
    letters = [target["refId"] for target in panel["targets"]]
    assert letters == [chr(ord("A") + i) for i in range(len(letters))] and letters
    for target in panel["targets"]:
        assert target["datasource"] == SOURCE and target["expr"] and target["legendFormat"]
        assert target["range"] is (panel["type"] == "timeseries") and target["instant"] is not target["range"]
        # A legend tells apart what the query keeps apart.
        for label in re.findall(r"{{(\w+)}}", target["legendFormat"]):
            assert re.search(rf"\bby \([\w, ]*\b{label}\b", target["expr"]), (panel["title"], label)


def test_every_query_is_for_what_was_chosen() -> None:
    for panel in SHOWN:
        for target in panel["targets"]:
            for name, chosen in re.findall(r"(farandole_\w+)(\{[^}]*\}|)", target["expr"]):
                assert 'namespace=~"$namespace"' in chosen, (panel["title"], name)
                of_job = name.startswith(("farandole_job_", "farandole_rank_"))
                assert ('training_job=~"$training_job"' in chosen) == of_job, (panel["title"], name)


def test_variables() -> None:
    assert list(VARIABLES) == ["datasource", "namespace", "training_job"]
    assert VARIABLES["datasource"]["type"] == "datasource" and VARIABLES["datasource"]["query"] == "prometheus"
    for name in ("namespace", "training_job"):
        found = VARIABLES[name]
        assert found["datasource"] == SOURCE and found["query"]["query"].endswith(f", {name})")
        # Where Prometheus knows no namespaces, too.
        assert found["includeAll"] and found["multi"] and found["allValue"] == ".*"
    used = set(re.findall(r"\$\{?(\w+)", json.dumps([*PANELS, VARIABLES["training_job"]])))
    assert used == {*VARIABLES, "__rate_interval", "__all"}


def test_it_shows_every_metric() -> None:
    text = (manifests.ROOT / "controller" / "metrics" / "metrics_text.cc").read_text()
    assert set(re.findall(r"farandole_\w+", json.dumps(PANELS))) == set(re.findall(r'"(farandole_\w+)"', text))


def test_the_config_map_is_the_file() -> None:
    (found,) = manifests.render("monitoring/grafana")
    assert found["kind"] == "ConfigMap" and found["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert found["data"] == {grafana.FILE.name: grafana.FILE.read_text()}
