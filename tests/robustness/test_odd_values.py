"""Values that no sstcast wrote, each where it once ended in a traceback or said nothing."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import h5py
import pandas as pd
import pytest
import zarr
from quick_drawing import draw_nothing
from refusals import refused
from small_ocean import make_sst

from sstcast.errors import SSTCastError
from sstcast.scores.score_files import ScoreFiles
from sstcast.storage.artefacts import atomic
from sstcast.storage.stores import consolidate
from sstcast.storage.yaml_files import parse_yaml
from sstcast.training.engine import State

pytestmark = pytest.mark.filterwarnings("ignore")
Attempt = Callable[..., int]


@pytest.fixture
def copy(world: Path, tmp_path: Path) -> Path:
    """A copy of the evaluated run, without notes."""
    shutil.copytree(world / "runs/small", tmp_path / "small", ignore=shutil.ignore_patterns("*.note"))
    return tmp_path / "small"


@pytest.mark.parametrize(
    "text",
    [
        '!!bool "abc"',
        '!!timestamp "abc"',
        '!!int ""',
        '!!float "x"',
        "!!binary YQ==",
        "!!set {a}",
        "!!omap [a: 1]",
    ],
)
def test_tags_of_yaml_that_do_not_fit(text: str) -> None:
    with refused("here: not valid YAML ("):
        parse_yaml(f"a: {text}", "here")
    assert parse_yaml('a: !!str 5\nb: !!int "5"\nc: 2001-02-03\nd: [true, null]', "here")["a"] == "5"


def test_attributes_that_are_not_text(tmp_path: Path, attempt: Attempt) -> None:
    data = make_sst(years=2)
    data["sst"].attrs["standard_name"] = [1.0, 2.0]
    data["lat"].attrs["standard_name"] = [1, 2]
    data.to_netcdf(tmp_path / "odd.nc", engine="netcdf4")
    assert attempt((), "init", tmp_path / "odd.nc", "--out", tmp_path / "odd.yaml") == 0
    make_sst(years=2).to_zarr(tmp_path / "odd.zarr", zarr_format=2)
    group = zarr.open_group(tmp_path / "odd.zarr", mode="r+")
    group["sst"].attrs["scale_factor"] = "two"
    consolidate(tmp_path / "odd.zarr")
    assert attempt(("odd.zarr",), "init", tmp_path / "odd.zarr", "--out", tmp_path / "odd2.yaml") == 2


def test_a_day_whose_origin_has_no_name(tmp_path: Path, attempt: Attempt) -> None:
    store = tmp_path / "a.zarr"
    attempt((), "fetch", "--source", "sample", "--end", "1982-01-03", "--out", store)
    status = zarr.open_group(store, mode="r+")["status"]
    status[-1] = 200
    assert attempt(("has the status 200",), "status", store) == 2


def test_a_run_without_configuration_and_scores_without_keys(copy: Path, attempt: Attempt) -> None:
    whole = json.loads((copy / "metrics.json").read_text())
    for note in copy.glob(".*.note"):  # with them, any change would do
        note.unlink()
    assert ScoreFiles(copy).known(whole["recipe"]) == whole
    for key in ("systems", "scores", "reference", "block_days"):
        (copy / "metrics.json").write_text(json.dumps({name: whole[name] for name in whole if name != key}))
        assert ScoreFiles(copy).known(whole["recipe"]) is None
    assert attempt((), "evaluate", copy) == 0  # makes them again
    assert json.loads((copy / "metrics.json").read_text()) | {"recipe": 0} == whole | {"recipe": 0}
    (copy / "config.yaml").unlink()
    for verb in ("report", "map"):
        assert attempt(("has no config.yaml",), verb, copy) == 2


def test_a_difference_is_named(world: Path, attempt: Attempt) -> None:
    for key in ("model.name=mpnn", "data.splits.test=[2002-03-01, 2002-06-01]"):
        words = f"another configuration ({key.partition('=')[0]} differs)"
        assert attempt((words,), "train", world / "small.yaml", "--set", key) == 2


@pytest.mark.parametrize(
    ("redirect", "variables", "code"),
    [(">&-", {}, 0), (">&- 2>&-", {}, 0), ("2>&1", {"LOCAL_RANK": "1"}, 2)],
)
def test_streams_that_are_closed_and_a_rank_alone(
    world: Path, redirect: str, variables: dict[str, str], code: int
) -> None:
    verb = f"runs {world}/runs" if code == 0 else "runs absent"
    line = f"{sys.executable} -m sstcast.cli {verb} {redirect}"
    done = subprocess.run(line, shell=True, capture_output=True, text=True, env=os.environ | variables)
    assert (done.returncode, "Traceback" in done.stderr) == (code, False)
    assert ("absent: no runs" in done.stdout) == (code == 2)


def test_a_file_that_cannot_be_written_is_named_without_its_temporary(tmp_path: Path) -> None:
    with (
        pytest.raises(SSTCastError, match=r"/a.yaml: cannot be written \(Permission denied\); choose another"),
        atomic(tmp_path / "a.yaml") as temporary,
    ):
        raise PermissionError(13, "Permission denied", str(temporary))


def test_the_steps_of_a_curve_are_whole_also_after_a_resume(tmp_path: Path) -> None:
    State(curve=[[1, 2.0, 1.0], [2, 3.0, 1.0]]).write_curve(tmp_path / "curve.csv", 2)
    assert (tmp_path / "curve.csv").read_text().splitlines()[1:] == ["1,0.5,2.0", "2,1.0,3.0"]
    assert pd.read_csv(tmp_path / "curve.csv")["step"].dtype.kind == "i"


def test_a_flipped_bit_in_scores_heals(copy: Path, attempt: Attempt, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the file keeps its time of modification."""
    draw_nothing(monkeypatch)
    file = copy / "scores.nc"
    content, state = bytearray(file.read_bytes()), file.stat()
    assert attempt((), "evaluate", copy) == 0
    with h5py.File(file) as opened:
        chunk = opened["mse_by_cell"].id.get_chunk_info(0)
    content[chunk.byte_offset + chunk.size // 2] ^= 1
    file.write_bytes(bytes(content))
    os.utime(file, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert attempt((), "report", copy) == 0
    assert file.read_bytes() != bytes(content)
