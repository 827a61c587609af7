"""What a hindcast is drawn as: ratios by lead, and maps of skill."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from sstcast import __version__
from sstcast.artefacts import digest, is_made_of, locked
from sstcast.hindcasts.files import Hindcast
from sstcast.names import DEGREES
from sstcast.pages.former import read_hindcast
from sstcast.pages.images import write_png
from sstcast.pages.maps import SLIDE, Room, draw_weeks
from sstcast.pages.projection import DEFAULT_PROJECTION
from sstcast.pages.text import week_ends
from sstcast.scores.metrics import skill
from sstcast.scores.significance import FDR

Scores = dict[str, Any]

ACROSS, PANEL = 3, (2.6, 2.0)  # panels of a row, and inches of each
HIGHEST = 1.2  # ratio that panels show: those worth telling apart are near 1


@dataclass(frozen=True)
class Skill:
    """Maps of a system's skill against the best linear one, by lead week; `draw` takes the room there is."""

    system: str
    caption: str
    alt: str
    draw: Callable[[Room], Figure]


def draw_hindcast(
    hindcast: Hindcast, projection: str = DEFAULT_PROJECTION, say: Callable[[str], object] = print
) -> list[Path]:
    """Draw a hindcast to `maps/ratio-by-lead.png` and `maps/skill-SYSTEM.png`; `say` gets a line for each.

    Files that were drawn of the same scores in the same way are kept. Raises SSTCastError if there are no scores,
    or cartopy knows no such projection.
    """
    metrics, folder = read_hindcast(hindcast), hindcast.folder / "maps"
    recipe = {"sstcast": __version__, "scores": digest(hindcast.metrics), "projection": projection}
    with locked(hindcast.metrics):
        figures = {folder / "ratio-by-lead.png": lambda: draw_ratios(metrics)[0]}
        for each in skills(hindcast, metrics, projection):
            figures[folder / f"skill-{each.system}.png"] = partial(each.draw, SLIDE)
        if all(is_made_of(file, recipe) for file in figures):
            say(f"{folder}: nothing to do")
            return list(figures)
        drawn = {file: draw() for file, draw in figures.items()}  # all of them, before one is written
        for file, figure in drawn.items():
            write_png(figure, file, recipe)
            say(str(file))
    return list(figures)


def draw_ratios(metrics: Scores) -> tuple[Figure, str]:
    """Draw each system's ratio to the best linear one by lead, a panel a system; return it in words, too."""
    others = {name: of for name, of in metrics["systems"].items() if name != metrics["reference"]}
    near = {
        name: of
        for name, of in others.items()
        if any(ratio is not None and ratio <= HIGHEST for ratio in of["by_lead"]["ratio"])
    }
    systems = near or others  # the panel of a system that is nowhere near would be empty
    rows = -(-len(systems) // ACROSS)
    columns = min(ACROSS, len(systems))
    figure = Figure((PANEL[0] * columns + 0.5, PANEL[1] * rows + 0.5), dpi=150, layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
    words, known = [], []
    for ax, (name, of) in zip(axes.flat, systems.items(), strict=False):
        ratio, ends = np.array(of["by_lead"]["ratio"], float), np.array(of["by_lead"]["interval"], float)
        leads = np.arange(1, len(ratio) + 1)
        (line,) = ax.plot(leads, ratio, color="#0072B2", marker="." if len(ratio) < 4 else None)
        ax.fill_between(leads, *ends.T, color=line.get_color(), alpha=0.2, linewidth=0)
        ax.axhline(1, color="0.2", linewidth=0.8)
        ax.set_title(name, fontsize="medium")
        ax.grid(color="0.88", linewidth=0.8)
        ax.spines[["top", "right"]].set_visible(False)
        known.append(np.concatenate([ratio, ends.ravel()]))
        words.append(f"{name} {ratio[0]:.3f} on day 1, {ratio[-1]:.3f} on day {len(ratio)}")
    for position, ax in enumerate(axes.flat):
        if position >= len(systems):
            ax.remove()
        elif position + columns >= len(systems):  # the last of its column
            ax.tick_params(labelbottom=True)
    values = np.concatenate([*known, [1.0]])
    values = values[np.isfinite(values)]
    low, high = float(values.min()), min(float(values.max()), HIGHEST)
    axes.flat[0].set_ylim(low - 0.05 * (high - low) - 1e-3, high + 0.05 * (high - low) + 1e-3)
    axes.flat[0].set_xticks(week_ends(len(next(iter(systems.values()))["by_lead"]["ratio"])))
    figure.supxlabel("Lead (days)", fontsize="medium")
    figure.supylabel(f"MSE / MSE of {metrics['reference']}", fontsize="medium")
    return figure, f"MSE over that of {metrics['reference']} by lead: {'; '.join(words)}."


def skills(hindcast: Hindcast, metrics: Scores, projection: str = DEFAULT_PROJECTION) -> Iterator[Skill]:
    """Yield the skill of each system that is no baseline, against the best linear one."""
    base = metrics["reference"]
    with hindcast.open() as opened:
        tables = opened[["mse_by_cell", "p_fdr"]].sel(units=DEGREES).isel(reference=0).load()
    label = f"1 − MSE / MSE of {base} (above 0: better)"
    told = f"not significant (false discoveries ≤ {FDR:.0%})"
    for name, of in metrics["systems"].items():
        if of["model"] is None or name == base:
            continue
        cells = tables.sel(system=name, compared=name, drop=True)
        saved = skill(cells["mse_by_cell"], tables["mse_by_cell"].sel(system=base, drop=True))

        def draw(room: Room, saved: xr.DataArray = saved, cells: xr.Dataset = cells, name: str = name) -> Figure:
            return draw_weeks(
                saved,
                label=label,
                kind="skill",
                hatched=cells["p_fdr"] > FDR,
                hatch_label=told,
                title=f"Skill of {name} over {base}",
                credit=f"Data: {metrics['source']}. Land: Natural Earth.",
                projection=projection,
                room=room,
            )

        shown = enumerate(zip(of["better"], of["worse"], strict=True), 1)
        counts = ", ".join(f"{b:.0%} and {w:.0%} in week {week}" for week, (b, w) in shown if b is not None)
        caption = (
            f"{name}: skill over {base} by lead week. Hatched: not significant by a Diebold-Mariano test with "
            f"false discoveries held at {FDR:.0%}. Cells where it is significantly better and worse: {counts}."
        )
        yield Skill(name, caption, f"Maps of {label} for {name}: {_medians(saved)}.", draw)


def _medians(field: xr.DataArray) -> str:
    medians = field.median(("lat", "lon"))
    return "; ".join(f"week {week} median {float(medians.sel(week=week)):.3f}" for week in field["week"].values)
