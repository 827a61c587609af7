"""Formats Table 5 beside the paper's numbers."""

from collections.abc import Sequence
from statistics import stdev

import numpy as np

from sstcast.figures.sheets.sheet import Sheet, number, percent
from sstcast.papers.table5 import PUBLISHED, ErrorsBySystem, error_interval, gain_significance, gains

COLUMN_TITLES = {28: "4 weeks", 14: "2 weeks", 7: "1 week"}


def table5_sheets(results: ErrorsBySystem, horizons: Sequence[int]) -> list[Sheet]:
    """Return tables of the published and the reproduced errors, and of the gain by the virtual node if known."""
    header = [cell for horizon in horizons for cell in (f"{_ahead(horizon)}: paper", "here")]
    rows = []
    for name, errors in results.items():
        paper, cells = PUBLISHED.get(name, {}), []
        for n in horizons:
            cells += [number(paper.get(n), 4), _error(errors.get(n, []), n)]
        rows.append((name, cells))
    gains_by_horizon, cells = gains(results), []
    for n in horizons:
        paper_gain, gain = gains_by_horizon.get(n, (None, None))
        cells += [percent(paper_gain), percent(gain) + _chance(results, n)]
    title = "Mean squared error of standardised anomalies; ± over seeds, and 95 % intervals from blocks of dates"
    sheets = [Sheet(title, header, rows)]
    if set(cells) != {"-"}:
        title = "Share of MPNN's error that the virtual node saves; p by Diebold and Mariano"
        sheets.append(Sheet(title, header, [("mpnn-vn", cells)]))
    return sheets


def _ahead(horizon: int) -> str:
    return COLUMN_TITLES.get(horizon, f"{horizon} day{'s' * (horizon > 1)}")


def _error(errors: list[list[float]], horizon: int) -> str:
    if not errors:
        return "-"
    means, interval = [float(np.mean(seed)) for seed in errors], error_interval(errors, horizon)
    spread = f" ± {stdev(means):.4f}" if len(means) > 1 else ""
    dates = "" if interval is None else f", {interval[0]:.4f}-{interval[1]:.4f}"
    return f"{np.mean(means):.4f}{spread}{dates}"


def _chance(results: ErrorsBySystem, horizon: int) -> str:
    if (significance := gain_significance(results, horizon)) is None:
        return ""
    (low, high), p_value = significance
    return f", {low:.1%} to {high:.1%}, p {p_value:.2g}"
