"""What a hindcast must not see, lose or do twice, however its processes end."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from small_hindcast import metrics, plan, quiet, system, systems, train_until_stopped, write_ocean

from sstcast.artefacts import remove
from sstcast.errors import Interrupted
from sstcast.hindcasts import hindcast as verb
from sstcast.hindcasts.hindcast import hindcast
from sstcast.hindcasts.running import run_tasks


def contents(folder: Path) -> dict[str, bytes]:
    """Forecasts and scores; not checkpoints and their digests, as PyTorch may write the same in other bytes."""
    files = [file for file in folder.glob("*/hindcast.zarr/sst/*") if file.name[0].isdigit()]
    found = {str(file.relative_to(folder)): file.read_bytes() for file in [*files, folder / "hindcast.csv"]}
    scores = json.loads((folder / "metrics.json").read_text())
    return found | {name: json.dumps(scores[name]).encode() for name in ("scores", "ratios", "heatwaves")}


def test_no_fold_sees_a_later_day(inside: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_ocean(tmp_path, jump=2)
    monkeypatch.chdir(tmp_path)
    hindcast(plan(system("one")), say=quiet)
    ours, theirs = (xr.open_zarr(f / "hindcast/one/hindcast.zarr")["sst"] for f in (inside, tmp_path))
    early = ours["init_time"].values < np.datetime64("2008-01-01")
    assert 0 < early.sum() < early.size
    np.testing.assert_array_equal(ours[early], theirs[early])  # 2007 too: its fold has not seen 2008
    assert float(abs(ours[~early] - theirs[~early]).max()) > 0  # land, which is NaN, is left out
    ours, theirs = (
        xr.open_dataset(f / "hindcast/scores.nc", engine="netcdf4")["heatwave_brier_by_date"].sel(warning="one")
        for f in (inside, tmp_path)
    )
    early = ours["init_time"].values < np.datetime64("2008-01-01") - np.timedelta64(8 + 6, "D")  # horizon, AROUND
    np.testing.assert_array_equal(ours[:, early], theirs[:, early])
    assert float(abs(ours[:, ~early] - theirs[:, ~early]).max()) > 0.1


def test_a_finished_hindcast_has_nothing_to_do(inside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("there is nothing to do")

    for name in ("run_tasks", "prepare", "join_forecasts"):
        monkeypatch.setattr(verb, name, fail)
    found, new = hindcast(systems(), say=fail)
    assert not new
    assert found == metrics()
    assert not list(Path("hindcast").glob("*/fold-*/hindcast.zarr"))


def test_a_source_replaced_since_is_named(
    inside: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The scores stay those of the days as they were; one line says so, and how to score the new days."""
    kept = shutil.copy2("small.nc", tmp_path / "small.nc")
    write_ocean(inside, jump=1)
    try:
        assert hindcast(systems(), say=quiet) == (metrics(), False)
    finally:
        shutil.copy2(kept, "small.nc")
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    for words in ("small.nc: has changed since", "on 366 day(s), the first 2008-01-01", "--out"):
        assert words in told
    hindcast(systems(), say=quiet)
    assert capsys.readouterr().err == ""


def test_what_is_lost_is_made_again_and_no_more(inside: Path) -> None:
    before = contents(inside / "hindcast")
    for lost in ("metrics.json", "one/hindcast.zarr", "two/fold-2007/hindcast.nc", "hindcast.csv"):
        for path in (lost, "metrics.json"):
            remove(Path("hindcast") / path)
        lines: list[str] = []
        assert hindcast(systems(), say=lines.append)[1]
        assert sum(line.endswith("is trained") for line in lines) == 4
        assert sum(line.endswith("238 forecasts") for line in lines) == 2 * ("zarr" in lost) + ("fold" in lost)
        assert contents(inside / "hindcast") == before


def test_a_kill_of_all_processes_ends_in_the_same_bytes(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_ocean(tmp_path)
    script = Path(__file__).parents[1] / "small_hindcast.py"
    with subprocess.Popen([sys.executable, script, tmp_path, "2"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        while "trained" not in process.stdout.readline():
            assert process.poll() is None
        process.kill()
    monkeypatch.chdir(tmp_path)
    assert not Path("hindcast/metrics.json").exists()
    lines: list[str] = []
    hindcast(systems(), say=lines.append)  # waits for no lock: the children have gone with their parent
    assert any(line.endswith("is trained") for line in lines)
    assert contents(tmp_path / "hindcast") == contents(made / "hindcast")


def test_a_signal_to_the_parent_lets_the_tasks_at_hand_save(tmp_path: Path) -> None:
    saved = [tmp_path / name for name in ("one", "two", "three")]

    def stop() -> None:
        while not all(file.with_suffix(".begun").exists() for file in saved[:2]):
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=stop).start()
    with pytest.raises(Interrupted) as end:
        run_tasks([partial(train_until_stopped, file) for file in saved], 2, None, quiet)
    assert end.value.signal == signal.SIGTERM
    assert [file.exists() for file in saved] == [True, True, False]  # the third has not begun


def test_on_a_cluster(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    distributed = pytest.importorskip("distributed")
    write_ocean(tmp_path)
    monkeypatch.chdir(tmp_path)
    options = {"processes": False, "dashboard_address": None, "n_workers": 1, "threads_per_worker": 2}
    with distributed.LocalCluster(**options) as cluster:
        hindcast(systems(), scheduler=cluster.scheduler_address, say=quiet)
    assert contents(tmp_path / "hindcast") == contents(made / "hindcast")
