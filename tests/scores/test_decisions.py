"""Reliability, warnings and their value from counts, against plain NumPy, case by case."""

from pathlib import Path

import numpy as np
import pytest
from scenes import block, scene
from scipy.stats import t
from scored_runs import OTHER_DAYS, configure

from sstcast.names import DEGREES, EVENT, STATE
from sstcast.ocean.prepare import prepare
from sstcast.scores.analysis import Analysis
from sstcast.scores.cases import STEPS, Cases, cases_by_year, diagram, frequency_interval
from sstcast.scores.decisions import PROBABILITIES, warnings_by_system
from sstcast.scores.kinds.heatwaves import Heatwaves
from sstcast.scores.kinds.terciles import Terciles
from sstcast.scores.significance import ratio

DATES, CASES, BLOCK = 120, 60, 6


def drawn(seed: int = 0, sharpness: float = 1.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return steps of a probability, whether the event came, and weights, `[date, case]`."""
    random = np.random.default_rng(seed)
    level = np.rint(STEPS * random.beta(0.6, 1.2, (DATES, CASES))).astype(int)
    came = random.random(level.shape) < (level / STEPS) ** sharpness
    return level, came, random.uniform(0.5, 1.5, level.shape)


def counted(level: np.ndarray, came: np.ndarray, weights: np.ndarray) -> Cases:
    cases = np.zeros((2, len(level), STEPS + 1))
    for date, of in enumerate(zip(level, came, weights, strict=True)):
        for step, occurred, weight in zip(*of, strict=True):
            cases[int(occurred), date, step] += weight
    return Cases(*cases, cases.sum(0) * np.arange(STEPS + 1) / STEPS)


def test_warnings_are_plain_numpy() -> None:
    level, came, weights = drawn()
    found = warnings_by_system({"some": counted(level, came, weights)}, "some", BLOCK)["some"]
    frequency = (weights * came).sum() / weights.sum()
    assert found["frequency"] == pytest.approx(frequency, abs=1e-6)
    curve, value = found["curve"], found["value"]
    for place, least in enumerate(np.arange(1, 20) / 20):
        warned = level / STEPS >= least
        hit, false, miss = ((weights * of).sum(1) for of in (warned & came, warned & ~came, ~warned & came))
        expected = {
            "warned": (hit + false).sum() / weights.sum(),
            "hit_rate": hit.sum() / (hit + miss).sum(),
            "false_alarm_ratio": false.sum() / (hit + false).sum(),
            "success_index": hit.sum() / (hit + miss + false).sum(),
        }
        for key, number in expected.items():
            assert curve[key][place] == pytest.approx(number, abs=1e-6)
        ends = ratio(hit, hit + miss + false, BLOCK)[1]
        assert curve["interval"][place] == pytest.approx(ends.tolist(), abs=1e-6)

        # What is paid by acting on warnings, always, never, or knowing all. A loss is 1, acting costs `least`.
        paid = (least * (hit + false) + miss).sum()
        always, never = least * weights.sum(), (hit + miss).sum()
        perfect = least * (hit + miss).sum()
        expected_value = (min(always, never) - paid) / (min(always, never) - perfect)
        assert value["cost_loss"][place] == pytest.approx(least)
        assert value["value"][place] == pytest.approx(expected_value, abs=1e-6)
        low, high = value["interval"][place]
        assert low < value["value"][place] < high


def test_warnings_as_frequent_as_the_event_share_the_last_step() -> None:
    level, came, weights = drawn(1)
    other = np.clip(level + np.random.default_rng(2).integers(-20, 20, level.shape), 0, STEPS)
    cases = {name: counted(steps, came, weights) for name, steps in (("some", level), ("other", other))}
    found = warnings_by_system(cases, "some", BLOCK)
    indices, pairs = {}, {}
    for name, steps in (("some", level), ("other", other)):
        # The cases in the order of their probability, of one probability all with the same share of a warning.
        wanted, share = (weights * came).sum(), np.zeros(level.shape)
        for step in range(STEPS, -1, -1):
            at = steps == step
            share[at] = np.clip((wanted - (share * weights).sum()) / weights[at].sum(), 0, 1)
            if share[at].max() < 1:
                break
        hit, false = (share * weights * came).sum(1), (share * weights * ~came).sum(1)
        assert (hit + false).sum() == pytest.approx(wanted)
        indices[name] = hit.sum() / ((weights * came).sum() + false.sum())
        pairs[name] = hit, (weights * came).sum(1) + false
        of = found[name]["as_frequent"]
        assert of["probability"] == pytest.approx(step / STEPS, abs=1e-6)
        assert of["success_index"]["value"] == pytest.approx(indices[name], abs=1e-6)
        assert of["hit_rate"]["value"] == pytest.approx(hit.sum() / wanted, abs=1e-6)
        assert of["success_index"]["interval"] == pytest.approx(ratio(*pairs[name], BLOCK)[1].tolist(), abs=1e-6)
    compared = found["other"]["as_frequent"]["ratio"]
    assert compared["value"] == pytest.approx(indices["other"] / indices["some"], abs=2e-6)
    assert compared["interval"][0] < compared["value"] < compared["interval"][1] < 1
    assert found["some"]["as_frequent"]["ratio"] is None


def test_a_forecast_of_yes_or_no_that_says_yes_too_rarely_has_no_such_warnings() -> None:
    level, came, weights = drawn(3)
    rare = STEPS * (level == STEPS)
    found = warnings_by_system({"rare": counted(rare, came, weights)}, "rare", BLOCK)["rare"]
    assert found["as_frequent"] is None
    assert len(set(found["curve"]["hit_rate"])) == 1


def test_sure_and_absent_events_have_no_interval_and_the_value_of_a_perfect_forecast_is_one() -> None:
    came = np.arange(DATES * 2).reshape(DATES, 2) % 3 == 0
    perfect = warnings_by_system({"x": counted(STEPS * came, came, np.ones(came.shape))}, "x", BLOCK)["x"]
    assert perfect["value"]["value"] == [1] * len(PROBABILITIES)
    assert perfect["as_frequent"]["success_index"]["value"] == 1
    never = warnings_by_system({"x": counted(0 * came, 0 * came, np.ones(came.shape))}, "x", BLOCK)["x"]
    assert never["as_frequent"] is None
    assert set(never["curve"]["hit_rate"]) == {None}
    few = warnings_by_system({"x": counted(*(of[:10] for of in drawn()))}, "x", BLOCK)["x"]
    assert set(few["value"]["interval"]) == {None}


def test_the_diagram_is_plain_numpy_with_intervals_over_years() -> None:
    level, came, weights = drawn(4, sharpness=1.5)
    dates = np.datetime64("2001-02-01") + 15 * np.arange(DATES)
    year = dates.astype("datetime64[Y]").astype(int)
    found = diagram(cases_by_year(counted(level, came, weights), dates))
    numbers = np.unique(year)
    for place in range(10):
        inside = (level * 10 // STEPS == place) | ((place == 9) & (level == STEPS))
        total = (weights * inside).sum()
        assert found["share"][place] == pytest.approx(total / weights.sum(), abs=1e-6)
        assert found["probability"][place] == pytest.approx(
            (weights * inside * level).sum() / total / STEPS, abs=1e-6
        )
        frequency = (weights * inside * came).sum() / total
        assert found["observed"][place] == pytest.approx(frequency, abs=1e-6)
        left_out = [  # the jackknife over years has the same variance to first order
            (weights * inside * came)[year != of].sum() / (weights * inside)[year != of].sum() for of in numbers
        ]
        deviation = np.sqrt((len(numbers) - 1) * np.var(left_out))
        low, high = found["interval"][place]
        width = (np.log(high / (1 - high)) - np.log(low / (1 - low))) / 2 * frequency * (1 - frequency)
        assert width == pytest.approx(t.ppf(0.975, len(numbers) - 1) * deviation, rel=0.15)


def test_intervals_hold_the_frequency_of_years_that_differ() -> None:
    """Years are independent, not cases. The frequency varies among years, and 95 % intervals hold its mean."""
    random, truth, held = np.random.default_rng(5), 0.3, []
    for _ in range(400):
        of_year = random.beta(3, 7, 12)  # a mean of 0.3
        cases = random.uniform(50, 150, 12)
        low, high = frequency_interval(of_year * cases, cases)
        held.append(low <= truth <= high)
    assert 0.92 < np.mean(held) < 0.98


def test_a_frequency_of_none_or_all_and_few_years() -> None:
    ones = np.ones((4, 2))
    ends = frequency_interval(ones * [0, 1], ones)
    assert ends.ravel().tolist() == pytest.approx([0, 1 - 0.05**0.25, 0.05**0.25, 1])
    assert np.isnan(frequency_interval(ones[:2] * 0.5, ones[:2])).all()
    with_gap = np.vstack([ones, 0 * ones])  # a year without cases tells nothing
    np.testing.assert_allclose(frequency_interval(with_gap * [0, 1], with_gap), ends)


def test_cases_are_counted_in_the_year_of_their_initial_date(sst_file: Path, tmp_path: Path) -> None:
    config = configure(tmp_path, sst_file, splits=OTHER_DAYS)
    truth = Analysis.open(prepare(config.data))
    of_scene = scene(truth, some=np.eye(8))
    days, thirds = Heatwaves(of_scene), Terciles(of_scene)
    for seen in truth.observe():
        anomaly = seen.anomaly[DEGREES]
        for kind in (days, thirds):
            kind.begin(seen)
        thirds.add(block("some", seen, anomaly[None], np.ones_like(anomaly)))
    dates = truth.windows.init_times
    year = dates.astype("datetime64[Y]").astype(int) + 1970
    of_days = days.dataset()["heatwave_cases_by_year"].sel(kind=EVENT, forecaster=STATE, occurred=1)
    of_thirds = thirds.dataset()["tercile_cases_by_year"].sel(forecaster="some")
    assert of_days["init_year"].values.tolist() == of_thirds["init_year"].values.tolist() == [2003, 2004]
    for number in (2003, 2004):
        last = days.observed.last[np.flatnonzero((year == number) & (np.arange(len(dates)) % 3 == 0))]
        inside = days.observed.truth[EVENT][last[:, None] + 1 + np.arange(8)]
        assert float(of_days.sel(init_year=number).sum()) == pytest.approx((inside * truth.area).sum(), rel=1e-4)
        counted_weight = float(of_thirds.sel(init_year=number, tercile="upper").sum())
        defined = thirds.probabilities.defined[0][year == number]
        assert counted_weight == pytest.approx(np.nansum(defined), rel=1e-4)
