"""Configurations and command lines: damaged files, keys with wrong values, and typing errors."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from bad import CHANGES

from sstcast.config import load_config
from sstcast.errors import SSTCastError
from sstcast.storage.paths import packaged

pytestmark = pytest.mark.filterwarnings("ignore")
Attempt = Callable[..., int]
REGIONS = ("nan,1,2,3", "1,2,3", "0,1,5,4", "", "0,0.01,0,0.01", "1,2,-100,100")
VALUES = ["null", "-1", ".nan", "''", "[]", "{a: {b: [c]}}", "x", "2013-02-30", "!!python/name:os.system"]
TEXTS = [
    "data: {splits: {train: [1982-01-01, 2013-02-30]}}",
    "data: [[[",
    "data: &d {region: *d}",
    "name: a\nname: b",
    "model: {1: 2}",
    "? [a, b]\n: c",
    "data:\n\tsource: sample",
    "a: 1\n---\nb: 2",
    "- 1\n- 2",
    "",
    "name: a\0b",
    "data: *there",
    "base: bad.yaml",
    "base: absent.yaml",
    "base: .",
    "base: 3",
    "data: {splits: {train: [0, 1]}}",
    "data: {splits: {train: [1982.5, 1983]}}",
]
PREPARED = (
    "data.region.lon=[0, 10]", "data.region.lat=[-10, -12]", "data.region.lat=[80, 90]", "data.region.coarsen=7",
    "data.region.tile=[10000, 10000]", "data.region.tile=[5, 5]", "data.region.skip=[7]", "data.region=pacific",
    "data.source=absent.nc", "data.source=.", "data.source=''", "data.source=/dev/null",
    "data.directory=/dev/null/x",
    "data.splits={train: [1700, 1701], validation: [1702, 1702], test: [1703, 1703]}",
)  # fmt: skip
TRAINED = (
    "model.name=absent", "model.width=10000000", "model.width=0", "model.width=x", "model.layers=100000000",
    "model.dropout=2", "model.widht=3", "model={name: gps, width: 8, heads: 3}",
    "model={name: gps, attention_options: {features: 1000000000}}", "training.device=tpu", "training.devices=9",
    "data.horizon=9999", "runs=/dev/null",
)  # fmt: skip


def keys(values: dict, before: str = "") -> list[str]:
    """Return the paths of all keys, sections included."""
    found = []
    for key, value in values.items():
        found.append(before + key)
        if isinstance(value, dict):
            found += keys(value, f"{before}{key}.")
    return found


def test_damaged_files_and_texts(tmp_path: Path, attempt: Attempt) -> None:
    chance, bad = random.Random(1), tmp_path / "bad.yaml"
    whole = packaged("configs/demo.yaml").read_bytes()
    damaged = [change(whole, chance) for change in CHANGES.values()]
    for content in (*damaged, b"\xef\xbb\xbf" + whole, b"\xff\xfe" + "name: a".encode("utf-16-le")):
        bad.write_bytes(content)
        assert attempt(("bad.yaml", "pacific.yaml", "--seeds"), "train", bad, "--seeds", "none") == 2
    for text in TEXTS:
        bad.write_text(text)
        assert attempt(("bad.yaml", "absent.yaml"), "prepare", bad) == 2


def test_values(world: Path) -> None:
    """Each key with each value; only to be read, as some of them are right."""
    raw = load_config(world / "small.yaml").model_dump(mode="json")
    refused = {}
    for setting in [f"{key}={value}" for key in keys(raw) for value in VALUES]:
        try:
            load_config(world / "small.yaml", [setting])
        except SSTCastError as error:
            refused[setting] = str(error)
    assert len(refused) > 150
    for setting, line in refused.items():
        assert "\n" not in line
        assert setting.partition(".")[0].partition("=")[0] in line


def test_values_in_use(world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, attempt: Attempt) -> None:
    """What a configuration may say by itself, but not of this ocean."""
    monkeypatch.chdir(tmp_path)  # "." must hold no data
    config = world / "small.yaml"
    words = ("data.", "small.nc", "absent.nc", "/dev/null", "model", "training", "width", "device", ": ")
    for setting in PREPARED:
        elsewhere = [] if "directory" in setting else ["--set", f"data.directory={world}/p"]
        attempt(words, "prepare", config, "--set", setting, *elsewhere)
    for setting in TRAINED:
        attempt(words, "train", config, "--set", setting, "--set", "name=other")


def test_command_lines(world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, attempt: Attempt) -> None:
    monkeypatch.chdir(tmp_path)  # "." must hold no runs
    run, config, absent = world / "runs/small", world / "small.yaml", "absent"
    for verb in ("prepare", "train", "evaluate", "map", "report", "forecast", "runs", "leaderboard"):
        for what in (absent, world / "small.nc", "", "."):
            attempt((what, "'.'", ".:", "argument", "config.yaml"), verb, what)
    cases: list[tuple[object, ...]] = [
        *(("--seeds", "train", config, f"--seeds={seeds}") for seeds in ("3..1", "a", "1,1", "-1", "")),
        *(("--set", "train", config, "--set", text) for text in ("", "a", "=1")),
        *(("--date", "forecast", run, "--date", day) for day in ("tomorrow", "2013-02-30", "")),
        *(("egion", "fetch", "--source", "sample", "--region", region, "--out", absent) for region in REGIONS),
        *(("egion", "forecast", run, "--region", region) for region in REGIONS),
        *((flag, "train", config, flag, "x") for flag in ("--devices", "--strategy", "--precision")),
        ("--resume", "train", "--resume", absent),
        ("--out", "forecast", run, "--out", "x.txt"),
        (absent, "evaluate", run, "--source", absent),
        ("--resume", "train", config, "--resume", run),
        ("--resume", "train", "--resume", run, "--seeds", "0..1"),
        ("--projection", "map", run, "--projection", "Nonsense"),
        ("--model", "benchmark", "cora", "--model", "nonsense"),
        ("nonsense", "benchmark", "nonsense", "--model", "gps"),
    ]
    for word, *arguments in cases:
        attempt((word, "training.", "history", "tile", "small.nc", "small.yaml"), *arguments)
