"""One model for several oceans, which have their own climatology and scale and share batches."""

from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from small_ocean import make_sst

import sstcast
from sstcast.config import FieldSource, RunConfig, load_config
from sstcast.errors import SSTCastError
from sstcast.forecasting.transfer import transferred_data
from sstcast.hindcasts.plan import Fold, Hindcast, Plan, Protocol
from sstcast.ocean.windows import SeveralWindows
from sstcast.runs import Run
from sstcast.training.train import training_windows

# Splits that reach into the test days of the first ocean.
LATE = {"train": [2001, 2002], "validation": [2003, "2004-01-31"], "test": ["2004-02-01", 2004]}
LATE_BASE = {"train": [2001, 2001], "validation": [2002, 2002], "test": ["2004-06-01", "2004-12-31"]}
LATE_BASE |= {"base_period": ["2001-01-01", "2004-03-31"]}
WEST, EAST = ({"lon": [west, west + 1.5], "lat": [-12, -10], "tile": [8, 6]} for west in (170, 171.5))


def write(run_yaml: Path, *others: dict[str, Any], **changes: Any) -> Path:
    """Write a run on the western half of the small ocean and on `others`, given by the keys that differ."""
    raw = yaml.safe_load(run_yaml.read_text())
    raw["data"] = [raw["data"] | {"region": WEST}, *others]
    raw["training"] |= {"epochs": 1, "windows_per_epoch": 100}
    run_yaml.write_text(yaml.safe_dump(raw | changes))
    return run_yaml


def prepared(path: Path) -> RunConfig:
    config = load_config(path)
    sstcast.prepare(config)
    return config


@pytest.fixture
def louder(tmp_path: Path) -> Path:
    """Return an ocean 10 degrees colder than the small one, with three times its anomalies."""
    ocean = make_sst(seed=1)
    anomaly = ocean["sst"].groupby("time.dayofyear") - ocean["sst"].groupby("time.dayofyear").mean()
    ocean["sst"] = (ocean["sst"] + 2 * anomaly.drop_vars("dayofyear") - 10).assign_attrs(ocean["sst"].attrs)
    ocean.to_netcdf(tmp_path / "louder.nc", engine="netcdf4")
    return tmp_path / "louder.nc"


def test_a_batch_holds_the_windows_of_each_ocean_in_their_order(run_yaml: Path, louder: Path) -> None:
    config = prepared(write(run_yaml, {"region": EAST}, {"source": str(louder)}))
    joined = training_windows(config)["train"]
    assert isinstance(joined, SeveralWindows)
    each = [
        training_windows(config.model_copy(update={"data": data, "also": ()}))["train"] for data in config.oceans
    ]
    counts = [len(windows) for windows in each]
    assert len(joined) == sum(counts)
    index = torch.randperm(len(joined))[:40]
    batch = joined.batch(index)
    for row, number in enumerate(index.tolist()):
        ocean = int(np.searchsorted(np.cumsum(counts), number, side="right"))
        one = each[ocean].batch(torch.tensor([number - sum(counts[:ocean])]))
        for name in ("history", "target", "ocean", "graph.geography", "graph.degree"):
            assert torch.equal(attrgetter(name)(batch)[row], attrgetter(name)(one)[0]), name
        assert joined.describe(number).startswith(f"ocean {ocean + 1}, tile 0, 200")


def test_overrides_of_a_saved_run_name_its_oceans_as_the_user_did(run_yaml: Path) -> None:
    config = load_config(write(run_yaml, {"region": EAST}))
    saved = Run.create(config).config_file
    assert load_config(saved, ["training.device=cpu"]) == config
    other = load_config(saved, ["data.1.gaps=3", "data.0.gaps=2"])
    assert [ocean.gaps for ocean in other.oceans] == [2, 3]
    with pytest.raises(SSTCastError, match=r"has another configuration"):
        Run.find(other)


def test_one_run_on_two_oceans_is_scored_on_either(run_yaml: Path, louder: Path) -> None:
    path = write(run_yaml, {"source": str(louder)})
    path.write_text(path.read_text().replace("test:\n    - 2004\n    - 2004", "test: [2004-01-01, 2004-03-31]"))
    assert "2004-03-31" in path.read_text()
    run = sstcast.train(path)
    assert (run.folder / "data.json").read_text() != (run.folder / "data-2.json").read_text()
    home = sstcast.evaluate(run).value
    there = sstcast.evaluate(run, source=louder).value
    assert home["scores"]["climatology"]["degC"]["rmse"] < there["scores"]["climatology"]["degC"]["rmse"]
    forecast = sstcast.forecast(run, "2004-06-30").value
    assert "; " + str(louder) in forecast.attrs["source"]


def test_a_further_ocean_is_scored_as_it_was_read(run_yaml: Path, tmp_path: Path) -> None:
    ocean = make_sst(seed=3)
    ocean["sst"] = ocean["sst"].drop_attrs() + 273.15
    ocean.to_netcdf(tmp_path / "kelvin.nc", engine="netcdf4")
    run = Run.create(load_config(write(run_yaml, {"source": str(tmp_path / "kelvin.nc"), "units": "K"})))
    assert transferred_data(run, FieldSource(source=tmp_path / "kelvin.nc")).units == "K"


def test_a_further_ocean_that_changed_is_refused(run_yaml: Path, louder: Path) -> None:
    path = write(run_yaml, {"source": str(louder)})
    run = sstcast.train(path)
    changed = make_sst(seed=2)
    louder.unlink()
    changed.to_netcdf(louder, engine="netcdf4")
    with pytest.raises(SSTCastError, match=r"louder\.nc: has changed since"):
        sstcast.train(path)
    sstcast.prepare(path)
    with pytest.raises(SSTCastError, match=r"was trained on other data than .*louder"):
        sstcast.train(path)
    assert run.best.exists()


def test_no_fold_of_a_hindcast_sees_later_days_of_a_further_ocean(run_yaml: Path) -> None:
    raw = {"train": [2001, 2001], "validation": [2002, 2002], "test": [2003, 2004]}
    config = load_config(write(run_yaml, {"region": EAST, "splits": raw}))
    plan = Plan(Hindcast(Path("h")), Protocol(2003, 2004, 1, 1, 3), [config], [])
    for fold in (Fold(2003, 2003, 1), Fold(2004, 2004, 1)):
        run = plan.run(config, fold)
        assert run.data.splits == run.also[0].splits
        assert run.also[0].splits.validation[1].year == fold.first - 1


def test_a_key_of_one_ocean_can_be_set(run_yaml: Path) -> None:
    path = write(run_yaml, {"region": EAST})
    config = load_config(path, ["data.0.horizon=4", "data.1.gaps=2"])
    assert [ocean.horizon for ocean in config.oceans] == [4, 4]
    assert [ocean.gaps for ocean in config.oceans] == [0, 2]
    for wrong in ("data.2.gaps=1", "data.horizon=4", "data.x.gaps=1"):
        with pytest.raises(SSTCastError, match=f"--set {wrong}: data is a list; write data.0... to data.1..."):
            load_config(path, [wrong])
    path.write_text(path.read_text() + "\nextra: [1, 2]\n")
    with pytest.raises(SSTCastError, match=r"--set extra\.0\.name=4: this item of the list is a value"):
        load_config(path, ["extra.0.name=4"])


@pytest.mark.parametrize(
    ("other", "changes", "words"),
    [
        ({"region": EAST | {"tile": [4, 3]}}, {}, r"data\.region: tiles of 4 x 3 and 8 x 6; give all oceans one"),
        ({"horizon": 4}, {}, r"data\.1\.horizon: is 4, but 5 for the first ocean; make them equal"),
        ({"protocol": "paper"}, {}, r"data\.1\.protocol: is paper, but physical for the first"),
        ({"splits": LATE}, {}, r"data\.1\.splits: end validation and base_period before 2004-01-01"),
        ({"splits": LATE_BASE}, {}, r"data\.1\.splits: end validation and base_period before 2004-01-01"),
        ({"source": "gone.nc"}, {"also": [{"source": "x.nc"}]}, "also: `data` is already a list"),
        ({"region": EAST}, {"model": {"name": "multiscale-ridge"}}, "data: model multiscale-ridge is fitted"),
        ({"histroy": 3}, {}, r"small\.yaml: data\.1: histroy: unknown key \(did you mean 'history'"),
        ({}, {"data": []}, r"data: give the keys of one ocean, or a list with the keys of each"),
    ],
)
def test_oceans_that_do_not_go_together(
    run_yaml: Path, other: dict[str, Any], changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(SSTCastError, match=words):
        sstcast.train(write(run_yaml, other, **changes))
