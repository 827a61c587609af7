"""Forecasts of SST itself as predictors: how they are joined with a ridge, and what they learn from."""

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

from sstcast.models import build_forecaster
from sstcast.models.predictor_stages import BLOCKS, Block, WithPredictors, without, years_of
from sstcast.ocean.windows import Windows
from sstcast.training.forecast_task import fit, in_parts

HISTORY, HORIZON, SHAPE = 6, 4, (4, 5)
CELLS = SHAPE[0] * SHAPE[1]
DAYS = 12 * 365
SPLITS = (0, 3000), (3000, 3300), (3300, DAYS)  # training, validation and test windows
EVERY_DAY = np.zeros(DAYS, int)  # the age of the newest issue on each day


@cache
def sst() -> np.ndarray:
    """Red noise with a part that all cells share, `[DAYS, CELLS]`."""
    random, found = np.random.default_rng(5), np.zeros((DAYS, CELLS))
    for day in range(1, DAYS):
        found[day] = 0.9 * found[day - 1] + 0.3 * random.normal(size=CELLS) + 0.3 * random.normal()
    return found / found.std()


def issued(error: float, age: np.ndarray = EVERY_DAY, seed: int = 0) -> np.ndarray:
    """Return forecasts of the days ahead with errors that grow with lead, `[DAYS, HORIZON, 1, CELLS]`.

    On each day, the newest issue of HORIZON days is so many days old.
    """
    random, known = np.random.default_rng(seed), np.full((DAYS, HORIZON, 1, CELLS), np.nan)
    noise = random.normal(size=(DAYS, HORIZON, CELLS)) * error * np.sqrt(1 + np.arange(HORIZON))[:, None]
    for day in range(DAYS):
        for ahead in range(HORIZON - age[day]):
            if day + ahead + 1 < DAYS and day >= age[day]:
                known[day, ahead, 0] = sst()[day + ahead + 1] + noise[day - age[day], ahead + age[day]]
    return known


def windows(**forecasts: np.ndarray) -> Iterator[Windows]:
    """Yield training, validation and test windows."""
    days = (np.datetime64("2001-01-01") + np.arange(DAYS)).astype("M8[ns]")
    ocean = torch.ones(1, CELLS, dtype=torch.bool)
    known = {name: torch.from_numpy(values.astype(np.float32)) for name, values in forecasts.items()}
    values = torch.from_numpy(sst()[:, None].astype(np.float32))
    seen = Windows(values, ocean, days, SHAPE, HISTORY, HORIZON, torch.zeros(1, CELLS, 3), predictors=known)
    for first, stop in SPLITS:
        yield seen.part(first, min(stop, seen.starts))


def fitted(**forecasts: np.ndarray) -> tuple[Any, Windows, dict[str, Any]]:
    """Fit a system that reads the forecasts, and return it with the test windows and what it chose."""
    options: dict[str, Any] = {"predictors": dict.fromkeys(forecasts, "forecast")} if forecasts else {}
    model = build_forecaster("multiscale-ridge", history=HISTORY, horizon=HORIZON, shape=SHAPE, **options)
    train, validation, test = windows(**forecasts)
    return model, test, fit(model, train, validation)


@cache
def joined() -> tuple[Any, Windows, dict[str, Any]]:
    """Return a system that reads a forecast of every day, about as good as the ridge."""
    return fitted(centre=issued(0.5))


def errors(model: Any, test: Windows) -> np.ndarray:
    """Return the errors of forecasts, `[starts, HORIZON, CELLS]`."""
    return (model.forecast_windows(test) - test.spans(HISTORY, HORIZON))[:, :, 0].numpy()


@cache
def alone() -> np.ndarray:
    """Return the errors of the ridge that reads SST alone."""
    return errors(*fitted()[:2])


def test_a_forecast_that_is_the_truth_is_taken() -> None:
    model, test, _ = fitted(centre=issued(0.0))
    assert np.square(errors(model, test)).mean() < 0.02 * np.square(alone()).mean()


def test_a_forecast_that_is_noise_is_ignored() -> None:
    noise = np.random.default_rng(3).normal(size=(DAYS, HORIZON, 1, CELLS))
    model, test, _ = fitted(centre=noise)
    assert np.square(errors(model, test)).mean() == pytest.approx(np.square(alone()).mean(), rel=0.005)


@pytest.mark.parametrize("spacing", [1, 2])
def test_both_are_joined_as_well_as_one_weight_a_lead_that_knows_the_errors(spacing: int) -> None:
    """Forecasts of every day, or of every other day and then a day old, with their own last lead unknown."""
    known = issued(0.5, np.arange(DAYS) % spacing)
    model, test, _ = joined() if spacing == 1 else fitted(centre=known)
    found, own = errors(model, test), alone()
    other = known[test_days(test)][:, :, 0] - test.spans(HISTORY, HORIZON)[:, :, 0].numpy()
    for lead in range(HORIZON):
        both = np.isfinite(other[:, lead, 0])
        a, b = own[both, lead], other[both, lead]
        weight = ((a - b) * a).sum() / np.square(a - b).sum()
        best = np.square(weight * b + (1 - weight) * a).mean()
        assert np.square(found[both, lead]).mean() < 1.03 * best
        assert best < 0.9 * min(np.square(a).mean(), np.square(b).mean())


def test_days(test: Windows) -> np.ndarray:
    """Return the numbers of the initial dates among all days."""
    return ((test.init_times - np.datetime64("2001-01-01")) // np.timedelta64(1, "D")).astype(int)


test_days.__test__ = False  # type: ignore[attr-defined]


def test_two_forecasts_are_better_than_one_and_the_same_one_twice_is_not() -> None:
    one, other = issued(0.5), issued(0.5, seed=1)
    by_count = [np.square(errors(*found[:2])).mean() for found in (joined(), fitted(a=one, b=other))]
    twice = np.square(errors(*fitted(a=one, b=one)[:2])).mean()
    assert by_count[1] < 0.9 * by_count[0]
    assert twice == pytest.approx(by_count[0], rel=0.01)


def test_what_a_block_is_forecast_by_has_not_seen_it() -> None:
    """Other values in the block, and on the days that its windows share, change neither penalties nor weights."""
    model, _, _ = joined()
    assert isinstance(model, WithPredictors)
    train, validation, _ = windows(centre=issued(0.5))
    block = Block(np.datetime64("2004"), np.datetime64("2005"), model.stages["centre"].sums())
    changed = train.values.clone()
    inside = (train.days >= np.datetime64("2004-01-01")) & (train.days < np.datetime64("2006-01-01"))
    around = np.convolve(inside, np.ones(2 * HORIZON + 1), "same") > 0
    changed[torch.from_numpy(around)] += 5
    weights = []
    for seen in (train, replace(train, values=changed)):
        samples = in_parts(seen), in_parts(validation)
        system = model._system_without(block, *samples, True)
        assert model._system_without(block, *samples, True) is system  # fitted once
        weights.append(system.weight)
    assert torch.equal(*weights)
    assert not torch.equal(weights[0], model.system.weight)


@pytest.mark.parametrize("before", [0, 200])
def test_windows_without_a_block_share_no_day_with_it(before: int) -> None:
    train, *_ = windows()
    train = replace(train, before=before, at=train.at[before:])
    block = Block(np.datetime64("2004"), np.datetime64("2005"), None)  # type: ignore[arg-type]
    dates = np.concatenate([part.init_times for part in without(in_parts(train), block)(1)]).astype("M8[D]")
    day = np.timedelta64(1, "D")
    first, last = np.datetime64("2004-01-01"), np.datetime64("2005-12-31")
    ends, begins = dates + HORIZON * day, dates - (HISTORY - 1) * day
    clear = (ends < first - (HISTORY - 1) * day) | (begins - before * day > last + HORIZON * day)
    assert clear.all()
    gaps = np.diff(dates).astype(int)
    assert gaps.max() <= 731 + 2 * (HISTORY + HORIZON) + before + 1
    assert (gaps > 1).sum() == 1


def test_blocks_are_of_the_years_in_which_a_forecast_is_known() -> None:
    known = issued(0.5)
    known[: 3 * 365] = np.nan
    train, *_ = windows(centre=known)
    assert years_of(in_parts(train), 7, "centre").astype(str).tolist() == [str(year) for year in range(2004, 2010)]
    assert len(years_of(in_parts(train), 7)) == 9 > BLOCKS
    _, _, chosen = fitted(centre=known)
    assert np.isfinite(chosen["penalty_of_centre"]).all()
    never, test, chosen = fitted(centre=np.full_like(known, np.nan))
    assert np.isinf(chosen["penalty_of_centre"]).all()
    np.testing.assert_array_equal(errors(never, test), alone())


def test_too_few_years_learn_from_errors_of_the_fit_with_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    model = deepcopy(joined()[0])
    train, *_ = windows(centre=issued(0.5))
    fit(model, train.part(352, 368), None)  # around the turn of a year
    assert "no window is clear of 2001..2001" in capsys.readouterr().err


@pytest.mark.parametrize("order", [("soi", "centre"), ("centre", "soi")])
def test_a_forecast_and_an_index_in_any_order(order: tuple[str, str]) -> None:
    """Without the forecast, the system is the one that reads the index alone, bit for bit."""
    known = {"centre": issued(0.5), "soi": np.random.default_rng(4).normal(size=(DAYS, 2))}
    kinds = {"centre": "forecast", "soi": "index"}
    train, validation, test = windows(**known)
    models = {}
    for names in (order, ("soi",)):
        predictors = {name: kinds[name] for name in names}
        model = build_forecaster(
            "multiscale-ridge", history=HISTORY, horizon=HORIZON, shape=SHAPE, predictors=predictors
        )
        fit(model, train, validation)
        models[names] = model
    both, index = models[order], models["soi",]
    assert isinstance(both, WithPredictors)
    without_it = both.without("centre", in_parts(train), in_parts(validation))
    np.testing.assert_array_equal(errors(without_it, test), errors(index, test))
    assert np.square(errors(both, test)).mean() == pytest.approx(np.square(errors(*joined()[:2])).mean(), rel=0.01)
