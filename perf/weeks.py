"""How many weeks ahead anything can be forecast, from a hindcast of 70 days.

    sstcast hindcast configs/linear/local-memory-stencil.yaml --years 1997:2016 --fold 4 --set data.horizon=70 \
        --out runs/weeks
    python perf/weeks.py runs/weeks [FIGURE.png]

Prints, by lead week, the squared error, the CRPS and the ranked probability score of thirds of weekly means, each
over that of the climatology with a trend, and the week up to which a system is better. An asterisk marks better
and worse. The last score is also compared with the base rates of the scored years, which nobody knew before. Draws
all as skill.
"""

import datetime as dt
import sys
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

import sstcast
from sstcast.figures.curves import BAND_ALPHA, legend, style_axes, styles_of
from sstcast.figures.sheets.sheet import marked
from sstcast.names import DEGREES, SCORED_YEARS
from sstcast.scores.saved_scores import SavedScores
from sstcast.scores.score_files import part_of
from sstcast.scores.significance import BETTER, verdict

REFERENCE = "trend climatology"
SYSTEMS = ("local-memory-stencil", "multiscale ridge", "damped persistence", "recent climatology", "climatology")
LOSSES = {"mse": "Squared error", "crps": "CRPS", "rps": "RPS of thirds"}


def main() -> None:
    folder, *images = map(Path, sys.argv[1:])
    metrics = SavedScores.read(folder).again(REFERENCE).metrics
    weeks = np.arange(1, 1 + -(-metrics["horizon"] // 7))
    own = {
        "mse": metrics["scores"][REFERENCE][DEGREES],
        "crps": metrics["probabilities"][REFERENCE],
        "rps": metrics["terciles"]["scores"][REFERENCE],
    }
    print(f"sstcast {sstcast.__version__}, {dt.date.today()}, {metrics['forecasts']} forecasts\n")
    print("| | system | " + " | ".join(f"week {week}" for week in weeks) + " | better up to week |")
    print("|---" * (3 + len(weeks)) + "|")
    compared = {(loss, name): metrics["ratios"][loss][name][REFERENCE] for loss in LOSSES for name in SYSTEMS}
    for loss, words in LOSSES.items():
        values = own[loss]["by_week"][loss]
        print(f"| {words} | {REFERENCE} | " + " | ".join(f"{value:.3f}" for value in values) + " | |")
        for name in SYSTEMS:
            parts = [part_of(compared[loss, name], "by_week", week - 1) for week in weeks]
            last = len(list(takewhile(lambda part: verdict(part) == BETTER, parts)))
            print(f"| ratio | {name} | {' | '.join(map(marked, parts))} | {last or 'none'} |")
    known = metrics["ratios"]["rps"][SYSTEMS[0]][SCORED_YEARS]
    cells = [marked(part_of(known, "by_week", week - 1)) for week in weeks]
    print(f"| ratio to {SCORED_YEARS} | {SYSTEMS[0]} | {' | '.join(cells)} | |")
    for image in images:
        draw(compared, weeks).savefig(image)


def draw(compared: dict[tuple[str, str], dict[str, Any]], weeks: np.ndarray) -> Figure:
    """Draw the skill of each system by lead week in a panel for each score, with the interval of the first."""
    figure = Figure(figsize=(9, 3.4), dpi=150, layout="constrained")
    styles = styles_of(SYSTEMS)
    for ax, (loss, words) in zip(figure.subplots(1, len(LOSSES), sharex=True), LOSSES.items(), strict=True):
        for name in SYSTEMS:
            skill = 1 - np.array(compared[loss, name]["by_week"]["ratio"], float)
            ax.plot(weeks, skill, label=name if loss == "mse" else None, **styles[name])
        low, high = 1 - np.array(compared[loss, SYSTEMS[0]]["by_week"]["interval"], float).T
        ax.fill_between(weeks, low, high, color=styles[SYSTEMS[0]]["color"], alpha=BAND_ALPHA, linewidth=0)
        ax.axhline(0, color="0.2", linewidth=0.8)
        ax.set(title=words, xlabel="Lead week", xticks=weeks)
        style_axes(ax)
    figure.axes[0].set_ylabel(f"Skill over {REFERENCE}")
    legend(figure)
    return figure


if __name__ == "__main__":
    main()
