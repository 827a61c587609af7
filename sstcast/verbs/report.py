"""The command `report`."""

from pathlib import Path
from typing import Annotated

import typer

from sstcast.finished import Finished


def report(
    run: Annotated[
        Path, typer.Argument(help="A run, a hindcast or scores, for instance runs/demo.", metavar="RUN")
    ],
) -> None:
    """Write all results of a run, of a hindcast, or of forecasts scored, to one page."""
    from sstcast.hindcasts.plan import Hindcast
    from sstcast.pages.hindcast import write_hindcast_report
    from sstcast.pages.report import write_report, write_scored_report
    from sstcast.pages.text import print_metrics
    from sstcast.runs import Run
    from sstcast.scores.evaluate import evaluate
    from sstcast.scores.score import Scored
    from sstcast.verbs.watched import HINDCAST, SCORED, below, run_files, scored_files

    done, text, scored = Finished(), "", below(run, *HINDCAST, *SCORED)
    if Hindcast(run).metrics.exists():
        done.watch(*scored)
        page, new = write_hindcast_report(Hindcast(run))
    elif Scored(run).exists:
        done.watch(*scored)
        page, new = write_scored_report(Scored(run))
    else:
        opened = Run.open(run)
        done.watch(*run_files(opened))
        page, new = write_report(opened)
        text, scored = print_metrics(evaluate(opened)[0], run.name), scored_files(opened)
    print(f"{page}: {'written' if new else 'nothing to do'}")
    done.remember(f"{text}{page}: nothing to do\n", *scored, *below(run, "report.html"))
