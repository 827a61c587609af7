from datetime import date
from pathlib import Path

import pytest
import yaml
from refusals import refused

from sstcast.config import load_config, load_region
from sstcast.errors import SSTCastError
from sstcast.storage.paths import packaged
from sstcast.storage.yaml_files import save_config

DEMO = packaged("configs/mpnn-vn.yaml")


def test_what_is_saved_loads_to_the_same(tmp_path: Path) -> None:
    config = load_config(DEMO, ["model.width=32", "data.region={lon: [0, 10], lat: [0, 10], tile: [5, 5]}"])
    save_config(config, tmp_path / "config.yaml")
    assert load_config(tmp_path / "config.yaml") == config
    assert config.model.options["width"] == 32


def test_years_and_dates_are_inclusive_spans() -> None:
    config = load_config(DEMO, ["data.splits.validation=[2014-02-01, 2014-12-30]"])
    assert config.data.splits.train == (date(1982, 1, 1), date(2013, 12, 31))
    assert config.data.splits.validation == (date(2014, 2, 1), date(2014, 12, 30))


@pytest.mark.parametrize("path", sorted(packaged("configs").glob("*.yaml")))
def test_every_shipped_configuration_is_valid(path: Path) -> None:
    if path.name == "regions.yaml":
        for name in yaml.safe_load(path.read_text()):
            load_region(name)
    else:
        load_config(path)


def test_a_base_says_what_a_file_leaves_out(tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text(
        "runs: elsewhere\n"
        "data: {horizon: 7, splits: {train: [1982, 2013], validation: [2014, 2014], test: [2015, 2016]}}\n"
        "training: {epochs: 3, batch_size: 5}\n"
    )
    (tmp_path / "inner").mkdir()
    path = tmp_path / "inner" / "run.yaml"
    path.write_text("base: ../base.yaml\nmodel: {name: mpnn, width: 8}\ntraining: {batch_size: 6}\n")
    config = load_config(path, ["training.epochs=4"])
    assert config.folder == Path("elsewhere/run")
    assert config.data.horizon == 7
    assert config.model.options == {"width": 8}
    assert (config.training.epochs, config.training.batch_size) == (4, 6)


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("training.epoch=3", ["mpnn-vn.yaml", "training.epoch", "did you mean 'epochs'"]),
        ("training.epochs=many", ["training.epochs", "integer"]),
        ("training.epochs=0", ["training.epochs", "greater"]),
        ("data.region=pacifik", ["region", "did you mean 'pacific'"]),
        ("data.region={lon: [0, 5], lat: [5, 0]}", ["data.region.lat: [5, 0]", "write [0, 5]"]),
        ("data.splits.test=[2013, 2014]", ["data.splits", "overlap"]),
        ("data.splits.test=2015", ["data.splits.test", "[first, last]"]),
        ("data.splits.test=[2015, soon]", ["data.splits.test"]),
        ("data.protocol=papers", ["data.protocol", "paper"]),
        ("name=../elsewhere", ["name"]),
        ("epochs", ["--set epochs", "key=value"]),
        ("name.x.y=1", ["--set name.x.y=1"]),
        ("training.epochs=[1", ["--set training.epochs", "YAML"]),
    ],
)
def test_what_is_wrong_is_said_in_one_line(override: str, words: list[str]) -> None:
    with refused(*words):
        load_config(DEMO, [override]).data.box  # noqa: B018


def test_a_run_has_one_ocean_also_where_an_earlier_version_saved_a_list_of_others(tmp_path: Path) -> None:
    raw = yaml.safe_load(DEMO.read_text())
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(raw | {"name": DEMO.stem, "also": []}))
    assert load_config(tmp_path / "run.yaml") == load_config(DEMO)
    for wrong, words in (({"data": [raw["data"]]}, "data: is a list"), ({"also": [raw["data"]]}, "also: unknown")):
        (tmp_path / "run.yaml").write_text(yaml.safe_dump(raw | wrong))
        with refused(str(tmp_path / "run.yaml"), words):
            load_config(tmp_path / "run.yaml")


def test_data_in_place_of_a_configuration(tmp_path: Path) -> None:
    data = tmp_path / "my.nc"
    data.write_bytes(b"CDF")
    with pytest.raises(SSTCastError, match=rf"^{data}: is data.* `sstcast init {data}`"):
        load_config(data)
