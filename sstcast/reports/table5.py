"""Formats Table 5 beside the paper's numbers."""

from collections.abc import Sequence
from statistics import stdev

import numpy as np

from sstcast.figures.tables import Sheet, number, percent
from sstcast.papers.table5 import PUBLISHED, Found, error_interval, gain_significance, gains

HEADER = {28: "4 weeks", 14: "2 weeks", 7: "1 week"}


def table5_sheets(found: Found, horizons: Sequence[int]) -> list[Sheet]:
    """Return tables of the published and the reproduced errors, and of the gain by the virtual node if known."""
    header = [cell for horizon in horizons for cell in (f"{_ahead(horizon)}: paper", "here")]
    rows = []
    for name, errors in found.items():
        paper, cells = PUBLISHED.get(name, {}), []
        for n in horizons:
            cells += [number(paper.get(n), 4), _error(errors.get(n, []), n)]
        rows.append((name, cells))
    saved, cells = gains(found), []
    for n in horizons:
        theirs, ours = saved.get(n, (None, None))
        cells += [percent(theirs), percent(ours) + _chance(found, n)]
    title = "Mean squared error of standardised anomalies; ± over seeds, and 95 % intervals from blocks of dates"
    sheets = [Sheet(title, header, rows)]
    if set(cells) != {"-"}:
        title = "Share of MPNN's error that the virtual node saves; p by Diebold and Mariano"
        sheets.append(Sheet(title, header, [("mpnn-vn", cells)]))
    return sheets


def _ahead(horizon: int) -> str:
    return HEADER.get(horizon, f"{horizon} day{'s' * (horizon > 1)}")


def _error(errors: list[list[float]], horizon: int) -> str:
    if not errors:
        return "-"
    means, interval = [float(np.mean(seed)) for seed in errors], error_interval(errors, horizon)
    spread = f" ± {stdev(means):.4f}" if len(means) > 1 else ""
    dates = "" if interval is None else f", {interval[0]:.4f}-{interval[1]:.4f}"
    return f"{np.mean(means):.4f}{spread}{dates}"


def _chance(found: Found, horizon: int) -> str:
    if (known := gain_significance(found, horizon)) is None:
        return ""
    (low, high), p_value = known
    return f", {low:.1%} to {high:.1%}, p {p_value:.2g}"
