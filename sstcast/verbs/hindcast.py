"""The command `hindcast`."""

from pathlib import Path
from typing import Annotated

import typer

from sstcast.finished import Finished
from sstcast.verbs import Set


def hindcast(
    configs: Annotated[list[Path], typer.Argument(help="YAMLs of the systems.", metavar="CONFIG...")],
    years: Annotated[str, typer.Option(help="First and last year to forecast, for instance 1997:2016.")],
    fold: Annotated[int, typer.Option(min=1, help="Test years per training.")] = 4,
    validation: Annotated[int, typer.Option(min=1, help="Validation years before the test years.")] = 2,
    every: Annotated[int, typer.Option(min=1, max=366, help="Days from one initial date to the next.")] = 3,
    seeds: Annotated[str | None, typer.Option(help="Make each network an ensemble, for instance 0..2.")] = None,
    combine: Annotated[
        str | None, typer.Option(help="Score the systems' weighted mean too, under this name.", metavar="NAME")
    ] = None,
    average: Annotated[str | None, typer.Option(help="The same with equal weights.", metavar="NAME")] = None,
    out: Annotated[Path | None, typer.Option(help="Its folder; by default runs/hindcast-YEARS.")] = None,
    set_: Set = None,
    jobs: Annotated[int, typer.Option(min=1, max=1000, help="Number of runs trained in parallel.")] = 1,
    scheduler: Annotated[
        str | None, typer.Option(help="A dask cluster that sees the same files, for instance tcp://host:8786.")
    ] = None,
) -> None:
    """Train systems on earlier years only, forecast many years, score them together; resume if interrupted."""
    from sstcast.config import load_config
    from sstcast.hindcasts.folds import Protocol
    from sstcast.hindcasts.hindcast import hindcast
    from sstcast.hindcasts.plan import Hindcast, Plan
    from sstcast.pages.hindcast import print_hindcast
    from sstcast.validation import parse_seeds
    from sstcast.verbs.watched import HINDCAST, below, config_files, source_files

    done = Finished(*(file for config in configs for file in config_files(config)))
    protocol = Protocol.parse(years, fold, validation, every)
    folder = Hindcast(out or Path("runs") / f"hindcast-{protocol.first}-{protocol.last}")
    systems = [load_config(config, set_) for config in configs]
    done.watch(*(file for system in systems for data in system.oceans for file in source_files(data.source)))
    plan = Plan(folder, protocol, systems, parse_seeds(seeds) if seeds is not None else [], combine, average)
    metrics, new = hindcast(plan, jobs, scheduler)
    text = print_hindcast(metrics, folder.folder.name) + f"{folder.metrics}: nothing to do\n"
    print(f"{folder.metrics}: {'written' if new else 'nothing to do'}")
    written = [file for system in plan.scored for file in below(folder.folder / system.name, "**")]
    done.remember(text, *written, *below(folder.folder, *HINDCAST))
