"""The commands that train: `train`, `hindcast` and `table5`."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from sstcast.artefacts import FIRST_PROCESS
from sstcast.errors import SSTCastError
from sstcast.sources import KNOWN
from sstcast.verbs import Set


def train(
    config: Annotated[Path | None, typer.Argument(help="The run's YAML, for instance configs/demo.yaml.")] = None,
    set_: Set = None,
    resume: Annotated[Path | None, typer.Option(help="Resume this run instead.", metavar="RUN")] = None,
    seeds: Annotated[str | None, typer.Option(help="Train an ensemble, for instance 0..4.")] = None,
    devices: Annotated[int | None, typer.Option(help="Number of devices; training.devices.")] = None,
    strategy: Annotated[str | None, typer.Option(help="auto or ddp; training.strategy.")] = None,
    precision: Annotated[str | None, typer.Option(help="auto, 32-true or bf16-mixed.")] = None,
) -> None:
    """Train a model or an ensemble; resume if it was interrupted."""
    from sstcast.ocean.prepare import prepare_all
    from sstcast.ocean.prepared import Prepared
    from sstcast.training.train import plan, train, training_windows

    flags = {"devices": devices, "strategy": strategy, "precision": precision}
    chosen = [f"training.{key}={value}" for key, value in flags.items() if value is not None]
    configs = plan(config, resume, seeds, [*(set_ or []), *chosen])
    oceans = configs[0].oceans
    if FIRST_PROCESS and not all(Prepared.of(data).exist for data in oceans):
        prepare_all(oceans)
    windows = training_windows(configs[0])
    for each in configs:
        run, trained = train(each, windows)
        if FIRST_PROCESS:
            print(f"{run.folder}: {'trained' if trained else 'nothing to do'}; best checkpoint {run.best}")


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
    select: Annotated[
        str | None,
        typer.Option(
            help="Choose among these systems for each fold, on the years before it, and score the choice.",
            metavar="A,B,...",
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Its folder; by default runs/hindcast-YEARS.")] = None,
    set_: Set = None,
    jobs: Annotated[int, typer.Option(min=1, max=1000, help="Number of runs trained in parallel.")] = 1,
    scheduler: Annotated[
        str | None, typer.Option(help="A dask cluster that sees the same files, for instance tcp://host:8786.")
    ] = None,
) -> None:
    """Train systems on earlier years only, forecast many years, score them together; resume if interrupted."""
    from sstcast.config import load_config
    from sstcast.hindcasts.files import Hindcast
    from sstcast.hindcasts.folds import Protocol
    from sstcast.hindcasts.hindcast import hindcast
    from sstcast.hindcasts.plan import Plan
    from sstcast.pages.hindcast import print_hindcast
    from sstcast.yaml_files import parse_seeds

    protocol = Protocol.parse(years, fold, validation, every)
    folder = Hindcast(out or Path("runs") / f"hindcast-{protocol.first}-{protocol.last}")
    systems = [load_config(config, set_) for config in configs]
    chosen = tuple(name.strip() for name in select.split(",")) if select is not None else ()
    several = parse_seeds(seeds) if seeds is not None else []
    plan = Plan(folder, protocol, systems, several, combine, average, chosen)
    metrics, new = hindcast(plan, jobs, scheduler)
    print_hindcast(metrics, folder.folder.name)
    print(f"{folder.metrics}: {'written' if new else 'nothing to do'}")


def table5(
    systems: Annotated[
        str, typer.Option(help="Which, separated by commas.", metavar="NAMES")
    ] = "mlp,tfnet,linear-transformer,mpnn,mpnn-vn",
    horizons: Annotated[str, typer.Option(help="Days ahead, separated by commas.", metavar="DAYS")] = "28,14,7",
    seeds: Annotated[str, typer.Option(help="For instance 0..2, or 0.")] = "0..2",
    region: Annotated[str, typer.Option(help="A name in regions.yaml.")] = "pacific",
    source: Annotated[str, typer.Option(help=f"Where missing days are fetched from: {KNOWN}.")] = "aws",
    base: Annotated[
        Literal["none", "persistence", "linear"], typer.Option(help="What networks add to; none as published.")
    ] = "none",
    presets: Annotated[
        Path, typer.Option(help="The systems' YAMLs; configs/models has small ones.", metavar="FOLDER")
    ] = Path("configs/models/paper"),
    set_: Set = None,
    out: Annotated[Path, typer.Option(help="The folder of its runs.", metavar="FOLDER")] = Path("runs/table5"),
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list the runs, and time three steps.")] = False,
) -> None:
    """Repeat Table 5 of Cai et al. (2023): train five systems for three horizons; compare with the paper."""
    from sstcast.pages.table5 import table5_sheets
    from sstcast.pages.text import open_console, print_sheet
    from sstcast.papers.table5 import Table5, needs, table5
    from sstcast.yaml_files import parse_seeds

    try:
        days = [int(text) for text in horizons.split(",")]
    except ValueError:
        raise SSTCastError(f"--horizons {horizons}: give days separated by commas, for instance 28,14,7") from None
    names = [name.strip() for name in systems.split(",")]
    table = Table5(out, names, days, parse_seeds(seeds), region, base, source, presets, set_ or [])
    if dry_run:
        print("\n".join(needs(table)))
        return
    found, new = table5(table)
    console = open_console()
    for sheet in table5_sheets(found, days):
        print_sheet(console, sheet)
    print(f"{out / 'table5.json'}: {'written' if new else 'nothing to do'}")
