"""The verb `score`: anyone's forecasts, from a file, scored like a run's."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from sstcast import __version__
from sstcast.artefacts import fingerprint, locked
from sstcast.config import DataConfig
from sstcast.errors import SSTCastError
from sstcast.forecasting.files import DAY, Forecasts, read_forecasts
from sstcast.forecasting.predictor import predictor_of
from sstcast.forecasting.spread import ValidationDays, calibrated, fitted_baselines
from sstcast.names import MODEL, STRONGEST
from sstcast.ocean.grid import at_cells, on_cells
from sstcast.ocean.prepare import prepare
from sstcast.ocean.prepared import Prepared, check_data
from sstcast.runs import Run
from sstcast.scores.evaluate import BASELINE
from sstcast.scores.issued import Issued, IssuedSpread, Shortened, complete
from sstcast.scores.saved import Scored, recipe_of_scores
from sstcast.scores.significance import Lengths, spacing
from sstcast.scores.summary import finish, head, summarise
from sstcast.scores.truth import data_of, span, within
from sstcast.scores.verification import Verification
from sstcast.scores.verify import System, join, verify

Say = Callable[[str], object]


def score(
    path: Path,
    truth: str | None = None,
    against: Sequence[Run] = (),
    region: str | None = None,
    out: Path | None = None,
    variable: str | None = None,
    units: str | None = None,
    leads: int | None = None,
    say: Say = print,
) -> tuple[dict[str, Any], Scored, bool]:
    """Score the forecasts in a file beside the baselines, and write `scores.nc` and `metrics.json`.

    Args:
        path: a NetCDF file, a Zarr store, or a folder of these (see `sstcast.forecasting.files`).
        truth: a source of daily temperatures, or a YAML that names one; by default the first run's source.
        against: runs that forecast the same days, as references.
        region: a name or `W,E,S,N`; by default the run's, or all cells of the truth that the file covers
            (`truth.data_of` says what follows from these).
        out: the folder; by default beside the file, with `-scores` after its name.
        variable, units: of the temperatures, for files that do not say.
        leads: score the first days only.
        say: gets a line for what was found and prepared.

    Returns the metrics, the folder, and False if it held them already. Raises SSTCastError if file, truth, region
    or runs are unusable, or do not fit together.
    """
    path = path if path.name else path.resolve()  # the folder that one is in
    scored = Scored(path.with_name(f"{path.name}-scores") if out is None else out if out.name else out.resolve())
    if not scored.folder.name:
        raise SSTCastError(f"--out {out}: is the root of the disk; name a folder")
    if Run(scored.folder).config_file.exists() or scored.folder.is_file():
        raise SSTCastError(f"--out {scored.folder}: is a file, or the folder of a run; name another")
    if scored.folder.resolve().is_relative_to(path.resolve()):
        raise SSTCastError(f"--out {scored.folder}: is in {path}, which is to be read; name another")
    forecasts = read_forecasts(path, variable, units)
    ahead = forecasts.sst["lead"].values
    horizon = min(
        [int(ahead[-1]), *(run.config.data.horizon for run in against), *([leads] if leads is not None else [])]
    )
    if horizon < ahead[0]:
        raise SSTCastError(
            f"{path}: the first day forecast is {ahead[0]} days ahead, beyond the {horizon} days that are scored; "
            "choose others"
        )
    data = data_of(forecasts, truth, against, region, horizon)
    prepare(data, say)
    for run in against:
        if _is_home(run, data):
            check_data(run)
    recipe = recipe_of_scores() | {
        "sstcast": __version__,
        "file": fingerprint(path),
        "read_as": [variable, units],
        "data": data.model_dump(mode="json"),
        "record": Prepared.of(data).record().model_dump(),
        "against": {str(run.folder): run.digest for run in against},
    }
    with locked(scored.folder):
        if (known := scored.known(recipe)) is not None:
            return known, scored, False
        scored.folder.mkdir(exist_ok=True)
        return _score(forecasts, data, against, scored, recipe, say), scored, True


def _score(
    forecasts: Forecasts,
    data: DataConfig,
    against: Sequence[Run],
    scored: Scored,
    recipe: dict[str, Any],
    say: Say,
) -> dict[str, Any]:
    path, (cube, anomalies) = forecasts.path, Prepared.of(data).open()
    sst, how = on_cells(forecasts.sst, anomalies, data.box, path)
    first, last = np.array(data.splits.test, "datetime64[ns]")
    sst = sst.sel(lead=slice(data.horizon))
    shared = within(sst["init_time"].values, first, last, data.history, data.horizon)
    spread = None if forecasts.spread is None else at_cells(forecasts.spread, anomalies)
    usable = sst if spread is None else sst.where(spread.notnull())
    dates, known = complete(usable.sel(init_time=shared), anomalies["ocean_mask"].load(), path)
    if not len(dates):
        raise SSTCastError(
            f"{path}: none of its {sst.sizes['init_time']} forecasts, {span(sst['init_time'].values)}, can be "
            f"verified for {data.horizon} days with {data.source}, {span(np.array([first, last]))}; give another "
            "--truth, or fewer --leads"
        )
    truth = Verification.open(data).at(dates, known, sst["lead"].values)
    every = spacing(dates)
    block = Lengths.of(data.horizon, every).block
    enough = len(dates) >= 2 * block
    ocean, base = int(truth.ocean.sum()), "..".join(map(str, data.splits.base))
    some = (
        "" if truth.daily else f"; leads {', '.join(map(str, truth.leads))}, without heatwaves and distributions"
    )
    notes = [
        forecasts.note,
        how,
        f"{len(dates)} of {sst.sizes['init_time']} forecasts, {every} day(s) apart, for {data.horizon} days, can "
        f"be verified; all have {ocean} of {int(anomalies['ocean_mask'].sum())} ocean cells",
        f"climatology of {base}"
        + ("" if enough else f"; too few dates for intervals, which need {2 * block}")
        + some,
    ]
    for note in notes:
        say(f"{path}: {note}")
    fitted, spreads = fitted_baselines(ValidationDays(data))
    issued = System(Issued(path, sst, truth.statistics, data), members=sst.sizes["member"])
    if spread is not None:
        correlation = spreads[STRONGEST].correlation
        issued = issued._replace(spread=IssuedSpread(path, spread.sel(lead=slice(data.horizon)), correlation))
    references = {name: System(fitted[name], spreads[name]) for name in fitted}
    names = {}
    for run in against:
        name = run.folder.name if run.folder.name not in references else str(run.folder)
        names[str(run.folder)] = name
        whole = data.model_copy(update={"horizon": run.config.data.horizon})
        own = calibrated(run, whole)
        own = replace(own, correlation=own.correlation[: data.horizon, : data.horizon])
        references[name] = System(Shortened(predictor_of(run, whole), data.horizon), own, len(run.members))
    if not truth.daily:
        issued = issued._replace(spread=None)
        references = {name: system._replace(spread=None) for name, system in references.items()}
    folds = [verify({MODEL: issued}, truth, references, label=path.name)]
    tables = finish(join(folds), [MODEL], list(references))
    system = {"model": "forecasts of a file", "members": sst.sizes["member"], "trained_on": None}
    metrics = {
        "kind": "file",
        "file": str(path.absolute()),
        "source": str(cube.attrs["source"]),
        "data": recipe["record"],
        **head(data, tables),
        "test": [str(day) for day in (dates[[0, -1]] + [DAY, data.horizon * DAY]).astype("datetime64[D]")],
        "notes": notes,
        "references": names,
        "systems": {MODEL: system, **dict.fromkeys(references, BASELINE)},
        **summarise(tables, STRONGEST),
    }
    more = {"title": f"Scores of {path.name}", "comment": "; ".join(notes)}
    return scored.write(tables, metrics, recipe, data.protocol, **more)


def _is_home(run: Run, data: DataConfig) -> bool:
    """Return whether a run is scored on the data that its record identifies."""
    own = run.config.data
    return (own.source, own.box) == (data.source, data.box)
