"""Configurations: bytes at random, every key with every kind of value, and what people are known to write."""

import random
from pathlib import Path

import pytest
from bad import CHANGES, Family

from sstcast.artefacts import packaged
from sstcast.config import load_config
from sstcast.errors import SSTCastError

VALUES = [
    "null", "true", "-1", "0", "99999999999999999999", "1" * 5000, ".nan", "-.inf", "1e999", "''", "[]", "{}",
    "x" * 3000, '"\\0"', '"\\e[2J"', "[1, 2, 3]", "2013-02-30", "{a: {b: [c]}}", "!!python/name:os.system",
]  # fmt: skip
BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join(['*' + before] * 9)}]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)
TEXTS = {
    "a day that is none": "data: {splits: {train: [1982-01-01, 2013-02-30]}}",
    "deep": "data: " + "[" * 3000,
    "deep and closed": "data: " + "[" * 900 + "]" * 900,
    "bomb": BOMB,
    "circle": "data: &d {region: *d}",
    "twice": "name: a\nname: b",
    "a number as key": "model: {1: 2}",
    "a list as key": "? [a, b]\n: c",
    "tab": "data:\n\tsource: sample",
    "two documents": "a: 1\n---\nb: 2",
    "no mapping": "- 1\n- 2",
    "nothing": "",
    "NUL": "name: a\0b",
    "unknown anchor": "data: *there",
    "merge of text": "<<: text",
    "base of itself": "base: bad.yaml",
    "base that is absent": "base: absent.yaml",
    "base that is a folder": "base: .",
    "base that is a number": "base: 3",
    "base with NUL": 'base: "\\0"',
    "base of nobody": "base: ~nobody/at.yaml",
    "half a surrogate": 'name: "\\ud800"',
    "binary": "name: !!binary //79",
    "set": "data: !!set {a, b}",
    "year 0": "data: {splits: {train: [0, 1]}}",
    "year 99999": "data: {splits: {train: [1982, 99999]}}",
    "year as a fraction": "data: {splits: {train: [1982.5, 1983]}}",
}  # fmt: skip


def keys(values: dict, before: str = "") -> list[str]:
    """Return the paths of all keys, sections included."""
    found = []
    for key, value in values.items():
        found.append(before + key)
        if isinstance(value, dict):
            found += keys(value, f"{before}{key}.")
    return found


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    return tmp_path / "bad.yaml"


def test_bytes(bad: Path) -> None:
    family, chance = Family("YAML, bytes", bad.parent), random.Random(1)
    texts = [packaged("configs/demo.yaml"), *sorted(packaged("configs/models").glob("*.yaml"))[:3]]
    for text in texts:
        for name, change in CHANGES.items():
            for _ in range(6):
                bad.write_bytes(change(text.read_bytes(), chance))
                family.try_out(name, ("bad.yaml", "pacific.yaml", "--seeds"), "train", bad, "--seeds", "none")
    for content in (
        b"\xef\xbb\xbf" + texts[0].read_bytes(),
        b"\xff\xfe" + "name: a".encode("utf-16-le"),
        b"#" * 2**21,
    ):
        bad.write_bytes(content)
        family.try_out("encoding", ("bad.yaml", "--seeds"), "train", bad, "--seeds", "none")
    family.close(at_least=100)


def test_texts(bad: Path) -> None:
    family = Family("YAML, texts", bad.parent)
    for name, text in TEXTS.items():
        for verb in ("prepare", "train"):
            bad.write_text(text)
            family.try_out(name, ("bad.yaml", "absent.yaml"), verb, bad)
    bad.unlink()
    bad.mkdir()
    family.try_out("folder", ("bad.yaml",), "prepare", bad)
    family.try_out("long name", ("x.yaml",), "prepare", bad.parent / ("x" * 300 + "x.yaml"))
    assert set(family.codes) == {2}
    family.close(at_least=50)


def test_values(world: Path) -> None:
    """Each key with each value; only to be read, as some of them are right."""
    raw = load_config(world / "small.yaml").model_dump(mode="json")
    settings = [f"{key}={value}" for key in keys(raw) for value in VALUES]
    said = {}
    for setting in settings:
        try:
            load_config(world / "small.yaml", [setting])
        except SSTCastError as error:
            said[setting] = str(error)
    assert len(settings) >= 500
    for setting, line in said.items():
        assert "\n" not in line
        assert setting.partition(".")[0].partition("=")[0] in line


def test_values_in_use(world: Path) -> None:
    """What a configuration may say by itself, but not of this ocean."""
    family = Family("YAML, values in use", world)
    for setting in (
        "data.region.lon=[0, 10]", "data.region.lat=[-10, -12]", "data.region.lat=[80, 90]",
        "data.region.coarsen=7",
        "data.region.tile=[10000, 10000]", "data.region.tile=[5, 5]", "data.region.skip=[7]",
        "data.region.skip=[0, 1]", "data.region=pacific", "data.region={lon: [170, 173], lat: [-12, -10]}",
        "data.source=absent.nc", "data.source=.", "data.source=''", "data.source=/dev/null",
        "data.directory=/proc/x", "data.directory=/dev/null/x",
        "data.splits={train: [1700, 1701], validation: [1702, 1702], test: [1703, 1703]}",
        "data.splits={train: [2100, 2101], validation: [2102, 2102], test: [2103, 2103]}",
    ):  # fmt: skip
        sets = (
            ("--set", setting)
            if "directory" in setting
            else ("--set", setting, "--set", f"data.directory={world}/p")
        )
        family.try_out(
            setting,
            ("data.", "small.nc", "absent.nc", "/proc/x", "/dev/null", ": "),
            "prepare",
            world / "small.yaml",
            *sets,
        )
    for setting in (
        "model.name=absent", "model.width=1000000000000", "model.width=10000000", "model.width=0",
        "model.width=-3",
        "model.width=x", "model.layers=100000000", "model.dropout=2", "model.dropout=-1", "model.widht=3",
        "model={name: gps, width: 8, heads: 3}", "model={name: gps, attention_options: {features: 1000000000}}",
        "model={name: gps, attention: performer, attention_options: {a: {b: c}}}", "training.device=tpu",
        "training.device=cuda", "training.devices=9", "data.horizon=9999", "runs=/proc/x", "runs=/dev/null",
    ):  # fmt: skip
        words = ("model", "training", "data.", "/proc/x", "/dev/null", "width", "attention_options", "device")
        family.try_out(setting, words, "train", world / "small.yaml", "--set", setting, "--set", "name=other")
    family.close(at_least=35)
