"""The arguments that `evaluate`, `hindcast` and `score` share: what is verified besides all cells."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar

from sstcast.api.data import read_observations, read_places

if TYPE_CHECKING:
    from sstcast.scores.asked import Asked

Function = TypeVar("Function", bound=Callable[..., Any])


class Verified(TypedDict, total=False):
    """The keyword arguments of `asked_of`, which describes them."""

    places: Path | str | None
    observations: Path | str | None
    observation_error: float
    observation_units: str | None
    platforms: str | None
    hours: str | None
    events: bool


def asked_of(
    *,
    places: Path | str | None = None,
    observations: Path | str | None = None,
    observation_error: float = 0.3,
    observation_units: str | None = None,
    platforms: str | None = None,
    hours: str | None = None,
    events: bool = False,
) -> Asked:
    """Read what is verified besides the forecasts of every cell.

    Args:
        places: also score the means of the places in this file, a CSV with the columns `name`, `lat`, `lon`, or
            GeoJSON with points and polygons.
        observations: also score against observations at points, in a CSV or NetCDF file with the columns
            `time`, `lat`, `lon` and `sst`, and perhaps `platform`, `platform_type`, `depth` and `quality`.
        observation_error: standard deviation of an observation from the mean of its cell and day in degC.
        observation_units: units of the observations, for instance `K`, in place of those in the file.
        platforms: types or names of platforms, separated by commas, for instance `drifter`; by default all.
        hours: use only observations at these hours of local time, for instance `20..6`.
        events: also score warnings of heatwaves: whether an event came within the horizon, and when.

    Raises SSTCastError if a file cannot be read.
    """
    from sstcast.scores.asked import Asked

    points = read_observations(observations, observation_error, platforms, hours, observation_units)
    return Asked(read_places(places), points, events)


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
