"""Probabilities of any event, counted on one lattice and scored in one way."""

import numpy as np
import pytest
import xarray as xr
from sklearn.metrics import brier_score_loss, roc_auc_score

from sstcast.names import SCORED_YEARS
from sstcast.scores.cases import STEPS, steps_of
from sstcast.scores.comparisons import Loss, on_common_dates
from sstcast.scores.probabilities import Probabilities, brier_of, cases_by, scores, with_scored_years

DATES = np.datetime64("2003-01-05", "ns") + 6 * np.arange(40) * np.timedelta64(1, "D")
LEADS, CELLS = 3, 8
WEIGHTS = np.arange(1, CELLS + 1, dtype=np.float32) / 36


def came_of(random: np.random.Generator) -> np.ndarray:
    return random.random((len(DATES), LEADS, CELLS)) < 0.4


def tables_of(forecasts: dict[str, list[tuple[np.ndarray, np.ndarray, int]]], came: np.ndarray) -> xr.Dataset:
    """Return the tables of forecasters: positions of dates, probabilities, and numbers of members, in parts."""
    days = 1 + np.arange(LEADS)
    tables = Probabilities("rain", {}, [*forecasts], DATES, days, {"lead": days.tolist()})
    for block in (np.arange(25), np.arange(25, len(DATES))):
        tables.observe((), block, came[block], np.broadcast_to(WEIGHTS, came[block].shape))
        for name, parts in forecasts.items():
            for positions, chance, members in parts:
                own = np.intersect1d(positions, block)
                if len(own):
                    tables.add(name, (), own, chance[np.searchsorted(positions, own)], members)
    fold = DATES.astype("datetime64[Y]").astype(int) + 1970
    season = xr.DataArray(DATES[:, None] + days * np.timedelta64(1, "D"), dims=("init_time", "lead")).dt.season
    return tables.dataset().assign_coords(init_time=DATES, fold=("init_time", fold), season=season)


@pytest.mark.parametrize("members", [3, 10, 20, 50, 51, 100, 200])
def test_a_share_of_members_is_in_the_step_that_begins_at_it(members: int) -> None:
    k = np.arange(members + 1)
    right = [100 * int(count) // members for count in k]
    assert steps_of((k / members).astype(np.float32), members).tolist() == right
    sure = k / np.float32(members)
    assert steps_of(np.float32(1) - sure[::-1], 1).tolist() == right  # from differences in single precision
    assert steps_of(np.array([1 - 1e-7, 1.0])).tolist() == [STEPS - 1, STEPS]  # the last holds 1 alone


def test_scores_of_ten_members_are_plain_numpy() -> None:
    random = np.random.default_rng(0)
    came = came_of(random)
    chance = (random.binomial(10, np.where(came, 0.6, 0.3)) / 10).astype(np.float32)
    tables = tables_of({"ten": [(np.arange(len(DATES)), chance, 10)]}, came)
    found = scores(tables, "rain", "ten")["ten"]
    weights = np.broadcast_to(WEIGHTS, came.shape)
    flat = came.ravel(), chance.ravel()
    brier = brier_score_loss(*flat, sample_weight=weights.ravel())
    assert found["brier"] == pytest.approx(brier, abs=1e-6)
    sampled = (chance * (1 - chance) / 9 * weights).sum() / weights.sum()
    assert found["brier_fair"] == pytest.approx(brier - sampled, abs=1e-6)
    assert found["roc_area"] == pytest.approx(roc_auc_score(*flat, sample_weight=weights.ravel()), abs=1e-6)
    for lead in range(LEADS):
        of_lead = came[:, lead].ravel(), chance[:, lead].ravel()
        area = roc_auc_score(*of_lead, sample_weight=weights[:, lead].ravel())
        assert found["by_lead"]["roc_area"][lead] == pytest.approx(area, abs=1e-6)
    count = np.rint(10 * chance).astype(int)
    of_tenth = [weights[np.minimum(count, 9) == tenth].sum() / weights.sum() for tenth in range(10)]
    assert found["reliability"]["share"] == pytest.approx(of_tenth, abs=1e-6)
    assert found["reliability"]["probability"][:9] == pytest.approx(np.arange(9) / 10, abs=1e-6)
    for least in (0.1, 0.3, 0.8):  # a share exactly at a ratio of cost to loss acts
        warned = count >= round(10 * least)
        paid = (weights * (least * warned + (~warned & came))).sum()
        never, always, best = ((weights * of).sum() for of in (came, least, least * came))
        value, place = (min(never, always) - paid) / (min(never, always) - best), round(20 * least) - 1
        assert found["warnings"]["value"]["value"][place] == pytest.approx(value, abs=1e-6)
        hits = (weights * (warned & came)).sum() / (weights * came).sum()
        assert found["warnings"]["curve"]["hit_rate"][place] == pytest.approx(hits, abs=1e-6)
    matched = found["warnings"]["as_frequent"]["probability"]
    assert 10 * matched == pytest.approx(round(10 * matched), abs=1e-5)  # a share, not the edge of a step


def test_members_that_differ_in_number_are_shares_of_their_own() -> None:
    random = np.random.default_rng(1)
    came, dates = came_of(random), np.arange(len(DATES))
    parts = []
    for positions, members in ((dates[:15], 10), (dates[15:], 51)):
        chance = (random.binomial(members, 0.4, came[positions].shape) / members).astype(np.float32)
        parts.append((positions, chance, members))
    tables = tables_of({"some": parts}, came)
    chance = np.concatenate([chance for _, chance, _ in parts])
    cases, years = cases_by(tables, "rain", "year")
    assert years == ["2003"]
    step = np.concatenate([100 * np.rint(n * of).astype(int) // n for _, of, n in parts])
    for step_of_ten in (0, 10, 30, 31, 100):
        at = step == step_of_ten
        assert cases.total[0, 0, step_of_ten] == pytest.approx((WEIGHTS * at).sum(), abs=1e-4)
        assert cases.chance[0, 0, step_of_ten] == pytest.approx((WEIGHTS * at * chance).sum(), abs=1e-4)
    excess = [(of * (1 - of) / (n - 1) * WEIGHTS).sum((1, 2)) / LEADS for _, of, n in parts]
    brier = brier_of(tables, "rain")
    difference = (brier["brier"] - brier["brier_fair"]).mean("lead").squeeze("forecaster")
    np.testing.assert_allclose(difference, np.concatenate(excess), atol=1e-6)


def test_the_frequency_of_the_scored_years_is_a_forecaster_of_its_own() -> None:
    random = np.random.default_rng(2)
    came = came_of(random)
    chance = random.random(came.shape).astype(np.float32)
    tables = tables_of({"some": [(np.arange(len(DATES)), chance, 1)]}, came)
    came_sum, defined = (tables[f"rain_{name}_by_date"] for name in ("came", "defined"))
    fields = with_scored_years(brier_of(tables, "rain"), came_sum, defined, ["init_time", "lead"])
    rate = (came * WEIGHTS).sum() / WEIGHTS.sum() / came[..., 0].size
    mean = (
        fields["brier"].sel(forecaster=SCORED_YEARS).mean() / fields["defined"].sel(forecaster=SCORED_YEARS).mean()
    )
    assert float(mean) == pytest.approx(rate * (1 - rate), abs=1e-6)


def test_dates_that_a_compared_system_lacks_are_compared_by_none() -> None:
    values = xr.DataArray(np.ones((2, 6, 2)), dims=("system", "init_time", "lead"))
    values = values.assign_coords(system=["one", "other"], init_time=DATES[:6], lead=[1, 2])
    values[0, 2] = np.nan
    values[:, :, 1] = np.nan  # a lead that nobody has
    common = on_common_dates(values)
    assert common["init_time"].values.tolist() == np.delete(DATES[:6], 2).tolist()
    assert Loss.of("score", values).values.identical(values)


def test_a_forecaster_without_some_dates_takes_none_from_another() -> None:
    random = np.random.default_rng(3)
    came, dates = came_of(random), np.arange(len(DATES))
    chance = random.random(came.shape).astype(np.float32)
    late = dates[23:]
    tables = tables_of({"all": [(dates, chance, 1)], "late": [(late, chance[late], 1)]}, came)
    found = scores(tables, "rain", "all")
    for name, own in (("all", dates), ("late", late)):
        weights = np.broadcast_to(WEIGHTS, came[own].shape).ravel()
        brier = brier_score_loss(came[own].ravel(), chance[own].ravel(), sample_weight=weights)
        assert found[name]["brier"] == pytest.approx(brier, abs=1e-6)
