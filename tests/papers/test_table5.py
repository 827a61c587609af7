"""Table 5 of Cai et al. (2023) as one command."""

import contextlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from logged import logged
from typer.testing import CliRunner

import perf.simulated  # noqa: F401 - adds the source `simulator`
from sstcast import config
from sstcast.cli import app
from sstcast.config import Region
from sstcast.errors import SSTCastError
from sstcast.forecasting.system import system_of
from sstcast.ocean.prepared import Prepared
from sstcast.ocean.windows import cut_windows
from sstcast.papers import table5 as verb
from sstcast.papers.table5 import TABLE_BASELINES, Table5, error_interval, errors, gain_significance, needs, table5
from sstcast.reports.table5 import table5_sheets
from sstcast.runs import Run

SIZES = {"mlp": {"hidden": 8}, "mpnn": {"width": 8}, "mpnn-vn": {"width": 8}}
SPLITS = {
    "train": [2002, 2002],
    "validation": ["2003-01-01", "2003-01-15"],
    "test": ["2003-01-16", "2003-02-24"],
}


# Two tiles with different parts of New Guinea's islands.
ISLANDS = Region(lon=(150, 165), lat=(-7.5, 0), coarsen=2, tile=(15, 15))


@pytest.fixture(scope="module", autouse=True)
def _islands() -> Iterator[None]:
    """Add a region to those that are known by name."""
    known = config.load_region
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(config, "load_region", lambda name: ISLANDS if name == "islands" else known(name))
        yield


def small(**chosen: object) -> Table5:
    """Describe the table in the working folder, of systems that train in a moment on a simulated ocean."""
    options: dict[str, object] = {
        "systems": tuple(SIZES),
        "horizons": (3, 1),
        "seeds": (0,),
        "source": "simulator",
        "region": "islands",
    }
    return Table5(Path("table5"), presets=Path("presets"), **(options | chosen))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def made(_islands: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a table that stopped after its third training, before the scores, and then ran to its end."""
    folder = tmp_path_factory.mktemp("table5")
    (folder / "presets").mkdir()
    for name, size in SIZES.items():
        training = {"epochs": 1, "windows_per_epoch": 40, "device": "cpu", "checkpoint_steps": 1}
        raw = {"data": {"history": 4, "splits": SPLITS}, "model": {"name": name, **size}, "training": training}
        (folder / "presets" / f"{name}.yaml").write_text(yaml.safe_dump(raw))

    def stopped(prepared: Prepared, predictors: dict[str, Any]) -> Any:
        if "mpnn-vn-3d-seed0" in predictors:
            raise KeyboardInterrupt
        return errors(prepared, predictors)

    with contextlib.chdir(folder):
        with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(verb, "errors", stopped)
            table5(small())
        with logged() as lines:
            table5(small())
    again = "\n".join(lines)
    assert len(re.findall(r"seed0: nothing to do", again)) == 2
    assert again.count("trained and forecast") == 4
    assert "days written" not in again
    return folder


def kept(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "table5/table5.json").read_text())
    return content


def test_the_whole_table_after_a_kill(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(made)
    found, new = table5(small())
    assert not new
    assert list(found) == [*SIZES, *TABLE_BASELINES]
    for by_horizon in found.values():
        assert list(by_horizon) == [3, 1]
        assert all(np.isfinite(error).all() for [error] in by_horizon.values())
    assert found["mpnn"][1] == [kept(made)["runs"]["mpnn-1d-seed0"]["errors"]]


def test_errors_are_means_over_windows_leads_and_ocean_nodes(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(made)
    run = next(run for run in small().runs if run.name == "mpnn-vn-3d-seed0")
    windows = cut_windows(Prepared.of(run.data).open()[1], run.data, "test")
    assert len(windows) == 2 * (40 - 4 - 3)  # Table 9: tiles x (days - history - horizon)
    batch = windows.batch(torch.arange(len(windows)))
    assert batch.ocean[0].sum() != batch.ocean[1].sum()
    model = system_of(Run(run.folder)).models[0]
    with torch.no_grad():
        forecasts = {"mpnn-vn": model(batch.history, batch.graph), "persistence": batch.history[..., -1:]}
    by_name = kept(made)
    reported = {"mpnn-vn": by_name["runs"][run.name]["errors"]}
    reported |= {"persistence": by_name["baselines"]["3"]["errors"]["persistence"]}
    for name, forecast in forecasts.items():
        squares = (forecast - batch.target).double().square()
        assert np.mean(reported[name]) == pytest.approx(float(squares[batch.ocean].mean()), rel=1e-5)
        by_window = (squares * batch.ocean.unsqueeze(-1)).sum((1, 2)).numpy()
        by_date = by_window.reshape(33, 2).sum(1) / (3 * int(batch.ocean[:2].sum()))
        np.testing.assert_allclose(reported[name], by_date, rtol=1e-4)


@pytest.mark.slow
def test_runs_side_by_side_have_the_errors_of_runs_one_by_one(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(made)
    systems, presets = ("mlp", "mpnn"), Path("presets")  # in a region that other processes know, too
    tables = [
        Table5(tmp_path / name, systems, (1,), (0,), "tasman", "none", "simulator", presets) for name in "ab"
    ]
    (beside, _), (alone, _) = table5(tables[0], jobs=2), table5(tables[1])
    for system in systems:
        np.testing.assert_allclose(beside[system][1][0], alone[system][1][0], rtol=1e-5)


def test_chance_is_told_from_a_saving() -> None:
    """Noise by date alone is chance, and a saving of a tenth is not; both need two blocks of dates."""
    generator = np.random.default_rng(0)
    noise = 1 + 0.1 * generator.normal(size=(2, 3, 700))
    for saving, chance in ((0.0, True), (0.1, False)):
        found = {"mpnn": {7: noise[0].tolist()}, "mpnn-vn": {7: (noise[1] * (1 - saving)).tolist()}}
        known = gain_significance(found, 7)
        assert known is not None
        (low, high), p_value = known
        assert low < saving < high
        assert (low < 0 < high) is (p_value > 0.05) is chance
        interval = error_interval(found["mpnn"][7], 7)
        assert interval is not None
        assert interval[0] < 1 < interval[1]
        assert interval[1] - interval[0] < 0.05
        sheets = table5_sheets(found, [7])
        assert re.fullmatch(r"[01]\.\d{4} ± 0\.\d{4}, 0\.9\d{3}-1\.0\d{3}", sheets[0].rows[0][1][1])
        assert ", p " in sheets[1].rows[0][1][1]
    short = {name: {7: [known[7][0][:80]]} for name, known in found.items()}
    assert gain_significance(short, 7) is None
    assert error_interval(short["mpnn"][7], 7) is None


def test_a_finished_table_has_nothing_to_do(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(made)
    for name in ("fetch", "prepare", "train", "errors"):
        monkeypatch.setattr(verb, name, None)  # calling it would fail
    options = ["--source", "simulator", "--presets", "presets", "--horizons", "3, 1", "--seeds", "0"]
    options += ["--region", "islands"]
    result = CliRunner().invoke(app, ["table5", *options, "--systems", ",".join(SIZES), "--out", "table5"])
    assert result.exit_code == 0
    assert re.search(r"multiscale ridge +- +\d+\.\d{4}", result.stdout)
    assert result.stdout.rstrip().endswith("nothing to do")
    result = CliRunner().invoke(app, ["table5", *options, "--systems", "mlp, mpnn", "--out", "table5"])
    assert result.exit_code == 0
    assert "mpnn-vn" not in result.stdout
    assert "virtual node" not in result.stdout  # neither the paper nor this table has it for 3 days and 1 day
    assert CliRunner().invoke(app, ["table5", "--horizons", "four"]).exception


def test_a_dry_run_lists_what_is_left(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(made)
    count, *runs = needs(small(systems=["mlp", "mpnn"], horizons=(3,), seeds=(0, 1)))
    assert count == "2 of 4 runs are left"
    assert runs == [f"  {name}-3d-seed1: 1 epoch, not in the paper" for name in ("mlp", "mpnn")]
    assert needs(small()) == ["0 of 6 runs are left"]
    assert not (made / "table5/mlp-3d-seed1").exists()


def test_a_dry_run_opens_no_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    count, first, *_ = needs(Table5(Path("table5")))
    assert (count, first) == ("45 of 45 runs are left", "  mlp-28d-seed0: 100 epochs, 0.3302 in the paper")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ({"systems": ["mpn"]}, r"--systems mpn: not in the table.*did you mean"),
        ({"systems": ["mpnn", "mlp", "mpnn"]}, "--systems: has mpnn twice; give each once"),
        ({"horizons": (3, 3)}, "--horizons: has 3 twice"),
        ({"overrides": ["data.horizon=2"]}, "--set data.horizon: table5 sets it"),
        ({"overrides": ["name=mine"]}, "--set name: table5 sets it"),
        ({"base": "linear"}, "a run with other options; choose another --out"),
        ({"overrides": ["training.epochs=2"]}, "a run with other options; choose another --out"),
    ],
)
def test_bad_requests_are_refused(
    made: Path, monkeypatch: pytest.MonkeyPatch, chosen: dict[str, Any], message: str
) -> None:
    monkeypatch.chdir(made)
    with pytest.raises(SSTCastError, match=message):
        _ = small(**chosen).runs
