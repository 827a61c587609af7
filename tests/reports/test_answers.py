"""What `evaluate`, `score` and `hindcast` print first: answers in few lines, with the numbers of the scores."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
from scored_runs import metrics_of

import sstcast
from sstcast.figures import printing
from sstcast.figures.answers import (
    about_the_distribution,
    answers,
    lines_of_systems,
    squared_error,
    summary,
    table_of_systems,
)
from sstcast.figures.sheets import sections_of
from sstcast.figures.tables import versus
from sstcast.runs import Run
from sstcast.scores.system_records import record

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def metrics(scored: Run) -> dict[str, Any]:
    return metrics_of(scored)


def test_an_evaluation_is_answered_in_a_hundred_columns_and_its_tables_follow_if_asked_for(
    scored: Run, metrics: dict[str, Any], command: Command
) -> None:
    code, short, _ = command("evaluate", scored.folder)
    lines = short.splitlines()
    assert code == 0
    assert lines[-1] == f"{scored.metrics}: nothing to do"
    assert len(lines) < 20
    assert max(map(len, lines[:-1])) <= 100
    text = " ".join(short.split())
    assert text.startswith(f"small: {squared_error(metrics)}. {summary(metrics)}. RMSE")
    assert all(sentence in text for sentence in answers(metrics))
    printing._print_once.cache_clear()
    code, long, _ = command("evaluate", scored.folder, "--tables")
    assert code == 0
    assert long.startswith(short.removesuffix(f"{lines[-1]}\n"))
    assert long.count("All leads, °C") == 1
    assert "All leads, °C" not in short


@pytest.mark.parametrize(
    ("ratios", "rival", "expected"),
    [
        ((0.47, 0.39), (0.98, [0.97, 0.99]), "53 % below the {}, 61 % below persistence; 2 % below {}, 1 to 3 %"),
        ((1.2, 0.5), (1.05, [1.02, 1.08]), "20 % above the {}, 50 % below persistence; 5 % above {}, 2 to 8 %"),
        (
            (1.0, 1.004),
            (0.996, [0.98, 1.01]),
            "0.0 % below the {}, 0.4 % above persistence; 0.4 % below {}, 1 % above to 2 % below",
        ),
        (
            (0.5, 0.5),
            (1.5, [None, None]),
            "50 % below the {}, 50 % below persistence; 50 % above {}, too few dates for an interval",
        ),
    ],
)
def test_the_first_line_needs_no_knowledge_of_systems(
    metrics: dict[str, Any], ratios: tuple[float, float], rival: tuple[float, list[float]], expected: str
) -> None:
    of_model = metrics["ratios"]["mse"]["model"]
    mse = {name: of["degC"]["mse"] for name, of in metrics["scores"].items() if name != "model"}
    climate = min((name for name in mse if "climatology" in name), key=mse.__getitem__)
    linear = min((name for name in mse if name == "damped persistence" or "ridge" in name), key=mse.__getitem__)
    of_model[climate]["ratio"], of_model["persistence"]["ratio"] = ratios
    of_model[linear] |= {"ratio": rival[0], "interval": rival[1]}
    assert squared_error(metrics) == f"squared error {expected.format(climate, linear)}"
    metrics["kind"], metrics["systems"]["model"]["model"] = "hindcast", "ridge"  # which is not its own rival
    assert squared_error(metrics) == f"squared error of model {expected.format(climate, linear)}"
    del of_model["persistence"], of_model[linear]  # which a hindcast compares with its reference alone
    of_errors = []
    for name in ("persistence", linear):
        skill = 1 - metrics["scores"]["model"]["degC"]["mse"] / mse[name]
        of_errors.append(f"{abs(100 * skill):.0f} % {'below' if skill > 0 else 'above'} {name}")
    assert squared_error(metrics).endswith(f" the {climate}, {', '.join(of_errors)}")


def test_sentences_have_the_numbers_of_the_metrics(metrics: dict[str, Any]) -> None:
    own = metrics["scores"]["model"]["degC"]["by_lead"]["rmse"]
    names = ("climatology", "trend climatology", "recent climatology")
    lowest = min(names, key=lambda name: metrics["scores"][name]["degC"]["mse"])
    base = metrics["scores"][lowest]["degC"]["by_lead"]["rmse"]
    errors, to_reference, to_climatology, *_ = answers(metrics)
    days = [f"{own[day - 1]:.3f} °C on day {day} ({base[day - 1]:.3f})" for day in (1, 7, 8)]
    told = f"RMSE (in brackets that of the {lowest}): {', '.join(days)}."
    assert errors == f"{told} Day 1 is 1 day after the last observed day."
    assert answers(metrics | {"kind": "file"})[0] == told
    of_model = metrics["ratios"]["mse"]["model"]
    assert to_reference == f"The {of_model['multiscale ridge']['sentence']}"
    assert to_climatology == f"The {of_model[lowest]['sentence']}"
    assert answers(metrics, ["persistence"])[1] == f"The {of_model['persistence']['sentence']}"
    for name in names:  # another one has the lowest error
        changed = copy.deepcopy(metrics)
        changed["scores"][name]["degC"]["mse"] = 1e-6
        assert answers(changed)[0].startswith(f"RMSE (in brackets that of the {name})")


@pytest.mark.parametrize(
    ("weeks", "expected"),
    [
        ([0.8, 0.9], "20.0% in week 1, 10.0% in week 2."),
        ([0.8, 1.0], "20.0% in week 1, not distinguishable in week 2 (0.0%)."),
        ([1.0, 0.8], "not distinguishable in week 1 (0.0%)."),
        ([1.2, 0.8], "worse in week 1 (-20.0%)."),
    ],
)
def test_weeks_of_heatwaves_end_before_one_that_is_not_better(
    metrics: dict[str, Any], weeks: list[float], expected: str
) -> None:
    ends = [[week - 0.05, week + 0.05] for week in weeks]
    compared = metrics["ratios"]["event"]["model"]["base rate"]
    compared["by_week"] = {"ratio": weeks, "interval": ends}
    assert about_the_distribution(metrics)[-1].endswith(f"over the base rate: {expected}")
    compared["by_week"]["over_folds"] = [{"interval": [0.7, 1.1]}] * 2
    assert "week 2" not in about_the_distribution(metrics)[-1]  # by the folds, no week is better
    metrics["probabilities"] = {}
    compared["ratio"] = None
    assert about_the_distribution(metrics) == []


@pytest.mark.parametrize(
    ("last", "words"),
    [
        ("2004-03-31", "(one test year: weak evidence)"),
        ("2004-12-31", "(one test year: weak evidence)"),
        ("2005-12-31", "(two test years: weak evidence)"),
    ],
)
def test_few_test_years_are_weak_evidence(metrics: dict[str, Any], last: str, words: str) -> None:
    assert summary(metrics | {"test": ["2004-01-01", last]}).endswith(words)
    assert "weak" not in summary(metrics | {"test": ["2004-01-01", "2006-12-31"]})


def test_what_was_asked_for_has_its_table_and_what_is_kept_is_named(
    metrics: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    metrics["above"] = {"29.5": copy.deepcopy(metrics["heatwaves"]["event"])}
    metrics["ratios"]["above 29.5"] = metrics["ratios"]["event"]
    printing.print_answer(metrics, "small", {"above": None})
    kept = capsys.readouterr().out
    assert "as asked for before: --above; --tables prints" in kept
    assert "Days above 29.5" not in kept
    printing.print_answer(metrics, "small", {"above": "29.5"})
    asked = capsys.readouterr().out
    assert "as asked for before" not in asked
    assert "Days above 29.5" in asked
    assert max(map(len, asked.splitlines())) <= 100


def test_a_run_that_is_named_has_its_table_and_a_baseline_its_sentence(
    metrics: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    metrics["ratios"]["mse"]["model"]["other"] = metrics["ratios"]["mse"]["model"]["ridge"]
    printing.print_answer(metrics, "small", {}, {"ridge": "ridge"})
    assert "/ MSE of" not in capsys.readouterr().out
    printing.print_answer(metrics, "small", {}, {"other": "runs/other"})
    said = " ".join(capsys.readouterr().out.split())
    assert " ".join(versus(metrics, "small", "other", "runs/other").title.split()) in said


def test_a_hindcast_has_a_line_for_each_of_eight_systems(metrics: dict[str, Any]) -> None:
    metrics["kind"] = "hindcast"
    extra = [f"system {number}" for number in range(4)]
    for name in extra:
        metrics["scores"][name] = metrics["scores"]["model"]
        metrics["ratios"]["mse"][name] = metrics["ratios"]["mse"]["model"]
    metrics["systems"] = {name: record("run", model="mpnn", members=1) for name in extra} | metrics["systems"]
    metrics["reference"] = "ridge"
    sheet = lines_of_systems(metrics, "small")
    names = [name for name, _ in sheet.rows]
    assert len(names) == 8
    assert names[:4] == extra
    assert "ridge" in names
    assert {"climatology", "trend climatology", "recent climatology"} & {*names}
    assert "8 of 12 systems" in sheet.title
    assert "day 1 is 1 day after the last observed day" in sheet.title
    for name, cells in sheet.rows:
        own = metrics["scores"][name]["degC"]["by_lead"]["rmse"]
        assert cells[:3] == [f"{own[day - 1]:.3f}" for day in (1, 7, 8)]
        assert (cells[-1] == "the reference") is (name == "ridge")
    whole = sections_of(metrics, "small")["scores"][0]
    assert len(whole.rows) == 12


@pytest.mark.parametrize("kind", ["run", "hindcast"])
def test_the_table_in_python_has_the_numbers_that_are_printed(
    scored: Run, metrics: dict[str, Any], kind: str
) -> None:
    metrics |= {"kind": kind, "systems": dict([*metrics["systems"].items()][:8])}
    table, printed = table_of_systems(metrics, "small"), lines_of_systems(metrics, "small")
    assert [*table.index] == [name for name, _ in printed.rows]
    assert [*table.columns] == [*printed.header[:3], "ratio", "low", "high", "verdict"]
    for name, (*days, ratio, interval, verdict) in printed.rows:
        row = table.loc[name]
        assert [f"{row[day]:.3f}" for day in printed.header[:3]] == days
        assert row["verdict"] == verdict
        assert ratio.strip("* ") == f"{row['ratio']:.3f}"
        assert interval == ("" if verdict == "the reference" else f"{row['low']:.3f}..{row['high']:.3f}")
    if kind == "run":
        of_evaluate = sstcast.evaluate(scored).table
        assert of_evaluate[: len(table)].equals(table)
        assert of_evaluate["ratio"]["multiscale ridge"] == 1
