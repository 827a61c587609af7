"""Brier scores and counts against whole fields and scikit-learn, what follows from the counts against `scores`."""

from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from scenes import block, observation, scene, with_limits
from scipy.stats import norm
from scored_runs import configure
from scores.categorical import BasicContingencyManager
from sklearn.calibration import calibration_curve
from sklearn.metrics import roc_auc_score

from sstcast.extremes.heatwaves import MARGIN_DAYS, events, limits_of
from sstcast.forecasting.heatwaves import Trajectories
from sstcast.names import BASE_RATE, STATE
from sstcast.ocean.prepare import prepare
from sstcast.ocean.prepared import Prepared
from sstcast.reading.days_of_year import on_days
from sstcast.scores.analysis import Analysis
from sstcast.scores.cases import STEPS, Cases, diagram, scores_of
from sstcast.scores.kinds.heatwaves import Heatwaves
from sstcast.scores.probabilities import cases_by
from sstcast.scores.scene import TRAJECTORIES


def counted(level: np.ndarray, occurred: np.ndarray) -> Cases:
    """Return how often each probability, in steps, was given, and came true."""
    calm, came = (np.bincount(level[occurred == yes], minlength=STEPS + 1) for yes in (0, 1))
    return Cases(calm, came, (calm + came) * np.arange(STEPS + 1) / STEPS)


def drawn() -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(1)
    level = np.minimum(random.geometric(0.06, 4000) - 1, STEPS)
    return level, (random.random(4000) < 0.1 + 0.7 * level / STEPS).astype(int)


def test_scores_of_counts_against_other_libraries() -> None:
    level, occurred = drawn()
    found = scores_of(counted(level, occurred))
    assert float(found["observed"]) == pytest.approx(occurred.mean())
    assert float(found["probability"]) == pytest.approx(level.mean() / STEPS)
    assert float(found["roc_area"]) == pytest.approx(roc_auc_score(occurred, level))
    least = np.sort(level)[-occurred.sum()]  # with as many warnings as days that came true
    above, tied = level > least, level == least
    hits = occurred[above].sum() + occurred[tied].mean() * (occurred.sum() - above.sum())
    wrong = occurred.sum() - hits
    table = {"tp_count": hits, "fp_count": wrong, "fn_count": wrong, "tn_count": len(occurred) - hits - 2 * wrong}
    manager = BasicContingencyManager(
        {name: xr.DataArray(float(count)) for name, count in (table | {"total_count": len(occurred)}).items()}
    )
    assert float(found["sedi"]) == pytest.approx(float(manager.symmetric_extremal_dependence_index()))


def test_perfect_and_useless_warnings() -> None:
    occurred = np.array([0, 0, 0, 1] * 5)
    always = np.full(20, STEPS)
    perfect = scores_of(counted(STEPS * occurred, occurred))
    assert [float(perfect[name]) for name in ("roc_area", "sedi")] == pytest.approx([1, 1])
    for useless in (always, always // 7):
        found = scores_of(counted(useless, occurred))
        assert float(found["roc_area"]) == 0.5
        assert float(found["sedi"]) == pytest.approx(0, abs=1e-12)
    nothing = scores_of(counted(always, 0 * occurred))
    assert np.isnan([float(nothing["roc_area"]), float(nothing["sedi"])]).all()


def test_reliability_against_scikit_learn() -> None:
    level, occurred = drawn()
    inside = (level % 10 != 0) | (level == 0) | (level == STEPS)  # scikit-learn puts edges into the lower bin
    cases = counted(level[inside], occurred[inside])
    found = {
        name: np.array(of, float)
        for name, of in diagram(Cases(*(of[None] for of in cases))).items()
        if name != "interval"
    }
    observed, probability = calibration_curve(occurred[inside], level[inside] / STEPS, n_bins=10)
    known = found["share"] > 0
    np.testing.assert_allclose(found["observed"][known], observed, atol=1e-6)
    np.testing.assert_allclose(found["probability"][known], probability, atol=1e-6)
    assert float(found["share"].sum()) == pytest.approx(1)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory, sst_file: Path) -> Analysis:
    config = configure(tmp_path_factory.mktemp("runs"), sst_file).data
    prepare(config)
    return Analysis.open(Prepared.of(config))


@pytest.fixture(scope="module")
def margin(data: Analysis) -> np.ndarray:
    """What comes true, in degC above the threshold, `[starts, lead, tile, N]`."""
    threshold = limits_of(data.prepared)["heatwave_threshold"]
    return data.ahead(data.sst) - data.ahead(threshold)


def test_a_perfect_forecast(data: Analysis, margin: np.ndarray) -> None:
    tables = Heatwaves(scene(data, perfect=np.eye(8)))
    for dates in (slice(0, 100), slice(100, 348)):
        tables.begin(seen := observation(dates, margin[dates]))
        tables.add(block("perfect", seen, margin[None, dates], np.zeros_like(margin[dates])))
    found = tables.dataset().sel(forecaster=["perfect"])
    scored = found["heatwave_brier_by_date"].squeeze("forecaster").dropna("init_time")
    assert scored.sizes["init_time"] == 116  # every third
    assert (scored.sel(kind="exceedance") == 0).all()
    assert (scored.sel(kind="event")[:, : 8 - MARGIN_DAYS] == 0).all()
    assert float(scored.sel(kind="event").mean()) < 0.02  # the days after the last one are not known to it
    cases, _ = cases_by(found.sel(kind="exceedance"), "heatwave", "lead")
    of = scores_of(cases.sum(1))
    assert [of[name][0] for name in ("roc_area", "sedi")] == pytest.approx([1, 1])
    parts = {"lead": "lead", "season": "season_of_day", "year": "init_year"}
    for name in ("cases", "probability"):
        by_lead, *others = (found[f"heatwave_{name}_by_{by}"].sum(dim) for by, dim in parts.items())
        for other in others:
            np.testing.assert_allclose(other, by_lead, rtol=1e-5)


def test_scores_are_those_of_whole_fields(data: Analysis, margin: np.ndarray) -> None:
    random, limits = np.random.default_rng(3), limits_of(data.prepared)
    wrong = (margin + random.normal(0, 0.5, margin.shape)).astype(np.float32)
    spread = np.full_like(margin, 0.5)
    correlation = 0.5 ** np.abs(np.subtract.outer(np.arange(8), np.arange(8)))
    tables = Heatwaves(scene(data, some=correlation, members=None))
    for dates in (slice(0, 200), slice(200, 348)):
        seen = observation(dates, margin[dates])
        tables.begin(seen)
        tables.add(block("some", seen, wrong[None, dates], spread[dates]))
        tables.add(block("members", seen, np.stack([wrong[dates], margin[dates]])))
    found = tables.dataset()["heatwave_brier_by_date"].dropna("init_time", how="all").transpose("init_time", ...)

    sst = data.cube["sst"].load()
    hot = data.on_tiles(sst > on_days(limits["heatwave_threshold"], sst["time"])) > 0
    base = sst["time"].dt.year.values <= 2002
    inside, rates = events(hot), {"exceedance": hot[base].mean(0), "event": events(hot[base]).mean(0)}
    starts = np.arange(0, 348, 3)
    day = int(np.flatnonzero(sst["time"].values == data.windows.days[0])[0]) + starts + 9  # the last of history
    area, ahead = data.area, day[:, None] + np.arange(1, 9)
    exceed = norm.cdf(wrong / 0.5)[starts]
    drawn = Trajectories(correlation, TRAJECTORIES)
    pairs = zip(exceed.reshape(len(starts), 8, -1), day, strict=True)
    in_event = [drawn.probability(p, hot[last - 5 : last + 1].reshape(6, -1)) for p, last in pairs]
    both = np.stack([wrong, margin])[:, starts] > 0
    whole = np.concatenate([np.stack([[hot[last - 5 : last + 1] for last in day]] * 2), both], axis=2)
    whole = np.concatenate([whole, np.repeat(whole[:, :, -1:], MARGIN_DAYS, axis=2)], axis=2)
    member_events = np.stack([[events(days)[6:-6] for days in member] for member in whole])
    members = {"exceedance": both.mean(0), "event": member_events.mean(0)}
    probabilities = {"exceedance": exceed, "event": np.reshape(in_event, exceed.shape)}
    state = {"exceedance": hot[day], "event": np.stack([hot[last - 4 : last + 1].all(0) for last in day])}
    for kind, truth in (("exceedance", hot), ("event", inside)):
        occurred = truth[ahead] * 1.0
        assert 0.02 < occurred.mean() < 0.5
        for name, probability in (
            ("some", probabilities[kind]),
            ("members", members[kind]),
            (STATE, np.broadcast_to(state[kind][:, None], occurred.shape)),
            (BASE_RATE, np.broadcast_to(rates[kind], occurred.shape)),
        ):
            brier = ((probability - occurred) ** 2 * area).sum((-1, -2))
            np.testing.assert_allclose(found.sel(kind=kind, forecaster=name), brier, atol=1e-5)


def test_cells_and_days_without_a_defined_event_do_not_count(data: Analysis, margin: np.ndarray) -> None:
    limits = limits_of(data.prepared)
    threshold = limits["heatwave_threshold"]
    threshold[:, 5, 7] = np.nan  # one cell on all days, and a row of cells on some
    threshold[150:260, 3, :] = np.nan
    ahead = data.ahead(threshold)
    defined = np.isfinite(ahead) & data.ocean
    assert 0.5 < defined.sum() / (data.ocean & (ahead == ahead)).size < 0.99
    wrong = (data.ahead(data.sst) - ahead + 0.3).astype(np.float32)
    spread = np.full_like(wrong, 0.5)
    tables = Heatwaves(scene(with_limits(data, limits), some=np.eye(8)))
    seen = observation(slice(0, 348), wrong, np.where(np.isfinite(ahead), 0, np.nan))
    tables.begin(seen)
    tables.add(block("some", seen, wrong[None], spread))
    found = tables.dataset().sel(kind="exceedance")
    brier = found["heatwave_brier_by_date"].sel(forecaster=["some", STATE, BASE_RATE])
    assert np.isfinite(brier.isel(init_time=slice(None, None, 3))).all()
    weights = np.where(defined, data.area, 0)[::3]
    occurred, probability = (margin > 0)[::3], norm.cdf(wrong / 0.5)[::3]
    expected = (np.where(weights > 0, probability - occurred, 0) ** 2 * weights).sum() / weights.sum()
    brier = brier.sel(forecaster="some").mean()
    share = found["heatwave_defined_by_date"].isel(init_time=slice(None, None, 3)).mean()
    assert float(share) == pytest.approx(weights.sum() / len(weights) / 8, rel=1e-5)
    assert float(brier / share) == pytest.approx(expected, rel=1e-4)
    cases, _ = cases_by(found.sel(forecaster=["some"]), "heatwave", "lead")
    assert float(scores_of(cases.sum(1))["observed"][0]) == pytest.approx(
        (occurred * weights).sum() / weights.sum(), rel=1e-4
    )
