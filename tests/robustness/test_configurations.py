"""Configurations and command lines: damaged files, keys with wrong values, and typing errors."""

import random
from pathlib import Path

import pytest
from bad import CHANGES, Family

from sstcast.artefacts import packaged
from sstcast.config import load_config
from sstcast.errors import SSTCastError

VALUES = [
    "null", "true", "-1", "0", "99999999999999999999", ".nan", "-.inf", "''", "[]", "{}", "x",
    "[1, 2, 3]", "2013-02-30", "{a: {b: [c]}}", "!!python/name:os.system",
]  # fmt: skip
TEXTS = {
    "a day that is none": "data: {splits: {train: [1982-01-01, 2013-02-30]}}",
    "brackets left open": "data: [[[",
    "a circle": "data: &d {region: *d}",
    "a key twice": "name: a\nname: b",
    "a number as key": "model: {1: 2}",
    "a list as key": "? [a, b]\n: c",
    "a tab": "data:\n\tsource: sample",
    "two documents": "a: 1\n---\nb: 2",
    "no mapping": "- 1\n- 2",
    "nothing": "",
    "a NUL": "name: a\0b",
    "an unknown anchor": "data: *there",
    "base of itself": "base: bad.yaml",
    "base that is absent": "base: absent.yaml",
    "base that is a folder": "base: .",
    "base that is a number": "base: 3",
    "year 0": "data: {splits: {train: [0, 1]}}",
    "year as a fraction": "data: {splits: {train: [1982.5, 1983]}}",
}
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


def test_damaged_files_and_texts(tmp_path: Path) -> None:
    family, chance, bad = Family("YAML", tmp_path), random.Random(1), tmp_path / "bad.yaml"
    whole = packaged("configs/demo.yaml").read_bytes()
    for name, change in CHANGES.items():
        for _ in range(4):
            bad.write_bytes(change(whole, chance))
            family.try_out(name, ("bad.yaml", "pacific.yaml", "--seeds"), "train", bad, "--seeds", "none")
    for content in (b"\xef\xbb\xbf" + whole, b"\xff\xfe" + "name: a".encode("utf-16-le")):
        bad.write_bytes(content)
        family.try_out("encoding", ("bad.yaml", "--seeds"), "train", bad, "--seeds", "none")
    for name, text in TEXTS.items():
        bad.write_text(text)
        family.try_out(name, ("bad.yaml", "absent.yaml"), "prepare", bad)
    assert set(family.codes) == {2}
    family.close()


def test_values(world: Path) -> None:
    """Each key with each value; only to be read, as some of them are right."""
    raw = load_config(world / "small.yaml").model_dump(mode="json")
    refused = {}
    for setting in [f"{key}={value}" for key in keys(raw) for value in VALUES]:
        try:
            load_config(world / "small.yaml", [setting])
        except SSTCastError as error:
            refused[setting] = str(error)
    assert len(refused) > 200
    for setting, line in refused.items():
        assert "\n" not in line
        assert setting.partition(".")[0].partition("=")[0] in line


def test_values_in_use(world: Path) -> None:
    """What a configuration may say by itself, but not of this ocean."""
    family, config = Family("values in use", world), world / "small.yaml"
    words = ("data.", "small.nc", "absent.nc", "/dev/null", "model", "training", "width", "device", ": ")
    for setting in PREPARED:
        elsewhere = [] if "directory" in setting else ["--set", f"data.directory={world}/p"]
        family.try_out(setting, words, "prepare", config, "--set", setting, *elsewhere)
    for setting in TRAINED:
        family.try_out(setting, words, "train", config, "--set", setting, "--set", "name=other")
    family.close()


VERBS = (
    "fetch", "status", "prepare", "models", "train", "datasets", "benchmark", "runs", "evaluate",
    "combine", "hindcast", "leaderboard", "forecast", "map", "report",
)  # fmt: skip


def test_command_lines(world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # "." must hold no runs
    family, run, config, absent = (
        Family("command lines", world),
        world / "runs/small",
        world / "small.yaml",
        "absent",
    )
    for verb in VERBS:
        family.try_out("unknown option", ("--nonsense",), verb, "--nonsense")
        family.try_out("a typing error", (verb[:-1] + "qq",), verb[:-1] + "qq")
    for verb in ("prepare", "train", "evaluate", "map", "report", "forecast", "runs", "leaderboard"):
        for what in (absent, world / "small.nc", "", "."):
            family.try_out("no such thing", (what, "'.'", ".:", "argument", "config.yaml"), verb, what)
    cases: list[tuple[object, list[object], tuple[object, ...]]] = [
        *(("--seeds", ["train", config, f"--seeds={seeds}"], ()) for seeds in ("3..1", "a", "1,1", "-1", "")),
        *(("--set", ["train", config, "--set", text], ("small.yaml",)) for text in ("", "a", "=1", "a=[")),
        *(("--date", ["forecast", run, "--date", day], ("small.nc",)) for day in ("tomorrow", "2013-02-30", "")),
        *(("--against", ["evaluate", run, "--against", what], ("config.yaml",)) for what in ("ridg", absent)),
        *(("named", ["combine", run, run, "--name", name], ("--name",)) for name in ("", "..", "../x", "small")),
        *(("--resume", ["train", "--resume", what], ()) for what in (absent, "")),
        *((out, ["forecast", run, "--out", out], ("--out",)) for out in (world, "x.txt")),
        (absent, ["evaluate", run, "--source", absent], ()),
        ("--resume", ["train", config, "--resume", run], ()),
        ("--resume", ["train", "--resume", run, "--seeds", "0..1"], ()),
        ("--projection", ["map", run, "--projection", "Nonsense"], ()),
        ("--model", ["benchmark", "cora", "--model", "nonsense"], ()),
        ("data set", ["benchmark", "nonsense", "--model", "gps"], ("nonsense",)),
    ]
    for region in ("nan,1,2,3", "1,2,3", "0,1,5,4", "atlantis", "", "0,0.01,0,0.01", "1,2,-100,100"):
        cases.append(("egion", ["fetch", "--source", "sample", "--region", region, "--out", absent], ()))
        cases.append(("egion", ["forecast", run, "--region", region], ("history", "tile", "small.nc")))
    for flags in (["--devices", "x"], ["--strategy", "x"], ["--precision", "x"]):
        cases.append((flags[0], ["train", config, *flags], ("training.",)))
    for flags in (["--concurrency", "0"], ["--end", "1981-01-01"], ["--start", "2013-02-30"]):
        cases.append((flags[0], ["fetch", "--source", "sample", *flags, "--out", absent], ()))
    for word, arguments, others in cases:
        family.try_out(str(word), (word, *others), *arguments)
    family.close()
