"""What the public functions have in common: how they read their arguments, and what they return."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypedDict, TypeVar

from sstcast.errors import SSTCastError
from sstcast.storage.paths import expand_user

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

    from sstcast.config import FieldSource, RunConfig
    from sstcast.places.places import Places
    from sstcast.places.point_observations import PointObservations
    from sstcast.scores.asked import Asked

Function = TypeVar("Function", bound=Callable[..., Any])
T = TypeVar("T")
NONE = "none"  # in place of a file of places, or of temperatures
Seeds = str | int | Sequence[int] | None


class Result(NamedTuple, Generic[T]):
    """The result of a function: its value, the file that holds it, and whether this call wrote the file."""

    value: T
    path: Path
    new: bool


class Scored(Result[dict[str, Any]]):
    """The scores of a run, a file or a hindcast, as `metrics.json` holds them, and as a table."""

    @property
    def table(self) -> pd.DataFrame:
        """The errors of all systems, a row each, and their comparison with the reference."""
        from sstcast.figures.answers import label_of, table_of_systems

        return table_of_systems(self.value, label_of(self.value, self.path.parent))


class Verified(TypedDict, total=False):
    """The keyword arguments of `asked_of`, which describes them."""

    places: Sequence[Path | str] | Path | str
    observations: Path | str | None
    observation_error: float
    observation_units: str | None
    platforms: str | None
    hours: str | None
    events: bool
    above: str | float | Sequence[float] | None


def asked_of(
    *,
    places: Sequence[Path | str] | Path | str = (),
    observations: Path | str | None = None,
    observation_error: float = 0.3,
    observation_units: str | None = None,
    platforms: str | None = None,
    hours: str | None = None,
    events: bool = False,
    above: str | float | Sequence[float] | None = None,
) -> Asked:
    """Read what is verified besides the forecasts of every cell.

    Args:
        places: also score the means of the places in these files, CSV with the columns `name`, `lat`, `lon`, or
            GeoJSON with points and polygons.
        observations: also score against observations at points, in a CSV or NetCDF file with the columns
            `time`, `lat`, `lon` and `sst`, and perhaps `platform`, `platform_type`, `depth` and `quality`.
        observation_error: standard deviation of an observation from the mean of its cell and day in degC.
        observation_units: units of the observations, for instance `K`, in place of those in the file.
        platforms: types or names of platforms, separated by commas, for instance `drifter`; by default all.
        hours: use only observations at these hours of local time, for instance `20..6`.
        events: also score warnings of heatwaves: whether an event came within the horizon, and when.
        above: also score the probability of a day above these temperatures in degC, for instance `28,29.5`; in
            Python also numbers.

    Raises SSTCastError if a file cannot be read.
    """
    from sstcast.extremes.above import temperatures
    from sstcast.scores.asked import Asked

    points = read_observations(observations, observation_error, platforms, hours, observation_units)
    return Asked(read_places(places) or None, points, events, temperatures(above))


def takes_verified(function: Function) -> Function:
    """Show the arguments in `**asked` of a function as its own, in its signature and in its docstring."""
    shared, signature = inspect.signature(asked_of).parameters, inspect.signature(function)
    own = [parameter for parameter in signature.parameters.values() if parameter.kind is not parameter.VAR_KEYWORD]
    function.__signature__ = signature.replace(parameters=[*own, *shared.values()])  # type: ignore[attr-defined]
    before, args, after = (function.__doc__ or "").partition("Args:\n")
    listed, blank, rest = after.partition("\n\n")
    texts = inspect.cleandoc(asked_of.__doc__ or "").partition("Args:\n")[2].partition("\n\n")[0]
    indented = "\n".join(f"    {line}" for line in texts.splitlines())
    function.__doc__ = f"{before}{args}{listed}\n{indented}{blank}{rest}"
    return function


def as_config(
    config: RunConfig | Path | str,
    overrides: Sequence[str] = (),
    source: xr.Dataset | xr.DataArray | None = None,
    predictors: Mapping[str, xr.Dataset | xr.DataArray] | None = None,
) -> RunConfig:
    """Return a configuration unchanged, or read it from a path with `overrides`.

    An object as `source` stands for the one that the configuration names, or replaces its source, and so do those
    of the `predictors`. Raises SSTCastError if overrides come with a configuration, or a predictor is unknown.
    """
    from sstcast.config import load_config

    if isinstance(config, (str, Path)):
        config = load_config(expand_user(config), listed(overrides))
    elif overrides:
        raise SSTCastError(f"overrides: {overrides[0]}: pass it to load_config, which made this configuration")
    if predictors is not None:
        config = _with_sources(config, predictors)
    if source is None:
        return config
    from sstcast.reading.xarray_objects import hold, is_object, name_of

    name = name_of(source)
    if is_object(config.data.source) and not isinstance(source, (str, PathLike)):
        name = hold(source, config.data.source)
    return config.model_copy(update={"data": config.data.model_copy(update={"source": name})})


def trainable(
    config: RunConfig | Path | str,
    overrides: Sequence[str] = (),
    source: xr.Dataset | xr.DataArray | None = None,
    predictors: Mapping[str, xr.Dataset | xr.DataArray] | None = None,
) -> RunConfig:
    """Return the configuration as `as_config` does. Raises SSTCastError also if its model cannot be built."""
    from sstcast.training.train import check_model

    run_config = as_config(config, overrides, source, predictors)
    try:
        check_model(run_config)
    except SSTCastError as error:
        name = config if isinstance(config, (str, Path)) else run_config.name
        raise SSTCastError(f"{name}: {error}") from None
    return run_config


def _with_sources(config: RunConfig, predictors: Mapping[str, xr.Dataset | xr.DataArray]) -> RunConfig:
    """Return a configuration whose predictors have the given objects as sources."""
    from sstcast.reading.xarray_objects import check_by_name, hold, is_object, name_of
    from sstcast.storage.yaml_files import suggest

    check_by_name(predictors)
    known = dict(config.data.predictors)
    for name, values in predictors.items():
        if name not in known:
            raise SSTCastError(f"predictors: data.predictors has no {name}{suggest(name, known)}; add it")
        is_held = is_object(known[name].source) and not isinstance(values, (str, PathLike))
        source = hold(values, known[name].source) if is_held else name_of(values)
        known[name] = known[name].model_copy(update={"source": source})
    return config.model_copy(update={"data": config.data.model_copy(update={"predictors": known})})


def listed(values: Any) -> list[Any]:
    """Return one text, path or run as a list of one, and several as a list."""
    return [values] if isinstance(values, (str, PathLike)) else list(values)


def names_in(names: Any) -> list[str]:
    """Return names separated by commas, or in a list, each once. Paths are not divided."""
    given = [
        text for name in listed(names) for text in (name.split(",") if isinstance(name, str) else [str(name)])
    ]
    return list(dict.fromkeys(text.strip() for text in given))


def expand_path(path: PathLike[str] | str | None) -> Path | None:
    """Expand `~` in a path, and pass None through."""
    return None if path is None else expand_user(path)


def field_source(
    source: Path | str | xr.Dataset | xr.DataArray | None = None, **keys: str | int | None
) -> FieldSource:
    """Describe where days come from, with the region and how to read them, by the keys that are not None."""
    from sstcast.config import FieldSource
    from sstcast.storage.yaml_files import validate

    options: dict[str, Any] = {key: value for key, value in keys.items() if value is not None}
    if source is not None:
        from sstcast.reading.xarray_objects import name_of

        options = {"source": name_of(source), **options}
    return validate(FieldSource, options, ", ".join(f"--{key} {value}" for key, value in options.items()))


def read_gaps(gaps: int | None) -> int | None:
    """Return the number of `--gaps`, if it is given. Raises SSTCastError if it is none that a source can have."""
    return None if gaps is None else field_source(gaps=gaps).gaps


def read_alert(given: str | int | None) -> int | None:
    """Read the probability of alerts in per cent: None if it is not given, and 0 for `none`.

    Raises SSTCastError unless it is a multiple of 5 from 5 to 95.
    """
    if given is None:
        return None
    if given == NONE:
        return 0
    if str(given) not in map(str, range(5, 100, 5)):
        raise SSTCastError(f"--alert {given}: give per cent, 5, 10, 15 and so on to 95, or {NONE}")
    return int(given)


def from_pandas(data: Any) -> Any:
    """Return a pandas object with dates as index as an xarray object, and others unchanged.

    Dates stay as they are written, and several times a day are brought to UTC.

    Raises SSTCastError if its index holds no dates.
    """
    import pandas as pd

    from sstcast.places.point_files import with_units
    from sstcast.reading.fields import steps_a_day

    if isinstance(data, pd.Series):
        data = data.to_frame("sst" if data.name is None else str(data.name))
    if not isinstance(data, pd.DataFrame):
        return data
    if not isinstance(data.index, pd.DatetimeIndex):
        raise SSTCastError(f"data: its index is a {type(data.index).__name__}; give dates as index")
    of_hours = data.index.tz is not None and steps_a_day(data.index.tz_convert(None).values) > 1
    index = data.index.tz_convert(None) if of_hours else data.index.tz_localize(None)
    data, units = with_units(data.set_axis(index.rename("time")), {})
    dataset = data.to_xarray()
    for name, attributes in units.items():
        dataset[name].attrs.update(attributes)
    return dataset


def seeds_of(seeds: Seeds) -> list[int] | None:
    """Parse seeds such as `0..4`, or check those given as numbers. Pass None through."""
    from sstcast.storage.yaml_files import parse_seeds

    if seeds is None:
        return None
    return parse_seeds(str(seeds) if isinstance(seeds, (str, int)) else ",".join(map(str, seeds)))


def read_places(files: Sequence[Path | str] | Path | str | None) -> Places | None:
    """Read the places in one file or several. Return None without a file, and no place from the word `none`."""
    from sstcast.places.places import Places

    paths = [expand_user(file) for file in listed(() if files is None else files)]
    if NONE not in map(str, paths):
        return Places.read(*paths) if paths else None
    if len(paths) > 1:
        raise SSTCastError(f"--places {NONE}: leaves out all places; give it alone, or leave it out")
    return Places((), ())


def read_temperatures(given: str | float | Sequence[float] | None, option: str) -> tuple[float, ...] | None:
    """Read the temperatures of an option: None if it is not given, and none of them for `none`."""
    from sstcast.extremes.above import temperatures

    if given is None:
        return None
    return () if isinstance(given, str) and given == NONE else temperatures(given, option)


def read_observations(
    file: Path | str | None,
    error: float,
    platforms: str | None = None,
    hours: str | None = None,
    units: str | None = None,
) -> PointObservations | None:
    """Read observations at points, and log what is left out. Return None without a file."""
    if file is None:
        return None
    from sstcast.places.point_observations import PointObservations, parse_hours

    if not 0 <= error < math.inf:
        raise SSTCastError(f"--observation-error {error}: give a standard deviation in degC, for instance 0.3")
    names = [name.strip() for name in platforms.split(",")] if platforms else []
    span = None if hours is None else parse_hours(hours)
    found = PointObservations.read(expand_user(file), names, span, units, error)
    found.tell()
    return found
