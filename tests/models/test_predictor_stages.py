"""Corrections by predictors: fit and forecast against NumPy, and who reads them."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from refusals import refused

from sstcast.models import LINEAR, MODELS, build_forecaster
from sstcast.models.predictor_stages import IndexStage, WithPredictors
from sstcast.models.ridge_inputs import Sums, cross_validate
from sstcast.ocean.windows import Windows
from sstcast.training.forecast_task import fit

HISTORY, HORIZON, ROWS, COLS = 10, 4, 4, 3
YEARS = 12
INPUTS, PENALTIES = 6, IndexStage.penalties
RIDGES = ("ridge", "multiscale-ridge", "local-ridge")


def windows(strength: float, seed: int = 0, shift: int = 0, years: int = YEARS) -> Windows:
    """Return an ocean whose anomaly follows, in half of its cells, what an index tells a day before.

    The index may be told by `shift` days too late.
    """
    random = np.random.default_rng(seed)
    days = np.arange("2001-01-01", f"{2001 + years}-01-01", dtype="M8[D]").astype("M8[ns]")
    told = random.standard_normal((len(days) + 1, 2)).astype(np.float32)
    values = random.standard_normal((len(days), 1, ROWS * COLS)).astype(np.float32)
    sign = np.where(np.arange(ROWS * COLS) % 2, 1.0, -1.0)
    values[1:, 0] += strength * told[:-2, :1] * sign
    known = np.roll(told[:-1], shift, axis=0)
    known[0] = np.nan
    return Windows(
        torch.from_numpy(values),
        torch.ones(1, ROWS * COLS, dtype=torch.bool),
        days,
        (ROWS, COLS),
        HISTORY,
        HORIZON,
        torch.zeros(1, ROWS * COLS, 3),
        predictors={"soi": torch.from_numpy(known)},
    )


def system(name: str = "multiscale-ridge", **options: Any) -> WithPredictors:
    model = build_forecaster(
        name, history=HISTORY, horizon=HORIZON, shape=(ROWS, COLS), predictors={"soi": "index"}, **options
    )
    assert isinstance(model, WithPredictors)
    return model


def mse(model: Any, seen: Windows) -> np.ndarray:
    """Return the mean squared error by lead."""
    error = model.forecast_windows(seen) - seen.spans(HISTORY, HORIZON)
    return error.square().mean((0, 2, 3)).numpy()


def test_penalties_and_weights_are_those_of_plain_ridges() -> None:
    random = np.random.default_rng(0)
    horizon, cells = 3, 5
    truth = random.normal(0, 0.3, (INPUTS, cells, horizon)) * (np.arange(horizon) > 0)  # nothing at the first lead
    blocks, plain = [], []
    for count in (200, 150, 220):
        x = random.standard_normal((count, INPUTS))
        y = np.einsum("ni,icl->ncl", x, truth) + random.standard_normal((count, cells, horizon))
        sums = Sums(INPUTS, cells * horizon)
        sums.add(torch.from_numpy(x), torch.from_numpy(y.reshape(count, -1)))
        blocks.append(sums)
        plain.append((x, y))
    weight, choices = cross_validate(blocks, IndexStage(cells, horizon).solve, PENALTIES, horizon)

    def ridge(parts: list[Any], lead: int, penalty: float) -> np.ndarray:
        x, y = (np.concatenate([part[n] for part in parts]) for n in (0, 1))
        if np.isinf(penalty):
            return np.zeros((INPUTS, cells))
        return np.linalg.solve(x.T @ x + penalty * np.eye(INPUTS), x.T @ y[..., lead])

    for lead in range(horizon):
        errors = [
            sum(
                ((y[..., lead] - x @ ridge(plain[:n] + plain[n + 1 :], lead, penalty)) ** 2).sum()
                for n, (x, y) in enumerate(plain)
            )
            for penalty in PENALTIES
        ]
        best = PENALTIES[int(np.argmin(errors))]
        assert PENALTIES[choices[lead]] == best
        np.testing.assert_allclose(weight[..., lead].numpy(), ridge(plain, lead, best), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("name", RIDGES)
def test_a_planted_index_is_found_and_a_day_too_late_is_noticed(name: str) -> None:
    alone = build_forecaster(name, history=HISTORY, horizon=HORIZON, shape=(ROWS, COLS))
    errors = {}
    for label, model, seen in (
        ("alone", alone, windows(0.7)),
        ("with", system(name), windows(0.7)),
        ("late", system(name), windows(0.7, shift=1)),
    ):
        chosen = fit(model, seen, None)
        errors[label] = mse(model, seen)
        if label == "with":
            assert len(chosen["penalty_of_soi"]) == HORIZON
            assert np.isfinite(chosen["penalty_of_soi"][0])
    assert errors["alone"][0] > 1.4  # the noise is 1, what the index tells .49
    assert errors["with"][0] < 1.08
    assert errors["late"][0] > 1.35
    np.testing.assert_allclose(errors["with"][1:], errors["alone"][1:], rtol=0.03)


def test_an_index_of_noise_is_turned_off_or_costs_little() -> None:
    ratios = []
    for seed in range(5):
        seen, later = windows(0.0, seed, years=20), windows(0.0, 100 + seed)
        alone = build_forecaster("multiscale-ridge", history=HISTORY, horizon=HORIZON, shape=(ROWS, COLS))
        model = system()
        fit(alone, seen, None)
        fit(model, seen, None)
        ratios.append(float(mse(model, later).mean() / mse(alone, later).mean()))
    assert 0.999 < np.mean(ratios) < 1.0015


@pytest.mark.parametrize("name", RIDGES)
def test_a_correction_is_the_index_and_its_season_times_the_weights_of_a_cell(name: str) -> None:
    model, seen = system(name), windows(0.7)
    fit(model, seen, None)
    some = seen.part(0, 400)
    last = some.at + HISTORY - 1
    told = some.predictors["soi"].numpy()[last].astype(float)
    angle = 2 * np.pi / 365.2425 * (pd.DatetimeIndex(some.days[last]).day_of_year.values - 1)
    inputs = np.concatenate([told, told * np.sin(angle)[:, None], told * np.cos(angle)[:, None]], 1)
    change = np.einsum("si,icl->slc", inputs, model.of_soi.numpy().astype(float))
    expected = model.system.forecast_windows(some)[:, :, 0].numpy() + change
    np.testing.assert_allclose(model.forecast_windows(some)[:, :, 0], expected, atol=1e-5)
    assert abs(change).max() > 0.1
    batch = some.batch(torch.arange(2))
    with refused("soi", "forecast_windows"):
        model(batch.history, batch.graph)


def test_without_a_predictor_the_system_is_the_one_that_reads_sst_alone() -> None:
    seen = windows(0.7)
    alone = build_forecaster("multiscale-ridge", history=HISTORY, horizon=HORIZON, shape=(ROWS, COLS))
    model = system()
    fit(alone, seen, None)
    fit(model, seen, None)
    days = lambda stride: [seen.thinned(stride)]  # noqa: E731
    without = model.without("soi", days, days)
    assert torch.equal(without.forecast_windows(seen), alone.forecast_windows(seen))
    unknown = replace(seen, predictors={"soi": torch.full_like(seen.predictors["soi"], torch.nan)})
    assert torch.equal(model.forecast_windows(unknown), alone.forecast_windows(seen))


def test_a_single_block_of_years_supports_nothing() -> None:
    seen = windows(0.7).part(0, 200)
    model = system()
    assert set(fit(model, seen, None)["penalty_of_soi"]) == {np.inf}


@pytest.mark.parametrize("name", [name for name in LINEAR if name not in RIDGES])
def test_other_linear_systems_refuse_predictors(name: str) -> None:
    with refused("data.predictors", name, "multiscale-ridge"):
        system(name)


@pytest.mark.parametrize("name", MODELS)
def test_every_network_reads_an_index_before_its_history(name: str) -> None:
    torch.manual_seed(0)
    size = {} if name.startswith("mlp") or name == "tfnet" else {"width": 8}
    shape = {"history": HISTORY, "horizon": HORIZON, "shape": (ROWS, COLS)}
    model = build_forecaster(name, **shape, predictors={"soi": "index"}, **size).eval()
    seen = windows(0.7).part(0, 20)
    index = torch.arange(len(seen))
    batch = seen.batch(index)
    read = model.network_input(batch.history, batch.graph)
    assert read.shape == (20, ROWS * COLS, 3 + HISTORY)
    told = seen.predictors["soi"][seen.at + HISTORY - 1]
    assert torch.equal(read[:, 1, :2], told)
    assert read[..., 2].min() == 1
    assert torch.equal(read[..., 3:], batch.history)
    other = replace(seen, predictors={"soi": seen.predictors["soi"] + 1}).batch(index)
    with torch.no_grad():
        first, second = (model(one.history, one.graph) for one in (batch, other))
    assert first.shape == (20, ROWS * COLS, HORIZON)
    assert not torch.allclose(first, second)
