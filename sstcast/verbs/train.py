"""The command `train`."""

from pathlib import Path
from typing import Annotated

import typer

from sstcast.files import FIRST_PROCESS
from sstcast.finished import Finished
from sstcast.verbs import Set


def train(
    config: Annotated[Path | None, typer.Argument(help="The run's YAML, for instance configs/demo.yaml.")] = None,
    set_: Set = None,
    resume: Annotated[Path | None, typer.Option(help="Resume this run instead.", metavar="RUN")] = None,
    seeds: Annotated[str | None, typer.Option(help="Train an ensemble, for instance 0..4.")] = None,
    devices: Annotated[int | None, typer.Option(help="Number of devices; training.devices.")] = None,
    strategy: Annotated[str | None, typer.Option(help="auto or ddp; training.strategy.")] = None,
    precision: Annotated[str | None, typer.Option(help="auto, 32-true or bf16-mixed.")] = None,
    skip_nonfinite: Annotated[
        int | None, typer.Option(help="Leave out up to N steps whose loss is not finite.", metavar="N")
    ] = None,
) -> None:
    """Train a model or an ensemble; resume if it was interrupted."""
    from sstcast.ocean.prepare import prepare_all
    from sstcast.ocean.prepared import Prepared
    from sstcast.training.train import plan, train, training_windows
    from sstcast.verbs.watched import TRAINING, below, config_files, source_files, store_files, trained_files

    done = Finished(*(config_files(config) if config else below(resume, "**/config.yaml") if resume else ()))
    flags = {"devices": devices, "strategy": strategy, "precision": precision, "skip_nonfinite": skip_nonfinite}
    chosen = [f"training.{key}={value}" for key, value in flags.items() if value is not None]
    configs = plan(config, resume, seeds, [*(set_ or []), *chosen])
    oceans = configs[0].oceans
    if FIRST_PROCESS and not all(Prepared.of(data).exist for data in oceans):
        prepare_all(oceans)
    done.watch(*(file for data in oceans for file in (*source_files(data.source), *store_files(data))))
    windows = training_windows(configs[0])
    runs = []
    for each in configs:
        run, trained = train(each, windows)
        if FIRST_PROCESS:
            print(f"{run.folder}: {'trained' if trained else 'nothing to do'}; best checkpoint {run.best}")
        runs.append(run)
    text = "".join(f"{run.folder}: nothing to do; best checkpoint {run.best}\n" for run in runs)
    done.remember(text, *(file for run in runs for file in (*trained_files(run), *below(run.folder, *TRAINING))))
