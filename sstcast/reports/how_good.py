"""How good forecasts are, as their page says it: by the scores of the run, and those of issued forecasts."""

import json
from contextlib import suppress
from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr

from sstcast.errors import SSTCastError
from sstcast.forecasting.loaded_run import is_of_own_ocean
from sstcast.names import MODEL
from sstcast.runs import Run
from sstcast.scores.saved_scores import SavedScores
from sstcast.scores.score_files import best_climatology, errors_of
from sstcast.storage.artefacts import RECIPE, digest
from sstcast.types import Scores

WIDTH, HEIGHT = 420, 190  # of the drawing of errors, in its units
LEFT, RIGHT, TOP, BOTTOM = 34, 8, 8, 36  # margins
ERROR_STEPS = (0.05, 0.1, 0.2, 0.5, 1, 2)  # of the axis of errors, in degC
LABELLED_DAYS = (1, 7, 14, 21, 28)  # days that are labelled
CURVE_STYLES = {  # of the curve in a column of verification.csv
    "rmse": 'stroke="var(--forecast)" stroke-width="2.5"',
    "rmse_persistence": 'stroke="#d55e00" stroke-width="1.5"',
    "rmse_climatology": 'stroke="var(--soft)" stroke-width="1.5" stroke-dasharray="5 3"',
}


def scores_of(file: Path, forecast: xr.Dataset) -> SavedScores | None:
    """Return the scores of the run in whose folder a forecast of its own ocean lies, if its weights made it."""
    for run in (Run(file.parent), Run(file.parent.parent)):
        if not (run.config_file.exists() and run.metrics.exists()):
            continue
        with suppress(SSTCastError, OSError, LookupError, ValueError):
            weights = json.loads(forecast.attrs[RECIPE])["checkpoints"]
            is_own = is_of_own_ocean(forecast, run) and weights == [digest(of.best) for of in run.members]
            if is_own:
                return SavedScores.read(run.folder)
    return None


def how_good(metrics: Scores) -> str:
    """Return a sentence on the scores of a run: RMSE after a week beside climatology, and what intervals held."""
    lead = min(7, metrics["horizon"])
    names = (MODEL, best_climatology(metrics))
    rmse, of_climatology = (errors_of(metrics, name)["by_lead"]["rmse"][lead - 1] for name in names)
    years = " to ".join(dict.fromkeys(day[:4] for day in metrics["test"]))
    after = "a week" if lead == 7 else f"{lead} days"
    text = f"{metrics['forecasts']} forecasts of {years}, RMSE {rmse:.2f} °C after {after}"
    text += f" (climatology {of_climatology:.2f})"
    held = metrics["probabilities"].get(MODEL, {}).get("covered_80")
    return f"How good: {text}" + ("" if held is None else f"; 80 % intervals held {100 * held:.0f} %")


def drawing_of_errors(scores: pd.DataFrame) -> str:
    """Draw the RMSE by lead of issued forecasts, of persistence and of climatology as SVG.

    `scores` is the table of `update.verify_issued`.
    """
    leads, highest = scores.index.to_numpy(float), float(scores[[*CURVE_STYLES]].max().max())
    step = next((step for step in ERROR_STEPS if highest / step <= 5), highest)
    top, last = step * np.ceil(highest / step), max(leads[-1], 2)

    def x(lead: float) -> str:
        return f"{LEFT + (lead - 1) / (last - 1) * (WIDTH - LEFT - RIGHT):.1f}"

    def y(error: float) -> str:
        return f"{HEIGHT - BOTTOM - error / top * (HEIGHT - TOP - BOTTOM):.1f}"

    lines = [
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" role="img" fill="currentColor" font-size="12" '
        f'aria-label="RMSE of the issued forecasts from day {leads[0]:g} to {leads[-1]:g}">'
    ]
    for error in np.arange(0, top + step / 2, step):
        lines.append(f'<path d="M{LEFT} {y(error)}H{WIDTH - RIGHT}" stroke="var(--line)"/>')
        lines.append(f'<text x="{LEFT - 5}" y="{y(error)}" dy="4" text-anchor="end">{error:g}</text>')
    for lead in [lead for lead in LABELLED_DAYS if leads[0] <= lead <= leads[-1]]:
        lines.append(f'<text x="{x(lead)}" y="{HEIGHT - BOTTOM + 15}" text-anchor="middle">{lead}</text>')
    lines.append(f'<text x="{WIDTH / 2}" y="{HEIGHT - 4}" text-anchor="middle">days ahead</text>')
    for name, style in CURVE_STYLES.items():
        points = " ".join(f"{x(lead)},{y(error)}" for lead, error in scores[name].dropna().items())
        lines.append(f'<polyline points="{points}" fill="none" {style}/>')
    return "\n".join([*lines, "</svg>"])
