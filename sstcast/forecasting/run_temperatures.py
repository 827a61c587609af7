"""The temperatures of a run: RUN/temperatures.json, those that its last forecast was asked for."""

from sstcast.extremes.above import Temperatures
from sstcast.forecasting.run_places import content_of_copy, keep_copy
from sstcast.log import LOG
from sstcast.runs import Run

REMEDY = "delete it, and give them with --above and --below"


def temperatures_for(
    run: Run, above: tuple[float, ...] | None = None, below: tuple[float, ...] | None = None
) -> Temperatures:
    """Return the temperatures above and below which days are to be forecast.

    Args:
        run: the run, or one of its results on another ocean.
        above, below: those that a command was given, in degC, if any. Without a number, there are none from then
            on.

    Those that were not given are those of the run, and a line tells of them. Raises SSTCastError if
    RUN/temperatures.json is not the file that was written.
    """
    content = content_of_copy(run.trained.temperatures, REMEDY)
    given = Temperatures(*(() if levels is None else levels for levels in (above, below)))
    kept = Temperatures(
        *(
            tuple(content.get(side, ())) if levels is None else ()
            for side, levels in (("above", above), ("below", below))
        )
    )
    if any(kept):
        words = [f"{side} {', '.join(f'{level:g}' for level in of)}" for side, of in kept._asdict().items() if of]
        LOG.info(f"temperatures of {run.trained.folder}: {', '.join(words)} degC, {content['date']}")
    return Temperatures(*(own or of_run for own, of_run in zip(given, kept, strict=True)))


def keep_temperatures(run: Run, temperatures: Temperatures) -> None:
    """Keep the temperatures that a forecast of the run's own ocean was for, or that there are none."""
    content = {side: list(levels) for side, levels in temperatures._asdict().items()}
    keep_copy(run.temperatures, content if any(temperatures) else None, "temperatures", REMEDY)
