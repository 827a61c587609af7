"""Commands that find their work done: they say what the whole check would say, until any file has changed."""

import contextlib
import io
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import yaml
from scored_runs import configure
from small_raw import NODES, ring

from sstcast import cli, finished
from sstcast.plain_yaml import save_config

Say = tuple[int, str]
VERBS = {
    "prepare": ("small.yaml",),
    "train": ("small.yaml",),
    "evaluate": ("runs/small",),
    "map": ("runs/small",),
    "report": ("runs/small",),
    "forecast": ("runs/small",),
    "benchmark": ("mine.yaml", "--model", "gcn", "--set", "training.epochs=1", "--set", "training.device=cpu"),
    "leaderboard": (),
}
OF_RUNS = {"train", "evaluate", "map", "report", "forecast"}
# What may change, and which commands it concerns.
FILES = {
    "small.yaml": {"prepare", "train"},
    "small.nc": {"prepare", *OF_RUNS},
    "prepared/*/cube.zarr/sst/0.0.0": {"prepare", *OF_RUNS},
    "prepared/*/physical-*[0-9].zarr/.zattrs": {"prepare", *OF_RUNS},
    "runs/small/config.yaml": {*OF_RUNS, "leaderboard"},
    "runs/small/data.json": OF_RUNS,
    "runs/small/checkpoints/best.pt": OF_RUNS,
    "runs/small/history.csv": {"train"},
    "runs/small/metrics.json": {"evaluate", "map", "report", "leaderboard"},
    "runs/small/scores.nc": {"evaluate", "map", "report", "leaderboard"},
    "runs/small/forecasts.zarr/sst/0.0.0.0": {"evaluate", "map", "report"},
    "runs/small/maps/bias.png": {"map"},
    "runs/small/report.html": {"report"},
    "runs/small/forecast-*.nc": {"forecast"},
    "runs/leaderboard.csv": {"leaderboard"},
    "mine.npz": {"benchmark"},
    "runs/benchmarks/mine/gcn/seed-0/metrics.json": {"benchmark", "leaderboard"},
}


def say(verb: str, monkeypatch: pytest.MonkeyPatch) -> Say:
    monkeypatch.setattr(sys, "argv", ["sstcast", verb, *VERBS[verb]])
    with contextlib.redirect_stdout(io.StringIO()) as out, pytest.raises(SystemExit) as end:
        cli.main()
    return int(end.value.code or 0), out.getvalue()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, sst_file: Path) -> Path:
    """A folder in which every command has done its work."""
    made = tmp_path_factory.mktemp("whole-way")
    (made / "small.nc").write_bytes(sst_file.read_bytes())
    config = configure(Path(), Path("small.nc"))
    quick = config.training.model_copy(update={"epochs": 1, "windows_per_epoch": 40})
    save_config(config.model_copy(update={"training": quick}), made / "small.yaml")
    labels = np.arange(NODES) % 3
    np.savez(made / "mine.npz", edges=ring(NODES).T, features=np.eye(3)[labels], labels=labels)
    own = {"kind": "npz", "path": "mine.npz", "task": "node-classification"}
    (made / "mine.yaml").write_text(yaml.safe_dump(own))
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.chdir(made)
        monkeypatch.setattr(finished, "CACHE", made / ".cache")
        monkeypatch.setattr(finished, "CODE", ())  # thousands of files, which do not change here
        monkeypatch.setattr(finished, "PACKAGES", "none")
        for verb in VERBS:
            code, out = say(verb, monkeypatch)
            assert (code, "nothing to do" in out) == (0, False), verb
    return made


@pytest.fixture
def inside(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(folder)
    monkeypatch.setattr(finished, "CACHE", folder / ".cache")
    return folder


@pytest.mark.parametrize("verb", VERBS)
def test_they_say_what_the_whole_check_says(verb: str, inside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(cli, "_run", lambda arguments: pytest.fail("all was looked at anew"))
        recalled = say(verb, patch)
    assert "nothing to do" in recalled[1] or verb == "leaderboard"
    monkeypatch.setattr(finished, "CACHE", inside / ".other-cache")  # without a record
    assert say(verb, monkeypatch) == recalled


def recalled(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    for verb, arguments in VERBS.items():
        monkeypatch.setattr(sys, "argv", ["sstcast", verb, *arguments])
        if finished.recall() is not None:
            yield verb


@pytest.mark.parametrize("file", FILES)
def test_a_file_written_in_place_is_noticed(file: str, inside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for record in (inside / ".cache/finished").iterdir():  # as if they were remembered now
        held = json.loads(record.read_text())
        states = {pattern: finished.state_of(pattern) for pattern in held["states"]}
        record.write_text(json.dumps(held | {"states": states}))
    assert set(recalled(monkeypatch)) == set(VERBS)
    (changed,) = inside.glob(file)
    before = changed.stat()
    changed.write_bytes(changed.read_bytes())
    os.utime(changed, ns=(before.st_atime_ns, before.st_mtime_ns))  # not even its time differs
    assert set(recalled(monkeypatch)) == set(VERBS) - FILES[file]


def test_a_command_that_complains_is_not_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["sstcast", "fake"])
    assert finished.recall() is None
    finished.Finished(tmp_path).remember("all is well\n")
    assert finished.recall() == "all is well\n"
    finished.complain("but this")
    finished.Finished(tmp_path).remember("all is better\n")
    assert finished.recall() == "all is well\n"


def test_a_file_that_changes_meanwhile_is_not_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["sstcast", "another"])
    done = finished.Finished(tmp_path / "new")
    (tmp_path / "new").touch()
    done.remember("all is well\n")
    assert finished.recall() is None
