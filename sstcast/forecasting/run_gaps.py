"""The gaps of a run: RUN/gaps.json, up to how many missing days its forecasts fill after its validation."""

from sstcast.forecasting.run_places import content_of_copy, keep_copy
from sstcast.log import LOG
from sstcast.reading.daily_field import source_of
from sstcast.reading.gaps import CUT
from sstcast.reading.reading import open_region
from sstcast.runs import Run

REMEDY = "delete it, and give the number with --gaps"


def gaps_for(run: Run, given: int | None = None) -> int:
    """Return up to how many missing days a forecast fills, 0 for no more than `data.gaps`.

    Args:
        run: the run, or one of its results on another ocean.
        given: the number that a command was given, if any.

    A number that was not given is that of the run, and a line tells of it. Raises SSTCastError if RUN/gaps.json is
    not the file that was written.
    """
    content = content_of_copy(run.trained.gaps, REMEDY)
    if given is not None or not content:
        return given or 0
    LOG.info(f"gaps of {run.trained.folder}: {content['gaps']} days, {content['date']}")
    return int(content["gaps"])


def keep_gaps(run: Run, gaps: int) -> None:
    """Keep the number of missing days that a forecast of the run's own ocean filled, or that there is none."""
    keep_copy(run.gaps, {"gaps": gaps} if gaps else None, "gaps", REMEDY)


def told_of_stores(run: Run, gaps: int) -> str:
    """Return the line that says which days the stores of a run lack, as only forecasts fill `gaps`, or ""."""
    data = run.config.data
    if not source_of(data.source).exists():
        return ""
    with open_region(data) as sst:
        last, cut = sst.indexes["time"][-1].date(), sst.attrs.get(CUT)
    if not cut:
        return ""
    stores = f"climatology and fits read no day after {last}, because {cut}"
    return f"{run.folder}: {stores}; training again with data.gaps: {gaps} goes beyond it"
