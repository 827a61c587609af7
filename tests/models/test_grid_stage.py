"""A field in linear systems: an ocean with known forcing, noise, a day too late, and corrections in NumPy."""

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from linear_reference import LAGS, PERIODS, box_mean
from scipy.ndimage import gaussian_filter

from sstcast.models import MODELS, build_forecaster
from sstcast.models.predictor_stages import WithPredictors
from sstcast.ocean.windows import Windows
from sstcast.training.forecast_task import fit

HISTORY, HORIZON, ROWS, COLS = 29, 3, 12, 14
DAMPING, FORCING = 0.95, 0.6
RECOMMENDED = {"memory": True, "stencil": True}
RIDGES = {"ridge": {}, "multiscale-ridge": {}, "local-ridge": RECOMMENDED}


def smooth_noise(random: np.random.Generator, days: int, memory: float = 0.0) -> np.ndarray:
    """Return noise of unit variance, smooth in space, with the given correlation from day to day."""
    noise = gaussian_filter(random.standard_normal((days, ROWS, COLS)), (0, 2, 2), mode="wrap")
    noise = (noise / noise.std()).reshape(days, -1)
    for day in range(1, days if memory else 0):
        noise[day] = memory * noise[day - 1] + np.sqrt(1 - memory**2) * noise[day]
    return noise


def ocean(seed: int, years: int, memory: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Return the SST and the wind of an ocean in which a day's wind acts on the next day's SST, `[T, N]`."""
    random = np.random.default_rng(seed)
    days = 365 * years
    wind, noise = smooth_noise(random, days, memory), smooth_noise(random, days)
    sst = np.zeros_like(wind)
    for day in range(1, days):
        sst[day] = DAMPING * sst[day - 1] + FORCING * wind[day - 1] + noise[day]
    return sst / 3.8, wind  # nearly standardised


def windows(sst: np.ndarray, wind: np.ndarray | None, before: int = 0, first: str = "2001-01-01") -> Windows:
    days = (np.datetime64(first) + np.arange(len(sst))).astype("M8[ns]")

    def tensor(field: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(field[:, None].astype(np.float32))

    return Windows(
        tensor(sst),
        torch.ones(1, ROWS * COLS, dtype=torch.bool),
        days,
        (ROWS, COLS),
        HISTORY,
        HORIZON,
        torch.zeros(1, ROWS * COLS, 3),
        before,
        predictors={} if wind is None else {"wind": tensor(wind)},
    )


def system(name: str, with_wind: bool = True, horizon: int = HORIZON) -> Any:
    return build_forecaster(
        name,
        history=HISTORY,
        horizon=horizon,
        shape=(ROWS, COLS),
        predictors={"wind": "grid"} if with_wind else None,
        **RIDGES[name],
    )


def before(name: str) -> int:
    return 365 - HISTORY if RIDGES[name] else 0


def mse(model: Any, seen: Windows) -> np.ndarray:
    """Return the mean squared error by lead."""
    error = model.forecast_windows(seen) - seen.spans(HISTORY, HORIZON)
    return error.square().mean((0, 2, 3)).numpy()


def oracle_mse(sst: np.ndarray, wind: np.ndarray, memory: float, at: np.ndarray) -> np.ndarray:
    """Return the error by lead of the conditional mean, given the SST and wind of the days `at`."""
    errors = []
    for lead in range(1, HORIZON + 1):
        reach = sum(DAMPING ** (lead - 1 - day) * memory**day for day in range(lead))
        forecast = DAMPING**lead * sst[at] + FORCING / 3.8 * reach * wind[at]
        errors.append(np.square(sst[at + lead] - forecast).mean())
    return np.array(errors)


@pytest.mark.parametrize(
    ("name", "memory", "most"), [("multiscale-ridge", 0.0, 1.05), ("local-ridge", 0.0, 1.05), ("ridge", 0.8, 1.07)]
)
def test_an_ocean_with_known_forcing_is_forecast_as_well_as_theory_can(
    name: str, memory: float, most: float
) -> None:
    (sst, wind), (later, later_wind) = ocean(0, 12, memory), ocean(1, 12, memory)
    errors = {}
    for label, seen, seen_later in (("alone", None, None), ("with", wind, later_wind)):
        model, days = system(name, seen is not None), windows(sst, seen, before(name))
        fit(model, days.part(0, days.starts - 750), days.part(days.starts - 700, days.starts))
        test = windows(later, seen_later, before(name), "2031-01-01").thinned(3)
        errors[label] = mse(model, test)
    best = oracle_mse(later, later_wind, memory, test.at + HISTORY - 1)
    assert (errors["with"] < most * best).all()
    if not memory:  # the wind of the initial date adds b^2 to the noise of the next day, which decays by a^2 a day
        gained = FORCING**2 * DAMPING ** (2 * np.arange(HORIZON))
        noise = np.cumsum((1 + FORCING**2) * DAMPING ** (2 * np.arange(HORIZON))) - gained
        assert errors["alone"] / best == pytest.approx(1 + gained / noise, rel=0.06)


@pytest.mark.parametrize("name", ["multiscale-ridge", "local-ridge"])
def test_a_forecast_with_a_known_error_is_used_as_well_as_theory_can(name: str) -> None:
    """The wind is white in time, and its forecast at lead h has an error of variance h / 4."""
    errors, oceans = {}, [(*ocean(10, 12), 0), (*ocean(11, 12), 1)]
    variance = np.arange(1, HORIZON + 1) / 4
    told = []
    for sst, wind, seed in oceans:
        random = np.random.default_rng(20 + seed)
        known = np.full((len(sst), HORIZON, 1, ROWS * COLS), np.nan, np.float32)
        for ahead in range(1, HORIZON):  # the wind of the day before a lead acts on it
            error = smooth_noise(random, len(sst)) * np.sqrt(variance[ahead - 1])
            known[:-ahead, ahead - 1, 0] = (wind + np.roll(error, ahead, axis=0))[ahead:]
        told.append(known / np.nanstd(known))
    for label in ("alone", "with"):
        model = build_forecaster(
            name,
            history=HISTORY,
            horizon=HORIZON,
            shape=(ROWS, COLS),
            predictors={"wind": "forecast"} if label == "with" else None,
            **RIDGES[name],
        )
        seen = [
            replace(
                windows(sst, None, before(name), first),
                predictors={"wind": torch.from_numpy(known)} if label == "with" else {},
            )
            for (sst, *_), known, first in zip(oceans, told, ("2001-01-01", "2031-01-01"), strict=True)
        ]
        days, test = seen[0], seen[1].thinned(3)
        fit(model, days.part(0, days.starts - 750), days.part(days.starts - 700, days.starts))
        errors[label] = mse(model, test)
    some = test.part(0, 20)
    ahead = some.predictors["wind"].numpy()[some.at + HISTORY - 1][:, :, 0]
    known = np.isfinite(ahead[:, :1])
    own = model.system.forecast_windows(some)[:, :, 0].numpy()
    beside = known * np.concatenate([own, means(model, some, some.values, memory=False)], 1)
    assert_corrected(model, some, np.concatenate([np.nan_to_num(ahead), beside, known], 1))
    # Known: SST, and the wind of lead k with the share 1 / (1 + variance) of its own variance.
    unknown_wind = np.concatenate([[1.0], variance[:-1] / (1 + variance[:-1])])  # of the wind that acts on lead h
    noise = 1 + FORCING**2 * unknown_wind
    damped = DAMPING ** (2 * np.arange(HORIZON))
    best = np.array([noise[:lead] @ damped[:lead][::-1] for lead in range(1, HORIZON + 1)])
    all_noise = np.cumsum((1 + FORCING**2) * damped)
    assert (errors["with"] * 3.8**2 < 1.05 * best).all()
    assert errors["alone"] * 3.8**2 == pytest.approx(all_noise, rel=0.07)


@pytest.mark.parametrize(
    ("kind", "memory", "seeds", "most"),
    [("grid", 0.0, 2, 1.0015), ("grid", 0.9, 2, 1.0015), ("forecast", 0.0, 1, 1.0005)],
)
def test_noise_is_turned_off_or_costs_little(kind: str, memory: float, seeds: int, most: float) -> None:
    """Of five seeds, ratios with forecasts have a standard deviation of 5e-5, and with fields of up to 9e-4."""
    ratios = []
    for seed in range(seeds):
        days, later_days, alone = fitted_without_noise(seed)
        random = np.random.default_rng(200 + seed)
        days, later_days = (with_field(part, kind, random, memory) for part in (days, later_days))
        ratios.append(error_of_a_ridge(days, later_days, predictors={"wind": kind}) / alone)
    assert 0.999 < np.mean(ratios) < most


@cache
def fitted_without_noise(seed: int) -> tuple[Windows, Windows, float]:
    """Return windows of an ocean and later ones, and the error of a ridge on these that reads SST alone."""
    days, later_days = (windows(ocean(number, 20)[0], None) for number in (seed, 100 + seed))
    return days, later_days, error_of_a_ridge(days, later_days)


def error_of_a_ridge(days: Windows, later_days: Windows, **kinds: Any) -> float:
    model = build_forecaster("multiscale-ridge", history=HISTORY, horizon=HORIZON, shape=(ROWS, COLS), **kinds)
    fit(model, days, None)
    return float(mse(model, later_days.thinned(3)).mean())


def with_field(days: Windows, kind: str, random: np.random.Generator, memory: float) -> Windows:
    """Return windows with noise as a field, or as forecasts of one."""
    leads = HORIZON if kind == "forecast" else 1
    noise = np.stack([smooth_noise(random, len(days.days), memory) for _ in range(leads)], 1)[:, :, None]
    known = noise if kind == "forecast" else noise[:, 0]
    return replace(days, predictors={"wind": torch.from_numpy(known.astype(np.float32))})


def test_a_day_too_late_is_noticed() -> None:
    sst, wind = ocean(2, 8)
    errors = []
    for shift in (0, 1):
        model, seen = system("multiscale-ridge"), windows(sst, np.roll(wind, shift, axis=0))
        fit(model, seen, None)
        errors.append(mse(model, seen))
    assert errors[1][0] > 1.3 * errors[0][0]  # (1 + b^2), except that SST itself tells some of the wind


@pytest.mark.parametrize("name", RIDGES)
def test_a_correction_is_means_of_field_and_sst_times_the_weights(name: str) -> None:
    sst, wind = ocean(3, 6)
    wind[1500:1510] = np.nan
    wind[:, 7] = np.nan
    model, seen = system(name), windows(sst, wind, before(name))
    fit(model, seen, None)
    some = seen.part(1100, 1180)
    known = some.predictors["wind"].isfinite()
    fields = [values.nan_to_num(0) * known for values in (some.predictors["wind"], some.values)]
    newest = known.numpy()[some.at + HISTORY - 1]
    told = [means(model, some, values, memory=bool(RIDGES[name])) for values in fields]
    assert_corrected(model, some, np.concatenate([*told, newest], 1))


def means(model: Any, seen: Windows, values: torch.Tensor, memory: bool) -> np.ndarray:
    """Return the means of a field that a correction reads, `[starts, inputs, N]`."""
    everywhere, days = np.ones((ROWS, COLS), bool), seen.at + HISTORY - 1
    field = values.numpy().astype(float).reshape(-1, ROWS, COLS)
    boxes = [box_mean(field, everywhere, size).reshape(len(field), -1) for size in (1, *model.system.BOXES)]
    told = [box[days - lag] for lag in LAGS for box in boxes]
    if memory:
        told += [
            np.stack([box[day + 1 - last : day + 1 - first].mean(0) for day in days])
            for box in boxes
            for first, last in PERIODS
        ]
    return np.stack(told, 1)


def assert_corrected(model: Any, seen: Windows, told: np.ndarray) -> None:
    """Compare a forecast with that of SST alone and the correction by inputs `told [starts, inputs, N]`."""
    change = np.einsum("sin,il->sln", told, model.of_wind[:, 0].numpy().astype(float))
    expected = model.system.forecast_windows(seen)[:, :, 0].numpy() + change
    np.testing.assert_allclose(model.forecast_windows(seen)[:, :, 0], expected, rtol=1e-4, atol=1e-5)
    assert abs(change).max() > 0.05


def test_where_a_field_is_unknown_nothing_changes() -> None:
    sst, wind = ocean(4, 8, memory=0.8)
    alone, model, seen = system("multiscale-ridge", False), system("multiscale-ridge"), windows(sst, wind)
    assert isinstance(model, WithPredictors)
    fit(alone, seen, None)
    fit(model, seen, None)
    unknown = replace(seen, predictors={"wind": torch.full_like(seen.values, torch.nan)})
    assert torch.equal(model.forecast_windows(unknown), alone.forecast_windows(seen))
    assert not torch.equal(model.forecast_windows(seen), alone.forecast_windows(seen))
    split = lambda stride: [seen.thinned(stride)]  # noqa: E731
    assert torch.equal(model.without("wind", split, split).forecast_windows(seen), alone.forecast_windows(seen))


def test_linear_systems_ignore_a_field_that_does_not_change(capsys: pytest.CaptureFixture[str]) -> None:
    shape = {"history": HISTORY, "horizon": HORIZON, "shape": (ROWS, COLS)}
    alone = build_forecaster("ridge", predictors={"depth": "static"}, **shape)
    both = build_forecaster("ridge", predictors={"depth": "static", "wind": "grid"}, **shape)
    assert not isinstance(alone, WithPredictors)
    assert isinstance(both, WithPredictors)
    assert list(both.stages) == ["wind"]
    network = build_forecaster("mlp-pointwise", predictors={"depth": "static"}, **shape)
    assert network.reads == {"depth": 1}


@pytest.mark.parametrize("name", MODELS)
def test_every_network_reads_a_field_before_its_history(name: str) -> None:
    torch.manual_seed(0)
    size = {} if name.startswith("mlp") or name == "tfnet" else {"width": 8}
    shape = {"history": HISTORY, "horizon": HORIZON, "shape": (ROWS, COLS)}
    model = build_forecaster(name, **shape, predictors={"soi": "index", "wind": "grid"}, **size).eval()
    sst, wind = ocean(5, 1)
    wind[40, 3] = np.nan
    seen = windows(sst, wind)
    seen = replace(seen, predictors={"soi": torch.ones(len(sst), 2)} | dict(seen.predictors)).part(0, 30)
    batch = seen.batch(torch.arange(len(seen)))
    read = model.network_input(batch.history, batch.graph)
    assert read.shape == (30, ROWS * COLS, 3 + HISTORY + 1 + HISTORY)
    first = torch.from_numpy(wind[20 : 20 + HISTORY].T.astype(np.float32))
    assert torch.equal(read[20, :, 3 : 3 + HISTORY], first.nan_to_num(0))
    assert read[20, 3, 3 + HISTORY] == pytest.approx(1 - 1 / HISTORY)
    assert read[20, 4, 3 + HISTORY] == 1
    other = replace(seen, predictors=dict(seen.predictors) | {"wind": seen.predictors["wind"] + 1})
    other_batch = other.batch(torch.arange(len(seen)))
    with torch.no_grad():
        outputs = [model(one.history, one.graph) for one in (batch, other_batch)]
    assert not torch.allclose(*outputs)
