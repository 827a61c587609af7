"""What each part of what is read contributes: superposition in plain NumPy, places, files, refusals."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scored_runs
import torch
import xarray as xr
from linear_reference import LAGS, PERIODS, Inputs, box_mean
from scored_runs import configure
from small_ocean import make_sst

import sstcast
from sstcast.config import Region
from sstcast.forecasting.loaded_run import Extras, LoadedRun
from sstcast.forecasting.system import Combination, Models
from sstcast.forecasting.why import contributions, lines_of_why
from sstcast.geo import area_weights
from sstcast.models import build_forecaster
from sstcast.runs import Run

HISTORY, HORIZON, ROWS, COLS = 10, 8, 8, 12
DAYS = pd.date_range(end="2004-02-26", periods=365)  # the forecast goes over the 29th
OCEAN = np.ones((ROWS, COLS), bool)
OCEAN[:2, :3] = False
ALL = {"memory": True, "stencil": True}
FURTHER = {"nino": "index", "memory": "grid", "ahead": "forecast"}  # a predictor may have the name of a part
BOXES = (1, 3, 7, 15, 0)
# Whole around the globe, but no tile of these systems goes around it.
REGION = Region(lon=(0, 360), lat=(-40, 40), tile=(ROWS, COLS))
Read = dict[str, np.ndarray]  # of SST, an index and a field, on all days


def days_read() -> xr.Dataset:
    """Return days of noise. The index lacks a summary, the field cells and days, the forecast cells and leads."""
    random = np.random.default_rng(0)
    sst, field = random.standard_normal((2, len(DAYS), ROWS, COLS)).astype(np.float32)
    index = random.standard_normal((len(DAYS), 2)).astype(np.float32)
    field[random.random(field.shape) < 0.2], field[:, ~OCEAN], field[-40:-30], index[-1, 1] = (np.nan,) * 4
    sst[:, ~OCEAN] = np.nan
    ahead = random.standard_normal((len(DAYS), HORIZON, ROWS, COLS)).astype(np.float32)
    ahead[:, 5:], ahead[:, :, :, 4:7] = np.nan, np.nan
    scale = random.uniform(0.3, 1.5, (366, ROWS, COLS)).astype(np.float32)
    dims = ("time", "lat", "lon")
    return xr.Dataset(
        {
            "anomaly": (dims, sst),
            "predictor_nino": (("time", "summary"), index),
            "predictor_memory": (dims, field),
            "predictor_ahead": (("time", "ahead", *dims[1:]), ahead),
            "ocean_mask": (dims[1:], OCEAN),
            "scale": (("dayofyear", *dims[1:]), scale),
        },
        {
            "time": DAYS,
            "lat": np.arange(-35.0, 40, 10),
            "lon": np.arange(15.0, 360, 30),
            "dayofyear": np.arange(1, 367),
        },
    )


def filled(model: Any, seed: int = 0) -> Any:
    """Give a model random weights, also where it is fitted: buffers as well as parameters."""
    generator = torch.Generator().manual_seed(seed)
    for weight in (*model.buffers(), *model.parameters()):
        if weight.dtype == torch.float32:
            size = 0.3 if weight.dim() < 2 else 2 / weight[..., 0].numel() ** 0.5
            weight.data.copy_(size * torch.randn(weight.shape, generator=generator))
    return model


def system_of(name: str, history: int = HISTORY, predictors: Any = None, seeds: int = 1, **options: Any) -> Models:
    kinds = {"history": history, "horizon": HORIZON, "shape": (ROWS, COLS), "predictors": predictors}
    models = [filled(build_forecaster(name, **kinds, **options), seed) for seed in range(seeds)]
    device, names = torch.device("cpu"), [*(predictors or ())]
    return Models(REGION, history, HORIZON, models, device, wraps=False, predictors=names)


def season() -> np.ndarray:
    angle = 2 * np.pi / 365.2425 * (DAYS[-1].day_of_year - 1)
    return np.array([np.sin(angle), np.cos(angle)])


def of_ridge(model: Any, read: Read) -> np.ndarray:
    """Return the forecast `[cell, lead]` of any ridge with these weights."""
    z = np.nan_to_num(read["sst"])
    weight, inputs = model.weight.numpy(), Inputs(z, OCEAN, model.history, [*ALL] if model.inputs.memory else [])
    x = inputs.at(len(z) - 1)
    if not model.BOXES:
        x = np.concatenate([x[:, : model.history], x[:, -1:]], 1)
    forecast = x @ weight
    if hasattr(model, "local"):
        patterns, last, sines = model.patterns.numpy(), len(z) - 1, season()
        components = [patterns @ z[last - lag].ravel() for lag in (0, 3, 7, 14, 28, 41) if lag < model.history]
        products = [components[0] * term for term in sines]
        states = np.concatenate([*components, sines, *products, [1]])
        forecast = forecast + np.tensordot(states, model.local.numpy(), 1)[OCEAN.ravel()]
    return forecast


def with_predictors(model: Any, read: Read) -> np.ndarray:
    """Return the same, corrected by the index and the field."""
    forecast, told = of_ridge(model.system, read), np.nan_to_num(read["nino"][-1])
    inputs = np.concatenate([told, *(told * term for term in season())])
    forecast = forecast + np.tensordot(inputs, model.of_nino.numpy(), 1)[OCEAN.ravel()]
    known = np.isfinite(read["memory"])
    x, last = [], len(known) - 1
    lags, sizes = [lag for lag in LAGS if lag < model.history], BOXES if model.system.BOXES else (1,)
    for values in (np.nan_to_num(read["memory"]), np.nan_to_num(read["sst"]) * known):
        means = [box_mean(values, OCEAN, size)[:, OCEAN] for size in sizes]
        x += [mean[last - lag] for lag in lags for mean in means]
        if model.system.inputs.memory:
            x += [mean[last + 1 - end : last + 1 - begin].mean(0) for mean in means for begin, end in PERIODS]
    forecast = forecast + np.stack([*x, known[-1][OCEAN]], 1) @ model.of_memory[:, 0].numpy()
    ahead = read["ahead"][-1][:, OCEAN].T
    known = np.isfinite(ahead[:, :1])
    means = [box_mean(np.nan_to_num(read["sst"]), OCEAN, size)[:, OCEAN] for size in sizes]
    beside = np.stack([mean[last - lag] for lag in lags for mean in means], 1)
    x = [np.nan_to_num(ahead), forecast * known, beside * known, known]
    return forecast + np.concatenate(x, 1) @ model.of_ahead[:, 0].numpy()


def of_trend(model: Any, read: Read) -> np.ndarray:
    last = np.datetime64(int(model.last), "D")
    years = (DAYS[-1].to_datetime64() - last) / np.timedelta64(1, "D") + 1 + np.arange(HORIZON)
    line = model.line.numpy()[:, OCEAN.ravel(), None]
    return line[0] + line[1] * years / 365  # of so many days each


def of_lim(model: Any, read: Read) -> np.ndarray:
    patterns, last = model.patterns.numpy(), np.nan_to_num(read["sst"][-1]).ravel()
    components = patterns @ last
    rest = last - components @ patterns
    forecast = (model.propagators.numpy() @ components) @ patterns + model.damping.numpy()[:, None] * rest
    return forecast.T[OCEAN.ravel()]


def of_last_day(factor: Callable[[Any], np.ndarray]) -> Callable[[Any, Read], np.ndarray]:
    return lambda model, read: read["sst"][-1][OCEAN][:, None] * factor(model)


NUMPY: dict[str, Callable[[Any, Read], np.ndarray]] = {
    "climatology": of_last_day(lambda model: np.zeros(HORIZON)),
    "trend-climatology": of_trend,
    "recent-climatology": of_trend,
    "persistence": of_last_day(lambda model: np.ones(HORIZON)),
    "damped-persistence": of_last_day(lambda model: model.damping.numpy()),
    "lim": of_lim,
    **dict.fromkeys(("ridge", "multiscale-ridge", "local-ridge"), of_ridge),
}


def superposed(forecast_of: Callable[[Read], np.ndarray], history: int, parts: list[str]) -> dict[str, np.ndarray]:
    """Return the forecast of each part with all else at 0 less that of zeros, as a map `[lead, lat, lon]`."""
    days = days_read()
    read = {"sst": days["anomaly"].values} | {name: days[f"predictor_{name}"].values for name in FURTHER}
    ago = len(DAYS) - 1 - np.arange(len(DAYS))  # days before the initial date
    of_sst = {
        "last_week": ago < min(7, history),
        "history": (ago >= 7) & (ago < history),
        "memory": ago >= history,
    }

    def only(part: str) -> np.ndarray:
        name = part.removeprefix("predictor ") if part.startswith("predictor") else "sst"
        kept = of_sst.get(part, np.full(len(DAYS), part.startswith("predictor")))
        values = {key: np.where(np.isnan(of), np.nan, 0).astype(np.float32) for key, of in read.items()}
        values[name] = np.where(kept.reshape(-1, *[1] * (read[name].ndim - 1)), read[name], values[name])
        field = np.full((HORIZON, ROWS, COLS), np.nan)
        field[:, OCEAN] = forecast_of(values).T
        return field

    zeros = only("constant")
    return {part: zeros if part == "constant" else only(part) - zeros for part in parts}


def in_degrees(field: np.ndarray) -> np.ndarray:
    ahead = pd.date_range(DAYS[-1], periods=HORIZON + 1)[1:]
    return field * days_read()["scale"].values[ahead.day_of_year - 1]


def check(found: xr.DataArray, expected: dict[str, np.ndarray]) -> None:
    assert found.dims == ("init_time", "part", "lead", "lat", "lon")
    assert found["part"].values.tolist() == [*expected]
    for part, field in expected.items():
        np.testing.assert_allclose(found.sel(part=part)[0], in_degrees(field), atol=1e-5, err_msg=part)


def explained(system: Models | Combination) -> tuple[xr.DataArray, xr.DataArray]:
    """Return the contributions, and the forecast `[member, lead, lat, lon]`, where nothing freezes."""
    from sstcast.ocean.windows import with_earlier

    days = days_read()
    forecast = system.predict(with_earlier(days.isel(time=slice(-system.history, None)), days))
    return contributions(system, days, forecast, forecast), forecast.isel(init_time=0)


@pytest.mark.parametrize(
    ("name", "options", "parts"),
    [
        *((name, {}, "last_week history") for name in NUMPY),
        ("ridge", {"history": 5}, "last_week"),
        ("multiscale-ridge", ALL, "last_week history memory"),
        ("local-ridge", ALL, "last_week history memory"),
        ("ridge", {"predictors": FURTHER}, "last_week history predictor_nino predictor_memory predictor_ahead"),
        (
            "local-ridge",
            {"predictors": FURTHER} | ALL,
            "last_week history memory predictor_nino predictor_memory predictor_ahead",
        ),
    ],
)
def test_a_linear_system_is_the_sum_of_its_parts(name: str, options: dict[str, Any], parts: str) -> None:
    system = system_of(name, **options)
    found, forecast = explained(system)
    of_model, (model,) = with_predictors if "predictors" in options else NUMPY[name], system.models
    names = [part.replace("predictor_", "predictor ") for part in parts.split()]
    check(found, superposed(lambda read: of_model(model, read), system.history, [*names, "constant"]))
    np.testing.assert_allclose(found.sum("part", skipna=False)[0], in_degrees(forecast[0]), atol=1e-5)


def network(seeds: int = 2) -> Models:
    options = {"width": 8, "layers": 1, "base": {"name": "linear", "memory": True}}
    return system_of("mpnn", predictors=FURTHER, seeds=seeds, **options)


def of_network(system: Models, forecast: np.ndarray, parts: list[str]) -> dict[str, np.ndarray]:
    """Return the parts of the mean of networks, of which `forecast` is the mean."""

    def base(read: Read) -> np.ndarray:
        return np.mean([of_base(model.linear, read) for model in system.models], 0)

    def of_base(model: Any, read: Read) -> np.ndarray:
        inputs = Inputs(np.nan_to_num(read["sst"]), OCEAN, HISTORY, ["memory"])
        return inputs.at(len(DAYS) - 1) @ model.weight.numpy()

    expected = superposed(base, HISTORY, parts)
    days = {"sst": days_read()["anomaly"].values}
    whole = np.full((HORIZON, ROWS, COLS), np.nan)
    whole[:, OCEAN] = base(days).T
    return expected | {"network": forecast - whole}


def test_a_network_adds_to_its_base_without_wrapping() -> None:
    """Its predictors are in it. The base is that of its tile, although this goes around the globe."""
    system = network()
    found, forecast = explained(system)
    check(
        found, of_network(system, forecast.mean("member").values, ["last_week", "history", "memory", "constant"])
    )
    assert abs(found.sel(part="network")).mean() > 0.01
    np.testing.assert_allclose(found.sum("part", skipna=False)[0], in_degrees(forecast.mean("member")), atol=1e-5)


def test_the_base_beside_a_network_is_the_one_within_it() -> None:
    """`evaluate` scores it, with the edges of the tile of the network."""
    alone = network(seeds=1)
    base, others = alone.linear_base(), explained(alone)[0].drop_sel(part="network")
    assert base is not None
    np.testing.assert_allclose(others.sum("part", skipna=False)[0], in_degrees(explained(base)[1][0]), atol=1e-5)


def test_a_combination_weights_its_parts_by_lead() -> None:
    """Also within a part that is a combination. Systems without a memory have none to weight."""
    ridge, persistence, networks = system_of("ridge", predictors=FURTHER), system_of("persistence"), network()
    inner, outer = np.array([[0.2, 0.8], [0.7, 0.3]]), np.array([[0.4, 0.6], [0.9, 0.1]])
    found, forecast = explained(Combination([Combination([ridge, networks], inner), persistence], outer))
    of_sst = ["last_week", "history", "memory"]
    parts = [*of_sst, *(f"predictor {name}" for name in FURTHER)]
    members = explained(networks)[1].mean("member").values
    of_parts = [
        (superposed(lambda read: with_predictors(ridge.models[0], read), HISTORY, [*parts, "constant"]), 0, 0),
        (of_network(networks, members, [*parts, "constant"]), 0, 1),
        (superposed(lambda read: NUMPY["persistence"](None, read), HISTORY, [*parts, "constant"]), 1, None),
    ]
    week = np.arange(HORIZON) // 7
    expected = dict.fromkeys([*parts, "constant", "network"], np.zeros(()))
    for fields, of_outer, of_inner in of_parts:
        weight = outer[week, of_outer] * (1 if of_inner is None else inner[week, of_inner])
        for part, field in fields.items():
            expected[part] = expected[part] + weight[:, None, None] * field
    check(found, expected)
    np.testing.assert_allclose(found.sum("part", skipna=False)[0], in_degrees(forecast[0]), atol=1e-5)


def test_freezing_is_the_mean_of_what_each_member_is_raised_by() -> None:
    from sstcast.ocean.windows import with_earlier

    system, days = network(), days_read()
    forecast = system.predict(with_earlier(days.isel(time=slice(-HISTORY, None)), days))
    clipped = forecast.where(~(forecast < 0.1), 0.1)
    found = contributions(system, days, forecast, clipped)
    raised = np.maximum(forecast.values[:, 0], 0.1) - forecast.values[:, 0]
    assert (raised > 0).any(0)[:, OCEAN].any()
    np.testing.assert_allclose(found.sel(part="freezing")[0], in_degrees(raised.mean(0)), atol=1e-6)
    np.testing.assert_allclose(
        found.sum("part", skipna=False)[0], in_degrees(clipped.mean("member")[0]), atol=1e-5
    )


DATE = "2004-10-01"


@pytest.fixture(scope="module")
def frozen(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A ridge under the `paper` protocol on a sea that freezes in part, averaged over 2 x 2 cells."""
    folder, sst = tmp_path_factory.mktemp("frozen"), make_sst()
    sst["sst"] = (sst["sst"] - 19.5).clip(min=-1.8).assign_attrs(units="Celsius")
    sst.to_netcdf(folder / "sea.nc", engine="netcdf4")
    region = {"lon": [170, 173], "lat": [-12, -10], "tile": [4, 6], "coarsen": 2}
    config = configure(folder, folder / "sea.nc", model={"name": "ridge"}, region=region, protocol="paper")
    return sstcast.train(config)


def test_the_file_and_the_table_of_places(frozen: Run, sites: Path, tmp_path: Path, command: Any) -> None:
    plain = sstcast.forecast(frozen, DATE, tmp_path / "plain.nc", places=sites).value.load()
    table = (tmp_path / "plain-places.csv").read_text()
    code, out, _ = command("forecast", frozen.folder, "--date", DATE, "--out", tmp_path / "why.nc", "--why")
    assert code == 0
    made = xr.load_dataset(tmp_path / "why.nc")
    one, of_cells = made.isel(init_time=0), made["sst_contribution"][0]
    assert of_cells["part"].values.tolist() == ["last_week", "history", "constant", "freezing"]
    assert float(of_cells.sel(part="freezing").max()) > 0.01
    np.testing.assert_allclose(of_cells.sum("part", skipna=False), one["sst_anomaly"], atol=1e-5)

    added = set(made.variables) - set(plain.variables)
    assert added == {"part", "sst_contribution", *(f"place_{of}contribution" for of in ("", "week_", "horizon_"))}
    for name in plain.variables:
        assert made[name].variable.equals(plain[name].variable), name
    assert "why" not in plain.attrs["recipe"]
    assert plain.attrs["recipe"] != made.attrs["recipe"]

    rows = pd.read_csv(tmp_path / "why-places.csv")
    why = [name for name in rows if name.startswith("why_")]
    assert why == ["why_last_week", "why_history", "why_constant", "why_freezing"]
    assert ",".join(rows.drop(columns=why)) == table.splitlines()[0]

    def of(place: str, period: str) -> np.ndarray:
        return (
            rows[(rows["place"] == place) & (rows["period"] == period)][why].sum(axis=1, skipna=False).to_numpy()
        )

    farm = one["sst_anomaly"].sel(lat=-10.3, lon=171.3, method="nearest")
    park = one["sst_anomaly"].sel(lat=slice(-11.5, -10.5), lon=slice(171, 172))
    park = park.weighted(area_weights(park["lat"]) * xr.ones_like(park["lon"])).mean(("lat", "lon"))
    for place, anomaly in (("farm", farm), ("park", park)):
        np.testing.assert_allclose(of(place, "day"), anomaly, atol=3e-4)
        np.testing.assert_allclose(of(place, "week"), anomaly[:7].mean(), atol=3e-4)
        np.testing.assert_allclose(of(place, "horizon"), anomaly.mean(), atol=3e-4)
    assert rows[rows["place"] == "elsewhere"][why].isna().all(axis=None)

    lines = [line for line in out.splitlines() if ", week 1: " in line]
    assert [line.partition(",")[0] for line in lines] == ["farm", "park"]
    assert f"farm, week 1: {float(farm[:7].mean()):+.1f} degC " in lines[0]


def test_one_day_has_the_same_from_memory(frozen: Run) -> None:
    loaded = LoadedRun(frozen.folder)
    history = xr.open_dataset(loaded.data.source)["sst"].sel(time=slice(None, DATE))[-90:]
    made, plain = loaded.forecast(history, why=True), loaded.forecast(history)
    np.testing.assert_allclose(made["sst_contribution"].sum("part", skipna=False), made["sst_anomaly"], atol=1e-5)
    assert "sst_contribution" not in plain
    assert loaded.recipe(history, Extras()) != loaded.recipe(history, Extras(why=True))


def of_place(week: bool, **parts: float) -> xr.Dataset:
    """Return a forecast with the contributions to the first week, or the whole, of a farm."""
    names, values = [name.replace("predictor_", "predictor ") for name in parts], [[[*parts.values()]]]
    fields = xr.Dataset({"sst": ("lead", np.zeros(14 if week else 5))}, {"part": names, "place": ["farm"]})
    fields["place_contribution"] = (("part", "place"), np.array(values)[0].T)
    if week:
        fields["place_week_contribution"] = (
            ("week", "place", "part"),
            np.array([values[0], [[9.0] * len(parts)]]),
        )
    fields["place_horizon_contribution"] = (("place", "part"), np.array(values)[0])
    return fields


def test_a_line_tells_the_parts_in_order_of_size() -> None:
    warm = of_place(True, memory=0.1, last_week=0.7, predictor_nino34=-0.12, history=0.22, constant=0.01)
    assert lines_of_why(warm) == [
        "farm, week 1: +0.9 degC above normal: last week +0.7, weeks before +0.2, nino34 -0.1, memory +0.1"
    ]
    cold = of_place(False, constant=-0.4, network=0.25, memory=-0.1, predictor_memory=-0.3)
    (line,) = lines_of_why(cold)
    assert line == (
        "farm, 5 days: -0.6 degC below normal: constant -0.4, predictor memory -0.3, network +0.2, memory -0.1"
    )
    assert lines_of_why(of_place(True, memory=0.01)) == ["farm, week 1: 0.0 degC from normal: no part"]
    assert not lines_of_why(of_place(True, memory=np.nan))
    assert not lines_of_why(cold.drop_vars("place_contribution"))


def test_networks_without_a_linear_base_are_refused(
    frozen: Run, sst_file: Path, tmp_path: Path, fails: Callable[..., None]
) -> None:
    run = scored_runs.make_run(configure(tmp_path, sst_file))
    other = scored_runs.make_run(configure(tmp_path, sst_file, "other"))
    both = sstcast.combine([run, other], "both", equal=True)
    reason = "a network without a linear base, whose forecast is no sum of what it reads"
    fails([f"{run.folder}: --why: {reason}"], "forecast", run.folder, "--date", DATE, "--why")
    part = f"{both.folder}: --why: its part {run.folder} is {reason}"
    fails([part], "forecast", both.folder, "--date", DATE, "--why")
    assert not list(run.folder.glob("*.nc"))
