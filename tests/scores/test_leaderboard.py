"""A leaderboard of copies of one evaluated run, altered by hand so that the order is known."""

import csv
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import pytest
import xarray as xr
import yaml
from refusals import refused
from scored_runs import OTHER_DAYS, retrain

from sstcast.errors import SSTCastError
from sstcast.names import BASELINES
from sstcast.reports.leaderboard import print_leaderboard, write_leaderboard
from sstcast.runs import Run
from sstcast.scores.leaderboard import leaderboard
from sstcast.scores.saved_scores import SavedScores
from sstcast.scores.score_files import ScoreFiles
from sstcast.scores.significance import DateBlocks, verdict
from sstcast.scores.system_records import record
from sstcast.storage.artefacts import noted, write_json


def copy(run: Run, folder: Path, error: float = 1, **changes: Any) -> Run:
    """Copy a run; its model's RMSE is `error` times what it was, and `changes` are made to its configuration."""
    copied = Run(Path(shutil.copytree(run.folder, folder, ignore=shutil.ignore_patterns("forecasts.zarr"))))
    config = yaml.safe_load(copied.config_file.read_text())
    for key, value in changes.items():
        section, _, name = key.partition("__")
        config = config | {section: config[section] | {name: value} if name else value}
    copied.config_file.write_text(yaml.safe_dump(config | {"name": folder.name}))
    metrics = json.loads(copied.metrics.read_text())
    metrics["scores"]["model"]["degC"]["rmse"] *= error
    metrics["scores"]["model"]["degC"]["mse"] *= error**2
    tables = ScoreFiles(copied.folder).tables
    with (
        noted(tables, metrics["recipe"]) as temporary,
        netCDF4.Dataset(shutil.copy(tables, temporary), "a") as altered,
    ):
        model = [*altered["system"][:]].index("model")
        altered["mse_by_date"][model] *= error**2
    write_json(copied.metrics, metrics)
    return copied


@pytest.fixture
def runs(scored: Run, tmp_path: Path) -> Path:
    for seed, error in ((0, 0.1), (1, 0.12)):
        copy(scored, tmp_path / "good" / f"seed-{seed}", error, training__seed=seed)
    copy(scored, tmp_path / "bad", 10, model__width=16)
    copy(scored, tmp_path / "elsewhere", 1, data__splits=OTHER_DAYS)
    return tmp_path


def test_seeds_are_one_entry_and_other_test_periods_another_table(runs: Path, scored: Run) -> None:
    contests = leaderboard(runs)
    assert [contest.title[-24:] for contest in contests] == [
        "2004-01-01 to 2004-12-31",
        "2003-07-01 to 2004-06-30",
    ]
    assert all("170,173,-12,-10, tiles of 8 x 6: physical" in contest.title for contest in contests)
    entries = contests[0].entries
    assert entries[0].name == "good"
    assert entries[-1].name == "bad"
    assert {entry.name for entry in entries[1:-1]} == set(BASELINES)
    assert [entry.runs for entry in entries] == [2, *[0] * len(BASELINES), 1]
    rmse = json.loads(scored.metrics.read_text())["scores"]["model"]["degC"]["rmse"]
    score = entries[0].scores["degC", "rmse"]
    assert score.mean == pytest.approx(0.11 * rmse)
    assert score.spread == pytest.approx(np.std([0.1 * rmse, 0.12 * rmse], ddof=1))
    assert entries[-1].scores["degC", "rmse"].spread is None
    assert [verdict(entry.compared) for entry in entries][:: len(entries) - 1] == ["better", "worse"]
    errors = [entry.mse for entry in entries]
    assert errors == sorted(errors)


def test_equal_runs_are_not_seeds(scored: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, seed, error in (("a", 0, 0.1), ("b", 0, 0.1), ("c", 1, 0.12), ("d", 1, 0.3)):
        copy(scored, tmp_path / name, error, training__seed=seed)
    contests = leaderboard(tmp_path)
    best = contests[0].entries[0]
    assert (best.name, best.runs) == ("a, c", 2)
    rmse = json.loads(scored.metrics.read_text())["scores"]["model"]["degC"]["rmse"]
    assert best.scores["degC", "rmse"].mean == pytest.approx(0.11 * rmse)
    print_leaderboard(contests)
    shown = capsys.readouterr().out.splitlines()
    lines = ["b: as a", "d: as c, but with other scores"]
    assert [line for line in shown if ": as " in line] == lines
    page = write_leaderboard(contests, tmp_path)[1].read_text(encoding="utf-8")
    assert all(f"<p>{line}</p>" in page for line in lines)


def test_a_linear_system_has_no_seed(scored: Run, tmp_path: Path) -> None:
    for seed in range(2):
        copy(scored, tmp_path / f"lim-{seed}", 0.1, model__name="lim", training__seed=seed)
    contest = leaderboard(tmp_path)[0]
    best = contest.entries[0]
    assert (best.name, best.runs, best.scores["degC", "rmse"].spread) == ("lim-0", 1, None)
    assert contest.repeated == ["lim-1: as lim-0"]


def test_the_seeds_of_an_ensemble_are_those_of_its_members(scored: Run, tmp_path: Path) -> None:
    for name, seeds in (("one", (0, 1)), ("other", (2, 3)), ("third", (0, 1))):
        run = copy(scored, tmp_path / name, 0.1)
        config = yaml.safe_load(run.config_file.read_text())
        for seed in seeds:
            config["training"]["seed"] = seed
            member = Run(run.folder / f"seed-{seed}")
            member.folder.mkdir()
            member.config_file.write_text(yaml.safe_dump(config))
    contest = leaderboard(tmp_path)[0]
    assert contest.entries[0].runs == 2
    assert contest.repeated == ["third: as one"]


def test_scores_of_other_weights_are_left_out(
    scored: Run, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Of a run, of a part of a combination, and of what a hindcast or a file was scored with."""
    one, part, other = (copy(scored, tmp_path / name) for name in ("one", "part", "other"))
    parts = [{"run": f"../{run.folder.name}", "checkpoints": run.digest} for run in (part, other)]
    both = copy(scored, tmp_path / "both", model={"name": "combination", "weights": "equal", "parts": parts})
    metrics = json.loads(both.metrics.read_text())
    metrics["systems"]["model"]["model"] = "combination"
    write_json(both.metrics, metrics)
    weights = [part.digest]
    scored_with_part = ({"against": {str(part.folder): weights[0]}}, {"runs": {"part": {"": weights}}})
    form = {key: metrics["recipe"][key] for key in ("layout", "metrics")}
    for recipe in scored_with_part:
        write_json(tmp_path / "metrics.json", metrics | {"recipe": form | recipe})
        SavedScores.read(tmp_path)
    assert _listed(tmp_path) == {"one", "part", "other", "both"}
    retrain(one)
    retrain(part)
    assert _listed(tmp_path) == {"other"}
    said = [record.message for record in caplog.records]
    for run, trained in ((one, one), (part, part), (both, part)):
        line = f"{trained.folder}: has been trained since it was scored; run `sstcast evaluate {run.folder}`"
        assert f"left out: {line}" in said
    for recipe in scored_with_part:
        write_json(tmp_path / "metrics.json", metrics | {"recipe": form | recipe})
        with refused(
            f"{part.folder}: has been trained since", "run the same `sstcast score` or `sstcast hindcast`"
        ):
            SavedScores.read(tmp_path)
    part.best.unlink()  # as in a copy without checkpoints
    assert _listed(tmp_path) == {"other", "part", "both"}


def _listed(folder: Path) -> set[str]:
    contests = leaderboard(folder)
    lines = [line for contest in contests for line in contest.repeated]
    names = [entry.name for contest in contests for entry in contest.entries if entry.runs]
    return {*names, *(line.partition(":")[0] for line in lines)}


def test_runs_that_cannot_be_ranked_together_are_in_contests_of_their_own(scored: Run, tmp_path: Path) -> None:
    """On other grids, and under the protocol `paper`, which ranks standardised errors, of other base periods."""
    for name, grid in (("fine", 0.25), ("coarse", 0.5)):
        copy(scored, tmp_path / name, data__grid=grid)
    splits = yaml.safe_load(scored.config_file.read_text())["data"]["splits"]
    for protocol in ("paper", "physical"):
        for name, base in (("short", [2001, 2001]), ("long", [2001, 2002])):
            changes = {"data__splits": splits | {"base_period": base}, "data__protocol": protocol}
            copy(scored, tmp_path / f"{protocol}-{name}", **changes)
    titles = {entry.name: contest.title for contest in leaderboard(tmp_path) for entry in contest.entries}
    assert titles["fine"].endswith("2004-12-31, on a grid of 0.25 degrees")
    assert titles["coarse"].endswith("2004-12-31, on a grid of 0.5 degrees")
    assert titles["paper-short"].endswith("2004-12-31, base 2001")
    assert titles["paper-long"].endswith("2004-12-31, base 2001..2002")
    assert titles["physical-short"] == titles["physical-long"]
    assert titles["physical-short"].endswith("2004-12-31")


def test_rows_have_names_of_their_own(scored: Run, tmp_path: Path) -> None:
    """Two pairs of seeds that share the beginning of their names, and a run named as a baseline."""
    for number, width in ((1, 16), (2, 16), (3, 8), (4, 8)):
        changes = {"training__seed": number, "model__width": width}
        copy(scored, tmp_path / f"net-{number}", number / 10, **changes)
    copy(scored, tmp_path / "ridge", 5, model__width=4)
    contests = leaderboard(tmp_path)
    names = [entry.name for entry in contests[0].entries]
    assert {*names} == {"net-1, net-2", "net-3, net-4", "ridge (run)", *BASELINES}
    assert len(names) == 3 + len(BASELINES)
    with write_leaderboard(contests, tmp_path)[0].open(newline="", encoding="utf-8") as file:
        assert [row["name"] for row in csv.DictReader(file)] == names


def test_another_ocean_of_the_same_name_is_another_table(scored: Run, tmp_path: Path) -> None:
    copy(scored, tmp_path / "here", 0.1)
    there = copy(scored, tmp_path / "there")
    metrics = json.loads(there.metrics.read_text())
    metrics["data"]["test"] = "0123456789"
    write_json(there.metrics, metrics)
    contests = leaderboard(tmp_path)
    assert [len(contest.entries) for contest in contests] == [1 + len(BASELINES)] * 2
    assert len({contest.title for contest in contests}) == 2
    assert [contest.title for contest in contests if contest.title.endswith("(test days 01234567)")]


def test_other_histories_are_another_table_and_other_years_other_baselines(scored: Run, tmp_path: Path) -> None:
    copy(scored, tmp_path / "one", 0.1)
    copy(scored, tmp_path / "long", 0.1, data__history=12)
    other = copy(scored, tmp_path / "other", 0.2)
    config = yaml.safe_load(other.config_file.read_text())
    config["data"]["splits"] |= {"train": ["2001-01-01", "2002-06-30"]}
    other.config_file.write_text(yaml.safe_dump(config))
    metrics = json.loads(other.metrics.read_text())
    metrics["scores"]["linear base"] = metrics["scores"]["damped persistence"]
    metrics["systems"]["linear base"] = record("base", "model")
    write_json(other.metrics, metrics)
    with ScoreFiles(other.folder).open() as opened:
        tables = opened.load()
    base = tables.sel(system=["damped persistence"]).assign_coords(system=["linear base"])
    with noted(ScoreFiles(other.folder).tables, metrics["recipe"]) as temporary:
        xr.concat([tables, base], "system", data_vars="minimal").to_netcdf(temporary, engine="netcdf4")
    one, long = leaderboard(tmp_path)
    for contest, history in ((one, 10), (long, 12)):
        assert f", 8 days ahead from {history} days of history, " in contest.title
    names = [entry.name for entry in one.entries]
    years = "2001-01-01..2002-06-30, 2003", "2001..2002, 2003"
    assert {*names} == {"one", "other", "linear base of other"} | {f"{n} ({y})" for n in BASELINES for y in years}
    assert {entry.name for entry in long.entries} == {"long", *BASELINES}


def test_below_two_blocks_of_dates_nothing_is_tested(scored: Run, tmp_path: Path) -> None:
    run = copy(scored, tmp_path / "bad", 10)
    copy(scored, tmp_path / "good", 0.1, model__width=16)
    metrics = json.loads(run.metrics.read_text())
    assert all(verdict(entry.compared) != "too few dates" for entry in leaderboard(tmp_path)[0].entries)
    with ScoreFiles(run.folder).open() as opened:
        tables = opened.isel(init_time=slice(2 * DateBlocks.of(8, 1).block - 1)).load()
    with noted(ScoreFiles(run.folder).tables, metrics["recipe"]) as temporary:
        tables.to_netcdf(temporary, engine="netcdf4")
    verdicts = {entry.name: verdict(entry.compared) for entry in leaderboard(tmp_path)[0].entries}
    assert (verdicts["bad"], verdicts["good"]) == ("too few dates", "better")


def test_the_ratio_of_one_run_is_that_of_evaluate_and_of_seeds_that_of_their_means(
    scored: Run, tmp_path: Path
) -> None:
    copy(scored, tmp_path / "one")
    of_evaluate = json.loads(scored.metrics.read_text())["ratios"]["mse"]
    for entry in leaderboard(tmp_path)[0].entries:
        name = "model" if entry.name == "one" else entry.name
        expected = of_evaluate[name]["multiscale ridge"]
        for key in ("ratio", "interval", "p_value", "over_folds"):
            assert entry.compared[key] == expected[key]
    copy(scored, tmp_path / "two", 2, training__seed=5)
    (both,) = (entry for entry in leaderboard(tmp_path)[0].entries if entry.runs == 2)
    ratio = of_evaluate["model"]["multiscale ridge"]["ratio"]
    assert both.compared["ratio"] == pytest.approx(ratio * (1 + 4) / 2, rel=1e-5)


def test_terminal_csv_and_page_say_the_same(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    contests = leaderboard(runs)
    print_leaderboard(contests)
    shown = capsys.readouterr().out
    for name, text in (("leaderboard.csv", "team,points\n"), ("leaderboard.html", "<html>\n<p>Of others\n")):
        (own := runs / name).write_text(text)
        with refused(own, "exists and is not a file of sstcast; rename it"):
            write_leaderboard(contests, runs)
        assert own.read_text() == text
        own.unlink()
    table, page = write_leaderboard(contests, runs)
    with table.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    best = contests[0].entries[0]
    assert (rows[0]["name"], rows[0]["runs"], "p_value" in rows[0]) == ("good", "2", False)
    ends = [float(rows[0][f"mse_ratio{end}"]) for end in ("", "_low", "_high")]
    assert ends == [best.compared["ratio"], *best.compared["interval"]]
    assert f"{best.compared['ratio']:.3f}* ({ends[1]:.3f}..{ends[2]:.3f})" in shown
    assert float(rows[0]["degC_rmse"]) == best.scores["degC", "rmse"].mean
    assert len(rows) == 3 + 2 * len(BASELINES)
    text = f"{best.scores['degC', 'rmse'].mean:.3f} ± {best.scores['degC', 'rmse'].spread:.3f}"
    html = page.read_text(encoding="utf-8")
    assert text in html
    assert text in shown
    assert f"{best.scores['standardised', 'mse'].mean:.4f} ± " in html  # four digits, as Table 5 has them
    assert "2 tables, because runs with different data or test periods cannot be compared" in shown
    assert html.count("<table") == html.count("<caption") == 2
    assert html.count("<tr") == 2 + len(rows)
    assert "http" not in html


def test_the_verb(scored: Run, tmp_path: Path, command: Callable[..., tuple[int, str, str]]) -> None:
    nothing = f"sstcast: {tmp_path}: no evaluated runs; run `sstcast evaluate RUN...` first\n"
    assert command("leaderboard", tmp_path) == (2, "", nothing)
    copy(scored, tmp_path / "one")
    assert str(tmp_path / "leaderboard.html") in command("leaderboard", tmp_path)[1]
    said = command("evaluate", scored.folder, "--against", "damped")[1]
    assert "than damped persistence: " in " ".join(said.split())
    assert "did you mean 'damped'?" in command("evaluate", scored.folder, "--against", "dampd")[2]


def test_scored_files_have_a_table_and_runs_without_scores_a_line(
    scored: Run, tmp_path: Path, command: Callable[..., tuple[int, str, str]]
) -> None:
    copy(scored, tmp_path / "one")
    for name in ("two", "three/seed-1"):  # a run, and a member of an ensemble
        other = copy(scored, tmp_path / name)
        ScoreFiles(other.folder).tables.unlink()
        if name == "two":  # the other one lost its tables alone
            other.metrics.unlink()
    shutil.copy(other.config_file, other.folder.parent)
    of_file = ScoreFiles(tmp_path / "theirs.nc-scores")
    of_file.folder.mkdir()
    shutil.copy(ScoreFiles(scored.folder).tables, of_file.tables)
    metrics = json.loads(scored.metrics.read_text()) | {"kind": "file", "file": "/elsewhere/theirs.nc"}
    del metrics["recipe"]["weights"]
    write_json(of_file.metrics, metrics)
    code, said, _ = command("leaderboard", tmp_path)
    assert code == 0
    assert "left out, as they are not evaluated: three, two; run `sstcast evaluate`" in said
    assert "theirs.nc: mpnn, physical protocol" in said
    assert re.search(f"\ntheirs.nc +{metrics['scores']['model']['degC']['mse']:.4f} ", said.replace("\n ", "\n"))
    assert "theirs.nc: mpnn" in (tmp_path / "leaderboard.html").read_text()


def test_nothing_to_show(tmp_path: Path, scored: Run) -> None:
    old = copy(scored, tmp_path / "old")
    old.metrics.write_text(json.dumps(json.loads(old.metrics.read_text()) | {"recipe": {"layout": 1}}))
    with pytest.raises(
        SSTCastError, match=r"old/metrics.json: missing, damaged or from another version; run `sstcast evaluate"
    ):
        leaderboard(tmp_path)


def test_baselines_of_another_base_period_are_rows_of_their_own(scored: Run, tmp_path: Path) -> None:
    splits = yaml.safe_load(scored.config_file.read_text())["data"]["splits"]
    copy(scored, tmp_path / "one", 0.1)
    copy(scored, tmp_path / "other", 0.2, data__splits=splits | {"base_period": ["2001-01-01", "2003-12-31"]})
    [contest] = leaderboard(tmp_path)
    years = "2001..2002, 2003", "2001..2002, 2003, base 2001..2003"
    names = {entry.name for entry in contest.entries}
    assert names == {"one", "other"} | {f"{name} ({of})" for name in BASELINES for of in years}
