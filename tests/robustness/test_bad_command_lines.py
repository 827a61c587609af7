"""Command lines that nobody should write."""

from pathlib import Path

import pytest
from bad import Family

VERBS = (
    "fetch", "status", "prepare", "models", "train", "datasets", "benchmark", "runs", "evaluate",
    "combine", "hindcast", "leaderboard", "forecast", "map", "report",
)  # fmt: skip


def test_command_lines(world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # "." must hold no runs
    family, run, config = Family("command lines", world), world / "runs/small", world / "small.yaml"
    absent = world / "absent"
    for verb in VERBS:
        family.try_out("unknown option", ("--nonsense",), verb, "--nonsense")
        family.try_out(
            "too many",
            ("--x", "--y", "rgument"),
            verb,
            *(["x"] * 40 if verb not in ("evaluate", "combine", "map") else ["--x"]),
            "--y",
        )
        family.try_out("a typing error", (verb[:-1] + "qq",), verb[:-1] + "qq")
    for verb in ("prepare", "train", "evaluate", "map", "report", "forecast", "runs", "leaderboard", "status"):
        for what in (absent, world / "small.nc", "/dev/null", "", "\x1b[31mred", "x" * 5000, "\udcff", "."):
            if verb == "status" and what in ("", ".", "/dev/null"):
                continue
            words = (str(what)[:50], "'.'", ".:", "red", "argument", "udcff", "config.yaml")
            family.try_out("no such thing", words, verb, what)
    for seeds in (
        "0..999999999999",
        "3..1",
        "a",
        "1,1",
        "-1",
        "0..",
        "..",
        "",
        "1" * 5000,
        "²",
        "0," * 3000,
        "9" * 30,
    ):
        family.try_out("seeds", ("--seeds",), "train", config, f"--seeds={seeds}")
    for setting in (
        "",
        "=",
        "a",
        "=1",
        "a..b=1",
        ".=1",
        "name",
        "data=1",
        "data.x=1",
        "training.epochs=",
        "a=[",
        "a=\t",
    ):
        family.try_out("set", ("--set", "small.yaml"), "train", config, "--set", setting)
    for region in (
        "nan,1,2,3",
        "1,2,3",
        "1,2,3,nan",
        "inf,1,2,3",
        "0,1,5,4",
        "0,0,1,2",
        "atlantis",
        "",
        ",,,",
        "1e999,0,0,1",
        "0,0.01,0,0.01",
        "1,2,-100,100",
    ):
        family.try_out(
            "region", ("--region", "region"), "fetch", "--source", "sample", "--region", region, "--out", absent
        )
        family.try_out("region", ("--region", "region"), "map", run, "--region", region)
        family.try_out(
            "region", ("--region", "region", "history", "tile", "small.nc"), "forecast", run, "--region", region
        )
    for day in ("tomorrow", "2013-02-30", "9999-12-31", "0001-01-01", "", "-1", "2002"):
        family.try_out("date", ("--date", "small.nc"), "forecast", run, f"--date={day}")
        family.try_out(
            "start",
            ("--start",),
            "fetch",
            "--source",
            "sample",
            f"--start={day or 'x'}",
            "--end",
            "1982-01-02",
            "--out",
            absent,
        )
    for out in (
        "/proc/x.nc",
        "/dev/null",
        "/dev/null/x.nc",
        world / "small.nc",
        world,
        "x" * 300 + ".nc",
        "x.txt",
        "",
    ):
        family.try_out("out", ("--out", str(out), "/dev/null: "), "forecast", run, "--out", out)
    for name in ("", ".", "..", "../x", "\x1b[31m", "x" * 300, "small", "\udcff"):
        family.try_out("combine", ("--name", "named twice", "named"), "combine", run, run, "--name", name)
    for source in (absent, "", "/dev/null", world / "small.yaml", "x" * 5000, "\udcff"):
        family.try_out(
            "evaluate elsewhere", ("--source", str(source)[:50], "udcff"), "evaluate", run, "--source", source
        )
    for against in ("persistance", "", absent, world, "/dev/null", world / "small.yaml"):
        family.try_out("against", ("--against", "config.yaml"), "evaluate", run, "--against", against)
    for resume in (absent, world, "", "/dev/null"):
        family.try_out("resume", ("--resume",), "train", "--resume", resume)
    family.try_out("resume and config", ("train", "--resume"), "train", config, "--resume", run)
    family.try_out("resume and seeds", ("--resume",), "train", "--resume", run, "--seeds", "0..1")
    family.try_out("resume and name", ("--resume",), "train", "--resume", run, "--set", "name=x")
    for flags in (
        ["--devices", "x"],
        ["--devices", "-1"],
        ["--devices", "1" * 5000],
        ["--strategy", "x"],
        ["--precision", "x"],
    ):
        family.try_out("flags", ("training.", flags[0]), "train", config, *flags)
    for flags in (["--concurrency", "0"], ["--concurrency", "x"], ["--end", "1981-01-01"]):
        family.try_out("flags", (flags[0],), "fetch", "--source", "sample", *flags, "--out", absent)
    family.try_out("projection", ("--projection",), "map", run, "--projection", "Nonsense")
    for name in ("", "nonsense", "../x", "absent.yaml"):
        family.try_out(
            "benchmark", ("data set", "no such", "--model", name or "'"), "benchmark", name, "--model", "gps"
        )
    family.try_out("model", ("--model",), "benchmark", "cora", "--model", "nonsense")
    family.close(at_least=200)
