"""Table 5 beside the paper's numbers, as text."""

from collections.abc import Sequence
from statistics import mean, stdev

from sstcast.pages.text import Sheet
from sstcast.papers.table5 import PUBLISHED, Found, gains

HEADER = {28: "4 weeks", 14: "2 weeks", 7: "1 week"}


def table5_sheets(found: Found, horizons: Sequence[int]) -> list[Sheet]:
    """Return the errors of systems and baselines and, where known, what the virtual node saves; ours, theirs."""
    header = [cell for horizon in horizons for cell in (f"{_ahead(horizon)}: paper", "here")]
    rows = [
        (name, [cell for n in horizons for cell in (_published(name, n), _error(errors.get(n, [])))])
        for name, errors in found.items()
    ]
    saved = gains(found)
    cells = [_share(share) for n in horizons for share in saved.get(n, (None, None))]
    title = "Mean squared error of standardised anomalies; ± is the standard deviation over seeds"
    sheets = [Sheet(title, header, rows)]
    if set(cells) != {"-"}:
        sheets.append(Sheet("Share of MPNN's error that the virtual node saves", header, [("mpnn-vn", cells)]))
    return sheets


def _ahead(horizon: int) -> str:
    return HEADER.get(horizon, f"{horizon} day{'s' * (horizon > 1)}")


def _published(name: str, horizon: int) -> str:
    value = PUBLISHED.get(name, {}).get(horizon)
    return "-" if value is None else f"{value:.4f}"


def _error(errors: list[float]) -> str:
    spread = f" ± {stdev(errors):.4f}" if len(errors) > 1 else ""
    return f"{mean(errors):.4f}{spread}" if errors else "-"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"
