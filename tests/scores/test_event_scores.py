"""Hits, misses, false alarms and errors of days against labelled series, and their way into metrics and tables."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import xarray as xr
from scenes import block, observation, scene
from scipy.ndimage import label
from scipy.stats import t
from scored_runs import configure, make_run

import sstcast
from sstcast.extremes.heatwaves import MARGIN_DAYS, events, limits_of
from sstcast.figures.sheets.events import events as events_sheet
from sstcast.names import EVENT, STATE
from sstcast.reading.days_of_year import on_days
from sstcast.runs import Run
from sstcast.scores.analysis import Analysis
from sstcast.scores.cases import STEPS
from sstcast.scores.kinds.events import BY_DATE, Events, warning_scores
from sstcast.scores.significance import ratio
from sstcast.storage.stores import open_netcdf

HORIZON = 8
SPLITS = {"train": [2001, 2002], "validation": [2003, 2003], "test": ["2004-01-01", "2004-07-31"]}
BY_STEP = ("forecaster", "init_time", "probability")
CASES_OF_ONE = {  # of 72 dates
    "event_cases_by_date": ((*BY_STEP, "occurred"), np.ones((1, 72, STEPS + 1, 2))),
    "event_probability_by_date": (BY_STEP, np.ones((1, 72, STEPS + 1))),
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, sst_file: Path) -> Run:
    """A run whose warnings are scored."""
    made = make_run(configure(tmp_path_factory.mktemp("runs"), sst_file, splits=SPLITS))
    sstcast.evaluate(made, events=True)
    return made


def first_run(inside: np.ndarray, now: int) -> tuple[int, int] | None:
    """Return onset and end, in days ahead, of the first run of days with a day in the horizon."""
    numbers, _ = label(inside)
    ahead = numbers[now + 1 : now + 1 + HORIZON]
    if not ahead.any():
        return None
    (days,) = np.nonzero(numbers == ahead[ahead > 0][0])
    return max(0, days[0] - now), days[-1] - now


def test_outcomes_are_those_of_labelled_series(run: Run) -> None:
    data = Analysis.of(run)
    limits = limits_of(data.prepared)
    margin = data.ahead(data.sst) - data.ahead(limits["heatwave_threshold"])
    random = np.random.default_rng(3)
    wrong = (margin + random.normal(0, 0.4, margin.shape) - 0.2).astype(np.float32)
    tables = Events(scene(data, some=np.eye(HORIZON)))
    heatwaves = tables.heatwaves
    for seen in data.observe():
        tables.begin(seen)
        mean = wrong[seen.dates] + seen.limit
        tables.add(block("some", seen, mean[None], np.zeros_like(mean)))
    found = tables.dataset().isel(init_time=slice(None, None, heatwaves.step))

    sst = data.cube["sst"].load()
    threshold, climatology = (
        data.on_tiles(on_days(limits[name], sst["time"])) for name in ("heatwave_threshold", "climatology")
    )
    values = data.on_tiles(sst)
    hot = values > threshold
    inside = events(hot)
    multiple = (values - climatology) / np.where(threshold > climatology, threshold - climatology, np.nan)
    first_day = int(np.flatnonzero(sst["time"].values == data.windows.days[0])[0]) + data.windows.history - 1
    expected = {name: np.zeros(len(found["init_time"])) for name in (*BY_DATE, "event_misses_by_date")}
    by_severity = np.zeros((2, 4, len(found["init_time"])))
    state_hits, cases = np.zeros(len(found["init_time"])), np.zeros((len(found["init_time"]), STEPS + 1, 2))
    for row, start in enumerate(range(0, len(margin), heatwaves.step)):
        now = first_day + start
        for cell in zip(*np.nonzero(data.ocean), strict=True):
            weight = float(data.area[cell])
            came = first_run(inside[(slice(now - 200, now + HORIZON + 7), *cell)], 200)
            ahead = wrong[(start, slice(None), *cell)] > 0
            days = np.concatenate(
                [hot[(slice(now - 5, now + 1), *cell)], ahead, np.repeat(ahead[-1:], MARGIN_DAYS)]
            )
            said = first_run(events(days), 5)
            cases[row, 0 if said is None else STEPS, int(came is not None)] += weight
            if came is not None:
                in_run = [lead for lead in range(1, HORIZON + 1) if max(1, came[0]) <= lead <= came[1]]
                worst = max(multiple[(now + lead, *cell)] for lead in in_run)
                by_severity[int(said is None), int(min(max(worst, 1), 4)) - 1, row] += weight
                state_hits[row] += weight * hot[(slice(now - 4, now + 1), *cell)].all()
            elif said is not None:
                expected["event_false_alarms_by_date"][row] += weight
            if came is None or said is None:
                continue
            if came[0] > 0:
                expected["event_onsets_by_date"][row] += weight
                expected["event_onset_error_by_date"][row] += weight * abs(came[0] - said[0])
            if max(came[1], said[1]) <= HORIZON:
                expected["event_ends_by_date"][row] += weight
                expected["event_end_error_by_date"][row] += weight * abs(came[1] - said[1])
    own = found.sel(forecaster="some")
    for name in ("event_false_alarms_by_date", "event_onsets_by_date", "event_onset_error_by_date"):
        assert expected[name].sum() > 0
    for name, values in expected.items():
        if name != "event_misses_by_date":
            np.testing.assert_allclose(own[name], values, atol=1e-5, err_msg=str(name))
    for number, name in enumerate(("event_hits_by_date", "event_misses_by_date")):
        np.testing.assert_allclose(own[name], by_severity[number], atol=1e-5, err_msg=name)
    np.testing.assert_allclose(own["event_cases_by_date"], cases, atol=1e-5)
    state = found.sel(forecaster=STATE)
    np.testing.assert_allclose(state["event_cases_by_date"].sel(probability=1, occurred=1), state_hits, atol=1e-5)
    np.testing.assert_allclose(state["event_hits_by_date"].sum("severity"), state_hits, atol=1e-5)

    fold = ("init_time", np.full(len(margin), 2004))
    folds = tables.dataset().assign_coords(init_time=data.windows.init_times, fold=fold)
    of = warning_scores(folds)["some"]
    hit, came_sum = by_severity[0].sum(), by_severity.sum()
    false = expected["event_false_alarms_by_date"].sum()
    assert of["hit_rate"]["value"] == pytest.approx(hit / came_sum, abs=1e-5)
    assert of["false_alarm_ratio"]["value"] == pytest.approx(false / (hit + false), abs=1e-5)
    assert of["success_index"]["value"] == pytest.approx(hit / (came_sum + false), abs=1e-5)
    assert of["hit_rate"]["interval"][0] < of["hit_rate"]["value"] < of["hit_rate"]["interval"][1]


def tables_of(truth: np.ndarray, cells: int) -> Events:
    """Return tables of one initial date, 6 days after the first of `truth [day, tile, N]`, without an ocean."""
    data = SimpleNamespace(
        limits={"heatwave_threshold": 1.0, "climatology": 0.0},
        ahead=lambda departure, dates: np.full((1, HORIZON, 1, cells), departure),
        area=10.0 ** np.arange(cells)[None],
    )
    heatwaves = SimpleNamespace(
        init_times=np.array(["2001-01-01"], "datetime64[D]"),
        horizon=HORIZON,
        truth={EVENT: truth},
        hot=np.zeros(truth.shape, bool),
        last=[MARGIN_DAYS],
        chosen=lambda dates: np.arange(1),
        state=lambda dates: None,
    )
    return Events(SimpleNamespace(truth=data, heatwaves=heatwaves, forecasters=["some"], horizon=HORIZON))


def test_the_severity_is_that_of_the_first_event_of_two() -> None:
    lead = np.arange(-MARGIN_DAYS, HORIZON + 5)
    inside = (((lead >= -5) & (lead <= 1)) | (lead >= 5))[:, None, None]
    limit = np.ones((1, HORIZON, 1, 1))
    anomaly = np.where(np.arange(1, HORIZON + 1) < 5, 1.5, 3.5).reshape(limit.shape)
    limit[0, 2] = np.nan  # between them, where the threshold of other days is enough
    tables = tables_of(inside, 1)
    tables.begin(observation(slice(0, 1), anomaly, limit))
    came, onset, end, severity, weights = (of.item() for of in tables.observed[0])
    assert (came, onset, end, severity, weights) == (True, 0, 1, 1, 1)


def test_an_onset_is_the_day_by_which_half_of_the_events_have_begun() -> None:
    """Of ten trajectories: 5 begin on day 3, 4 go on and 4 begin on day 2, 4 each begin on days 2 and 5, none."""
    spans = (5 * [(3, 7)], 4 * [(-4, 1)] + 4 * [(2, 6)], 4 * [(2, 6)] + 4 * [(5, 12)], [])
    lead = np.arange(1 - MARGIN_DAYS, HORIZON + MARGIN_DAYS + 1)
    in_event = np.zeros((len(lead), len(spans), 10), bool)
    for cell, events_of_cell in enumerate(spans):
        for sample, (first, last) in enumerate(events_of_cell):
            in_event[:, cell, sample] = (lead >= first) & (lead <= last)
    tables = tables_of(np.zeros((3 * HORIZON, 1, 4), bool), 4)
    trajectories = SimpleNamespace(in_event=lambda beyond, hot: in_event, share=lambda of: of.mean(-1))
    tables.scene.trajectories = {"some": trajectories}
    own = np.full((1, 4), HORIZON)
    tables.observed[0] = own > 0, own, own, np.ones((1, 4), np.int8), tables.truth.area
    tables.probabilities.observe((), np.arange(1), (own > 0)[None, None], tables.truth.area[None, None])
    mean = np.zeros((1, HORIZON, 1, 4))
    tables.add(block("some", observation(slice(0, 1), mean), mean[None], np.ones_like(mean)))
    found = tables.dataset().isel(init_time=0, forecaster=0)
    assert found["event_hits_by_date"].values.tolist() == [111, 0, 0, 0]
    assert found["event_misses_by_date"].values.tolist() == [1000, 0, 0, 0]
    assert float(found["event_onset_error_by_date"]) == 1 * (8 - 3) + 10 * (8 - 0) + 100 * (8 - 2)
    assert float(found["event_end_error_by_date"]) == 1 * (8 - 7) + 10 * (8 - 1) + 100 * (8 - 6)


def test_scores_are_ratios_of_sums_with_blocks_of_60_days() -> None:
    random = np.random.default_rng(0)
    dates = np.datetime64("2001-01-01") + 5 * np.arange(72)
    sums = {name: random.uniform(1, 9, 72) for name in BY_DATE}
    sums["event_onset_error_by_date"] *= 4
    sums["event_end_error_by_date"] *= 6
    hits, misses = random.uniform(1, 9, (2, 4, 72))
    tables = xr.Dataset(
        {name: (("forecaster", "init_time"), [of]) for name, of in sums.items()}
        | {
            "event_hits_by_date": (("forecaster", "severity", "init_time"), [hits]),
            "event_misses_by_date": (("forecaster", "severity", "init_time"), [misses]),
            **CASES_OF_ONE,
        },
        {"forecaster": ["some"], "severity": list("abcd"), "init_time": dates, "fold": ("init_time", [1] * 72)},
    )
    found = warning_scores(tables)["some"]
    false, onset_error, onsets, end_error, ends = sums.values()
    hit, came = hits.sum(0), (hits + misses).sum(0)
    expected = {
        "hit_rate": (hit, came),
        "false_alarm_ratio": (false, hit + false),
        "success_index": (hit, came + false),
        "onset_error": (onset_error, onsets),
        "end_error": (end_error, ends),
    }
    by_category = {name: (hits[number], (hits + misses)[number]) for number, name in enumerate("abcd")}
    for of, pairs in ((found, expected), (found["by_category"], by_category)):
        for name, (part, whole) in pairs.items():
            value, interval = ratio(part, whole, 60 // 5, (72,))
            assert of[name]["value"] == pytest.approx(part.sum() / whole.sum(), abs=1e-6)
            assert of[name]["value"] == pytest.approx(float(value), abs=1e-6)
            assert of[name]["interval"] == pytest.approx(interval.tolist(), abs=1e-6)
    assert found["onset_error"]["interval"][1] > 1


def test_all_or_none_of_few_events_is_no_certainty() -> None:
    """With all of 4 blocks hit, a hit rate of .05 ** (1 / 4) has a chance of 5 %. Of 2 blocks, nothing is said."""
    random, zero = np.random.default_rng(1), np.zeros(72)
    block = np.arange(72) // 12
    of_blocks = [np.isin(block, blocks).astype(float) for blocks in ([0, 2, 3, 5], [1, 4], [0, 1, 2])]
    some = of_blocks[2] * random.uniform(1, 9, 72)
    hits, misses = np.stack([of_blocks[0], of_blocks[1], some]), np.stack([zero, zero, of_blocks[2]])
    tables = xr.Dataset(
        {name: (("forecaster", "init_time"), [zero + 1]) for name in BY_DATE}
        | {"event_false_alarms_by_date": (("forecaster", "init_time"), [zero])}
        | {
            "event_hits_by_date": (("forecaster", "severity", "init_time"), [hits]),
            "event_misses_by_date": (("forecaster", "severity", "init_time"), [misses]),
            **CASES_OF_ONE,
        },
        {"forecaster": ["some"], "severity": list("abc"), "fold": ("init_time", [1] * 72)}
        | {"init_time": np.datetime64("2001-01-01") + 5 * np.arange(72)},
    )
    found = warning_scores(tables)["some"]
    assert found["by_category"]["a"] == {"value": 1, "interval": pytest.approx([0.05 ** (1 / 4), 1], abs=1e-6)}
    assert 1 - found["by_category"]["a"]["interval"][0] ** 4 == pytest.approx(0.95, abs=1e-5)
    assert found["by_category"]["b"] == {"value": 1, "interval": None}
    assert found["false_alarm_ratio"] == {
        "value": 0,
        "interval": pytest.approx([0, 1 - 0.05 ** (1 / 6)], abs=1e-6),
    }
    wide = found["by_category"]["c"]["interval"]
    value, narrow = ratio(some, some + misses[2], 12, (72,))  # as if all six blocks held events
    growth = t.ppf(0.975, 2) * np.sqrt(3 / 2) / (t.ppf(0.975, 5) * np.sqrt(6 / 5))
    assert np.log(wide[0] / float(value)) == pytest.approx(growth * np.log(narrow[0] / float(value)), rel=1e-4)


def test_they_are_scored_if_asked_for(run: Run, capsys: pytest.CaptureFixture[str], command) -> None:
    metrics = sstcast.evaluate(run)
    assert not metrics.new  # those of an earlier evaluation are kept
    found = metrics.value["events"]
    assert {"model", "climatology", "persistence", STATE} <= set(found)
    assert found["model"].keys() == {
        *("hit_rate", "false_alarm_ratio", "success_index", "onset_error", "end_error", "by_category"),
        *("reliability", "warnings"),
    }
    for name, of in found.items():  # at one half, both tables tell the same
        curve = of["warnings"]["curve"]
        half = curve["probability"].index(0.5)
        for key in ("hit_rate", "false_alarm_ratio", "success_index"):
            assert curve[key][half] == pytest.approx(of[key]["value"], abs=2e-6), name
    sheets = events_sheet(metrics.value, "ridge")
    assert [sheet.rows[0][0] for sheet in sheets] == ["ridge (run)"] * 2  # beside the baseline
    matched = found["model"]["warnings"]["as_frequent"]
    assert sheets[1].rows[0][1][0] == f"{matched['probability']:.1%}"
    code, out, _ = command("evaluate", run.folder, "--events")
    assert code == 0
    assert "Warnings of a heatwave within the horizon" in out.replace("\n", " ")
    with open_netcdf(run.folder / "scores.nc", "") as tables:
        assert tables["event_hits_by_date"].dims == ("forecaster", "severity", "init_time")
    assert xr.open_zarr(run.forecasts).sizes["lead"] == HORIZON
