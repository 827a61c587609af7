"""What `metrics.json` holds of comparisons by lead is what charts and tables read, and nothing more."""

import copy
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from quick_drawing import draw_quickly
from scored_runs import metrics_of

from sstcast.figures import catalogue, tables
from sstcast.figures.results import Results
from sstcast.figures.sheets import sections_of
from sstcast.runs import Run

CHARTS: list[Callable[[Results], Iterator[Any]]] = [
    catalogue.skill_by_lead,
    catalogue.ratio_by_lead,
    catalogue.crps_skill,
    catalogue.heatwaves,
]


def shown(results: Results, metrics: dict[str, Any]) -> None:
    """Make all tables and the charts of comparisons."""
    vars(results)["metrics"] = metrics
    sections_of(metrics, "run")
    tables.ratios(metrics, "run")
    for name in tables.comparisons(metrics):
        tables.versus(metrics, "run", name)
    for chart in CHARTS:
        list(chart(results))


def test_each_key_by_lead_is_read(scored: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    draw_quickly(monkeypatch)
    metrics, results = metrics_of(scored), Results(scored.folder)
    kept = {
        (loss, system == "model", key): (system, base)
        for loss, by_system in metrics["ratios"].items()
        for system, by_base in by_system.items()
        for base, compared in by_base.items()
        for key in compared["by_lead"]
        if system != base
    }
    assert {key for _, _, key in kept} == {"ratio", "interval", "p_value"}
    shown(results, metrics)
    for (loss, _, key), (system, base) in kept.items():
        without = copy.deepcopy(metrics)
        del without["ratios"][loss][system][base]["by_lead"][key]
        with pytest.raises(KeyError):
            shown(results, without)


def test_each_entry_has_a_line(scored: Run) -> None:
    first, *lines, last = scored.metrics.read_text().splitlines()
    assert (first, last) == ("{", "}")
    entries = [json.loads(f"{{{line.removesuffix(',')}}}") for line in lines]
    assert [key for entry in entries for key in entry] == list(metrics_of(scored))
