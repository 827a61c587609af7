"""Every file of a run, damaged in every way, under the verbs that read it."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
import torch
from bad import CHANGES, Family, changed, run
from matplotlib.figure import Figure

from sstcast.forecasting.predictor import TrainedRun
from sstcast.pages import figures, report
from sstcast.runs import Run
from sstcast.scores.saved import Scored
from sstcast.scores.verification import Verification

READERS = {  # and whether the verb makes the file anew
    "config.yaml": ("evaluate", "runs", "leaderboard", "forecast", "resume"),
    "metrics.json": ("evaluate", "leaderboard"),
    "scores.nc": ("evaluate", "leaderboard"),
    "history.csv": ("runs", "report", "resume"),
    "provenance.json": ("report", "runs"),
    "checkpoints/best.pt": ("evaluate", "forecast"),
    "checkpoints/step-000000001.pt": ("resume",),
}


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw nothing: figures are dear, and made of what has been read."""
    for name in ("draw_weeks", "draw_forecast"):
        monkeypatch.setattr(figures, name, lambda *a, **k: None)
    blank = Figure()
    blank.add_subplot()
    monkeypatch.setattr(figures, "draw_curves", lambda *a, **k: (blank, ""))
    for name in ("png_uri", "svg_uri"):
        monkeypatch.setattr(report, name, lambda figure: "")
    monkeypatch.setattr(report, "animate", lambda *a: ("", ""))
    monkeypatch.setattr(report, "write_png", lambda figure, path, stamp: None)


@pytest.fixture
def known_tables(world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Load the checkpoint to evaluate a run, and take the forecasts as made."""
    with Scored(world / "runs/small").open() as file:
        tables = file.load()

    def statistics_of(run: Run, truth: Verification) -> Any:
        TrainedRun(run)
        return tables

    known = json.loads((world / "runs/small/metrics.json").read_text())
    monkeypatch.setattr("sstcast.scores.evaluate.statistics_of", statistics_of)
    monkeypatch.setattr("sstcast.scores.summary.summarise", lambda tables, reference: known)


def command(verb: str, world: Path) -> list[object]:
    folder = world / "runs/small"
    return {
        "runs": ["runs", world / "runs"],
        "leaderboard": ["leaderboard", world / "runs"],
        "resume": ["train", "--resume", folder],
        "forecast": ["forecast", folder, "--out", world / "forecast.nc"],
    }.get(verb, [verb, folder])


@pytest.mark.usefixtures("quick", "known_tables")
def test_files_of_a_run(world: Path) -> None:
    family, chance = Family("files of a run", world), random.Random(2)
    for name, verbs in READERS.items():
        path = world / "runs/small" / name
        content = path.read_bytes()
        cases = [(kind, CHANGES[kind](content, chance)) for kind in chance.sample(list(CHANGES), 3)]
        for kind, new in [
            *cases,
            ("folder", None),
            ("list", b"[1, 2]"),
        ]:
            for verb in verbs:
                (world / "runs/small/report.html").unlink(missing_ok=True)
                with changed(path, new):
                    family.try_out(f"{name}, {kind}", (path.name, "small"), *command(verb, world))
    family.close(at_least=70)


@pytest.mark.usefixtures("quick", "known_tables")
def test_forecasts_of_a_run(world: Path) -> None:
    family, chance, folder = Family("forecasts of a run", world), random.Random(3), world / "runs/small"
    store = folder / "forecasts.zarr"
    files = sorted(p for p in store.rglob("*") if p.is_file())
    for path in chance.sample(files, min(len(files), 12)):
        kind = chance.choice(["flip", "cut"])
        with changed(path, CHANGES[kind](path.read_bytes(), chance), store):
            family.try_out(f"{path.relative_to(store)}, {kind}", ("forecasts.zarr",), "map", folder)
    family.close(at_least=10)


def contents() -> dict[str, Any]:
    weights = {"model": {"x": torch.zeros(2)}}
    return {
        "no dict": [1, 2], "nothing in it": {}, "no format": weights, "later format": weights | {"format": 99},
        "old format": {"format": 1, "state": 3}, "no model": {"format": 2},
        "model of text": {"format": 2, "model": "x"},
        "model of lists": {"format": 2, "model": {"encoder.weight": [1.0]}},
        "other model": weights | {"format": 2},
        "tensor": torch.zeros(3), "number": 5,
    }  # fmt: skip


@pytest.mark.usefixtures("known_tables")
@pytest.mark.parametrize("name", ["best.pt", "step-000000001.pt"])
def test_checkpoints_of_something_else(world: Path, tmp_path: Path, name: str) -> None:
    family, folder = Family(f"checkpoints, {name}", world), world / "runs/small"
    path, made = folder / "checkpoints" / name, tmp_path / "made.pt"
    whole = torch.load(path, weights_only=True)
    spoilt = contents()
    for key in whole:
        spoilt |= {
            f"{key} missing": {k: v for k, v in whole.items() if k != key},
            f"{key} of text": whole | {key: "x"},
        }
    for key in whole.get("state", {}):
        spoilt |= {f"state.{key}": whole | {"state": whole["state"] | {key: "x"}}}
    for case, state in spoilt.items():
        torch.save(state, made)
        with changed(path, made.read_bytes()):
            verb = "forecast" if name == "best.pt" else "resume"
            family.try_out(case, (name, "checkpoints"), *command(verb, world))
    family.close(at_least=20)


def test_weights_that_are_not_finite(world: Path, tmp_path: Path) -> None:
    path = world / "runs/small/checkpoints/best.pt"
    state = torch.load(path, weights_only=True)
    next(iter(state["model"].values()))[0] = float("nan")
    torch.save(state, tmp_path / "made.pt")
    with changed(path, (tmp_path / "made.pt").read_bytes()):
        for verb in ("forecast", "evaluate"):
            code, _, err = run(*command(verb, world))
            assert code == 2
            assert "best.pt: its weights are not finite" in err
    assert run(*command("forecast", world))[0] == 0
