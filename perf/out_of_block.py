"""Networks that learn the errors which a linear system makes in years that it has not seen.

    python perf/out_of_block.py FOLDER --checks      # minutes: errors in and out of block, and a linear rival
    python perf/out_of_block.py FOLDER --simulated   # minutes: an ocean in which a network is known to gain
    python perf/out_of_block.py FOLDER               # hours: the trainings, then the table

The base of a network in training/train.py is fitted to the windows from which the network learns, so its errors
there are smaller than in other years. Here the training years of a fold are divided into four blocks of years
(`blocks_of_years`), and a base is fitted for each, with options that are chosen without the block. A network
without a base learns the errors of these bases, each in its own block (`out of block`), or those of a single base
that has seen all training years (`in sample`). Its output is added to the forecast of the latter. With channels,
it also reads the 12 means of the base's memory, and sine and cosine of the day of the year.

Written down before the first training: the steps of a fold are those with the lower error in the validation years
of this fold and of those before it, the errors of the seeds averaged. The number is the squared error of the mean
forecast of three seeds over that of the base. The networks gain if both have at most .99, with intervals over
dates and over folds below 1, and less than the linear rival. What is done stays in FOLDER, so that the same
command goes on.
"""

import argparse
import datetime as dt
import platform
from dataclasses import replace
from functools import cached_property, reduce
from itertools import product
from operator import add
from pathlib import Path
from typing import Any

import numpy as np
import scipy.stats
import torch
from learning_curves import EVERY, HISTORY, HORIZON, NETWORKS, keep, read, simulated_days, windows_of_days
from numpy.typing import NDArray
from torch import Tensor

import sstcast
from sstcast.forecasting.system import Fits
from sstcast.hindcasts.plan import Fold, Protocol
from sstcast.models import build_forecaster
from sstcast.models.base import ForecastModel, LinearSystem
from sstcast.models.ridge_inputs import Inputs, Sums, cross_validate
from sstcast.names import DEGREES
from sstcast.ocean.prepared import Prepared
from sstcast.ocean.windows import Windows, cut_windows
from sstcast.scores.analysis import Analysis
from sstcast.scores.significance import DateBlocks, ratio
from sstcast.storage.artefacts import atomic
from sstcast.training.cross_fitting import blocks_of_years
from sstcast.training.forecast_task import fit, in_parts

PROTOCOL = Protocol.parse("1997:2016", 4, 2, EVERY)
RECOMMENDED = {"memory": True, "stencil": True}
BLOCKS, SEEDS, STEPS, BATCH, RATE, DECAY, DROPOUT, EMA = 4, range(3), (150, 600), 16, 1e-3, 0.1, 0.2, 0.98
KINDS, READS = ("in sample", "out of block"), ("history", "with channels")
NAMES = ("tfnet", "mpnn-vn")
LEADS = (1, 7, 14, 28)
MEANS = [f"memory_{number}" for number in range(12)]
PENALTIES = (1e3, 1e4, 1e5, 1e6, 1e7, 1e8)  # of the linear rival
SHUFFLES = 3  # orders of years that the rival is fitted to as a control

Array = NDArray[np.floating]


class Data:
    """The windows of a fold, its bases and their errors."""

    def __init__(self, fold: Fold, folder: Path) -> None:
        self.folder = folder / fold.name
        self.folder.mkdir(parents=True, exist_ok=True)
        config = sstcast.load_config(
            "configs/linear/local-memory-stencil.yaml", [f"data.directory={folder / 'prepared'}"]
        )
        self.data = fold.split(config.data)
        sstcast.prepare(config.model_copy(update={"data": self.data}))
        self.prepared = Prepared.of(self.data)
        self.first = fold.first

    @cached_property
    def train(self) -> Windows:
        return self.windows("train")

    def windows(self, split: str) -> Windows:
        """Return the windows of a split, and the year before each, which the base reads."""
        before = 365 - self.data.history
        windows = cut_windows(self.prepared.open_anomalies(), self.data, split, before)
        assert windows.before == before
        return windows

    @cached_property
    def bases(self) -> list[LinearSystem]:
        """The base of all training years, then that of all blocks but one, in the order of the blocks."""
        file = self.folder / "bases.pt"
        parts = [self.train, *(others for others, _ in blocks_of_years(self.train, BLOCKS))]
        bases = [linear_system("local-ridge", windows, **RECOMMENDED) for windows in parts]
        if file.exists():
            for base, weights in zip(bases, torch.load(file, weights_only=True), strict=True):
                base.load_state_dict(weights)
            return bases
        for base, windows in zip(bases, parts, strict=True):
            fit(base, windows, None)
        with atomic(file) as temporary:
            torch.save([base.state_dict() for base in bases], temporary)
        return bases

    def residuals(self, kind: str) -> NDArray[np.float16]:
        """Return the errors of the base in all training windows, `[starts, horizon, N]`, computed once."""
        file = self.folder / f"{kind.replace(' ', '-')}.npy"
        if not file.exists():
            whole, *others = self.bases
            parts = [(whole, self.train)]
            if kind == "out of block":
                parts = list(zip(others, (block for _, block in blocks_of_years(self.train, BLOCKS)), strict=True))
            shape = (self.train.starts, self.data.horizon, self.train.ocean.numel())
            with atomic(file) as temporary:
                stored = np.lib.format.open_memmap(temporary, "w+", np.float16, shape)
                start = 0
                for base, windows in parts:
                    for values in errors_in(base, windows, every=1):
                        stored[start : start + len(values)] = values
                        start += len(values)
                assert start == len(stored)
                stored.flush()
        return np.load(file, mmap_mode="r")


def linear_system(name: str, windows: Windows, **options: bool) -> LinearSystem:
    """Return a linear system, not fitted, for the tile of the windows."""
    sizes = {"history": windows.history, "horizon": windows.horizon, "shape": windows.shape}
    system = build_forecaster(name, **sizes, **options)
    assert isinstance(system, LinearSystem)
    return system


@torch.no_grad()
def errors_in(base: LinearSystem, windows: Windows, every: int) -> Any:
    """Yield target minus forecast of windows `every` days apart, in parts `[starts, horizon, N]`."""
    for part in in_parts(windows)(every):
        yield (part.spans(part.history, part.horizon) - base.forecast_windows(part)).flatten(2).numpy()


def mean_squares(pairs: list[tuple[LinearSystem, Windows]]) -> Array:
    """Return the mean squared errors by lead of systems, each on its own windows."""
    total, count = 0.0, 0
    for system, windows in pairs:
        ocean = windows.ocean.flatten().numpy()
        for values in errors_in(system, windows, EVERY):
            total = total + np.square(values[..., ocean], dtype=np.float64).sum((0, 2))
            count += len(values) * int(ocean.sum())
    return np.asarray(total / count)


def checks(folds: list[Data]) -> None:
    """Print the errors of the base in sample, out of block and in validation years, and those of the rival."""
    print(f"| fold | years | {' | '.join(f'day {lead}' for lead in LEADS)} | all | over persistence |")
    print("|---" * (4 + len(LEADS)) + "|")
    pooled: dict[str, list[tuple[Array, Array]]] = {}
    for data in folds:
        whole, *others = data.bases
        blocks = [block for _, block in blocks_of_years(data.train, BLOCKS)]
        for name, pairs in {
            "in sample": [(whole, data.train)],
            "out of block": list(zip(others, blocks, strict=True)),
            "validation": [(whole, data.windows("validation"))],
        }.items():
            rivals = [(linear_system("persistence", windows), windows) for _, windows in pairs]
            errors, persistence = mean_squares(pairs), mean_squares(rivals)
            pooled.setdefault(name, []).append((errors, persistence))
            print(squares_row(str(data.first), name, errors, persistence), flush=True)
    for name, found in pooled.items():
        errors, persistence = np.mean(found, 0)
        print(squares_row("all", name, errors, persistence))
    print("\n| over the base: with a ridge of | fold | validation | test | years shuffled: validation | test |")
    print("|---" * 6 + "|")
    totals: dict[str, list[Array]] = {}
    for data in folds:
        for inputs in ("14 channels", "14 channels and 42 days"):
            found = rival_errors(data, inputs)
            totals.setdefault(inputs, []).append(found)
            print(f"| {inputs} | {data.first} | {ratios(found)} |", flush=True)
    for inputs, all_found in totals.items():
        print(f"| {inputs} | all | {ratios(np.sum(all_found, 0))} |")


def squares_row(fold: str, name: str, errors: Array, persistence: Array) -> str:
    values = " | ".join(f"{errors[lead - 1]:.4f}" for lead in LEADS)
    return f"| {fold} | {name} | {values} | {errors.mean():.4f} | {errors.mean() / persistence.mean():.4f} |"


def ratios(found: Array) -> str:
    """Return the ratios of errors with the rival to those without, then with rivals of shuffled years."""
    over_base = found[:, 1:] / found[:, :1]
    shuffled = [" ".join(f"{ratio:.4f}" for ratio in each[1:]) for each in over_base]
    return " | ".join([f"{each[0]:.4f}" for each in over_base] + shuffled)


def channels(windows: Windows) -> tuple[Tensor, Tensor]:
    """Return the memory of each window `[starts, 12, N]` and its season `[starts, 2]`."""
    memory = Inputs(memory=True).further(windows, windows.values)
    return memory, windows.season[windows.at + windows.history - 1]


def rows_of(windows: Windows, inputs: str) -> Tensor:
    """Return what the linear rival reads, `[starts, inputs + 1, N]`, the last one constant."""
    memory, season = channels(windows)
    columns = [memory, season[..., None].expand(-1, -1, memory.shape[-1])]
    if inputs.endswith("42 days"):
        columns.insert(0, windows.spans(0, windows.history).flatten(2))
    return torch.cat([*columns, torch.ones_like(memory[:, :1])], 1)


def rival_errors(data: Data, inputs: str) -> Array:
    """Return summed squared errors of the base in validation and test years, without the rival and with it.

    The result is `[split, 2 + SHUFFLES]`. The rival is fitted to the residuals out of block, with a penalty for
    each lead that is chosen by cross-validation over the blocks, last to residuals whose years are shuffled.
    """
    residuals, ocean, times = data.residuals("out of block"), data.train.ocean.flatten(), data.train.init_times
    years = times.astype("datetime64[Y]")
    first = np.searchsorted(times, np.unique(years))
    of_year, day = np.unique(years, return_inverse=True)[1], np.arange(len(times))
    random, orders = np.random.default_rng(0), [np.arange(len(first))]
    orders += [random.permutation(len(first)) for _ in range(SHUFFLES)]
    positions = [np.minimum(first[order][of_year] + day - first[of_year], len(times) - 1) for order in orders]
    sums = []
    for _, block in blocks_of_years(data.train, BLOCKS):
        of_parts = []
        for part in in_parts(block)(EVERY):
            here = np.searchsorted(times, part.init_times)
            targets = np.concatenate([residuals[at[here]] for at in positions], 1)
            x, y = (
                values[..., ocean].double().movedim(1, -1).flatten(0, 1)
                for values in (rows_of(part, inputs), torch.from_numpy(targets))
            )
            of_parts.append(Sums(x.shape[1], y.shape[1]))
            of_parts[-1].add(x, y)
        sums.append(reduce(add, of_parts))
    weight = cross_validate(sums, Sums.solve, PENALTIES, sums[0].cross.shape[1])[0][:, 0]
    found = np.zeros((2, 2 + SHUFFLES))
    for total, split in zip(found, ("validation", "test"), strict=True):
        for part in in_parts(data.windows(split))(EVERY):
            (values,) = errors_in(data.bases[0], part, every=1)
            errors = torch.from_numpy(values)[..., ocean].double()
            change = torch.einsum("sin,il->sln", rows_of(part, inputs)[..., ocean].double(), weight)
            total[0] += float(errors.square().sum())
            for number, each in enumerate(change.split(data.data.horizon, dim=1), 1):
                total[number] += float((errors - each).square().sum())
    return found


def network(name: str, windows: Windows, reads: str) -> ForecastModel:
    """Return an untrained network that forecasts the errors of a base."""
    kinds = dict.fromkeys(MEANS, "static") | {"season": "index"} if reads == "with channels" else {}
    sizes = {"history": windows.history, "horizon": windows.horizon, "shape": windows.shape}
    model = build_forecaster(name, **sizes, base="none", predictors=kinds, **NETWORKS[name], dropout=DROPOUT)
    model.set_base("linear")  # its output begins as on a linear base, and nothing is added to it
    model.base = "none"
    return model


def with_channels(windows: Windows, reads: str) -> Windows:
    """Return the windows without the year before them, and with the channels as predictors, if they are read."""
    known: dict[str, Tensor] = {}
    if reads == "with channels":
        memory, _ = channels(windows)
        today = torch.from_numpy(windows.at + windows.history - 1)
        for number, name in enumerate(MEANS):
            table = torch.zeros(len(windows.days), 1, *windows.ocean.shape)
            table[today, 0] = memory[:, number].unflatten(-1, windows.ocean.shape)
            known[name] = table
        known["season"] = windows.season
    return replace(windows, before=0, predictors=known)


def train(data: Data, windows: Windows, name: str, kind: str, reads: str, seed: int) -> None:
    """Train a network on the errors of the base, and keep its averaged weights after each of `STEPS`."""
    residuals = data.residuals(kind)
    torch.manual_seed(seed)
    model = network(name, windows, reads).train()
    optimizer = torch.optim.AdamW(model.parameters(), RATE, weight_decay=DECAY)
    average = torch.optim.swa_utils.AveragedModel(
        model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(EMA)
    )
    for step in range(1, max(STEPS) + 1):
        index = torch.randint(len(windows), (BATCH,))
        batch = windows.batch(index)
        target = torch.from_numpy(residuals[index.numpy()].astype(np.float32)).transpose(1, 2)
        optimizer.zero_grad()
        (model(batch.history, batch.graph) - target)[batch.ocean].square().mean().backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        average.update_parameters(model)
        if step in STEPS:
            with atomic(weights_file(data, name, kind, reads, seed, step)) as temporary:
                torch.save(average.module.state_dict(), temporary)


def weights_file(data: Data, name: str, kind: str, reads: str, seed: int, step: int) -> Path:
    return data.folder / f"{name}-{kind}-{reads}-{seed}-{step}.pt".replace(" ", "-")


@torch.no_grad()
def forecasts(data: Data, split: str, name: str, kind: str, reads: str, step: int) -> dict[str, Array]:
    """Return the forecasts of the base, of each seed and of their mean on every third date, `[dates, lead, N]`."""
    windows = data.windows(split)
    parts = [data.bases[0].forecast_windows(part).flatten(2).numpy() for part in in_parts(windows)(EVERY)]
    base = np.concatenate(parts)
    found, read_windows = {"base": base}, with_channels(windows, reads).thinned(EVERY)
    for seed in SEEDS:
        model = network(name, windows, reads).eval()
        model.load_state_dict(torch.load(weights_file(data, name, kind, reads, seed, step), weights_only=True))
        changes = []
        for index in torch.arange(len(read_windows)).split(BATCH):
            batch = read_windows.batch(index)
            changes.append(model(batch.history, batch.graph).transpose(1, 2).numpy())
        found[f"seed {seed}"] = base + np.concatenate(changes)
    found["mean"] = np.mean([found[f"seed {seed}"] for seed in SEEDS], 0)
    return found


def quarters(truth: Analysis) -> dict[str, Array]:
    """Return the weights of the cells of the ocean and of its quarters, `[N]`."""
    lat, lon = (truth.anomalies[name].values for name in ("lat", "lon"))
    north = np.repeat(lat > lat.mean(), len(lon))
    east = np.tile(lon > lon.mean(), len(lat))
    area = truth.area[0].astype(float)
    found = {"all": area}
    for row, rows in {"north": north, "south": ~north}.items():
        found |= {f"{row}-{col}": area * (rows & cols) for col, cols in {"west": ~east, "east": east}.items()}
    return {name: weights / weights.sum() for name, weights in found.items()}


def by_date(data: Data, split: str, forecast: dict[str, Array]) -> dict[str, dict[str, list[float]]]:
    """Return squared errors in degC^2 by date, mean of all leads, of each forecast and part of the ocean."""
    truth = Analysis.open(data.prepared, split, every=EVERY)
    weights, found = quarters(truth), {name: {part: [] for part in quarters(truth)} for name in forecast}
    for observed in truth.observe():
        scale, anomaly = observed.scale[:, :, 0], observed.anomaly[DEGREES][:, :, 0]
        for name, values in forecast.items():
            squares = np.square(values[observed.dates] * scale - anomaly, dtype=np.float64).mean(1)
            for part, weight in weights.items():
                found[name][part] += (squares @ weight).tolist()
    return found


def score(data: Data, name: str, kind: str, reads: str) -> dict[str, Any]:
    """Return the errors of a setting in a fold, after each number of steps, computed once."""
    file = data.folder / f"{name}-{kind}-{reads}.json".replace(" ", "-")
    found = read(file)
    if not found:
        for step, split in product(STEPS, ("validation", "test")):
            values = forecasts(data, split, name, kind, reads, step)
            found.setdefault(str(step), {})[split] = by_date(data, split, values)
        keep(file, found)
    return found


def linear_errors(folds: list[Data]) -> list[dict[str, list[float]]]:
    """Return the errors of the recommended system, as it is and less half of its mean error in earlier folds."""
    found, earlier = [], []
    for data in folds:
        file, kept = data.folder / "linear.json", read(data.folder / "linear.json")
        if not kept:
            alone = Fits.of(data.prepared).system("local-ridge", **RECOMMENDED)
            truth = Analysis.open(data.prepared, every=EVERY)
            area, errors, bias = quarters(truth)["all"], [], []
            for observed in truth.observe():
                forecast = truth.on_tiles(alone.predict(*truth.histories(observed.dates)).mean("member"))
                each = (forecast * observed.scale - observed.anomaly[DEGREES])[:, :, 0].astype(float)
                errors += (np.square(each) @ area).tolist()
                bias += (each @ area).tolist()
            kept = {"squares": errors, "bias": bias}  # by date and lead
            keep(file, kept)
        squares, bias = np.array(kept["squares"]), np.array(kept["bias"])
        half = np.mean(np.concatenate(earlier), 0) / 2 if earlier else np.zeros(squares.shape[1])
        less = squares - 2 * half * bias + half**2
        found.append({"linear": squares.mean(1).tolist(), "half the mean error": less.mean(1).tolist()})
        earlier.append(bias)
    return found


def over(errors: list[list[float]], references: list[list[float]]) -> str:
    """Return the ratio of errors by fold and date: all, over dates, over folds, by fold, smallest detectable."""
    value, (low, high) = ratio(np.concatenate(errors), np.concatenate(references), DateBlocks.of(28, EVERY).block)
    each = np.array([np.mean(one) / np.mean(other) for one, other in zip(errors, references, strict=True)])
    first, last = scipy.stats.t.interval(0.95, len(each) - 1, each.mean(), scipy.stats.sem(each))
    least = 2.8 * each.std(ddof=1) / np.sqrt(len(each))
    numbers = " ".join(f"{number:.3f}" for number in each)
    return f"{value:.4f}, {low:.4f}-{high:.4f} | {first:.4f}-{last:.4f} | {numbers} | {least:.4f}"


def trainings(folds: list[Data]) -> None:
    """Train whatever is not done, and print the table."""
    for data, reads in product(folds, READS):
        windows = None
        for name, kind, seed in product(NAMES, KINDS, SEEDS):
            if not weights_file(data, name, kind, reads, seed, max(STEPS)).exists():
                windows = with_channels(data.train, reads) if windows is None else windows
                train(data, windows, name, kind, reads, seed)
                print(f"fold {data.first}: {name}, {kind}, {reads}, seed {seed}", flush=True)
    linear = linear_errors(folds)
    print(
        "\n| network | residuals | reads | part | over its base, over dates | over folds | by fold | detectable |"
    )
    print("|---" * 8 + "|")
    for name, kind, reads in product(NAMES, KINDS, READS):
        scored, errors, bases, tried = (
            [score(data, name, kind, reads) for data in folds],
            {},
            {},
            np.zeros(len(STEPS)),
        )
        for found in scored:
            tried += [
                sum(np.sum(found[str(step)]["validation"][f"seed {seed}"]["all"]) for seed in SEEDS)
                for step in STEPS
            ]
            test = found[str(STEPS[int(tried.argmin())])]["test"]
            for part in test["mean"]:
                errors.setdefault(part, []).append(test["mean"][part])
                bases.setdefault(part, []).append(test["base"][part])
        for part in errors:
            print(f"| {name} | {kind} | {reads} | {part} | {over(errors[part], bases[part])} |", flush=True)
        against = over(errors["all"], [one["linear"] for one in linear])
        print(f"| {name} | {kind} | {reads} | all, over local-memory-stencil | {against} |")
    base = [score(data, NAMES[0], KINDS[0], READS[0])[str(STEPS[0])]["test"]["base"]["all"] for data in folds]
    for title in ("linear", "half the mean error"):
        print(f"| {title} | | | all | {over([one[title] for one in linear], base)} |")


def simulated(years: int = 40) -> None:
    """Print the errors of a network that learns either kind of residuals in an ocean of two weak states."""
    test = windows_of_days(simulated_days(24, seed=1)).thinned(EVERY)
    batch = test.batch(torch.arange(len(test)))
    windows = windows_of_days(simulated_days(years, seed=2))
    sizes = {"history": HISTORY, "horizon": HORIZON, "shape": windows.shape}

    def base_of(part: Windows) -> LinearSystem:
        base = linear_system("multiscale-ridge", windows, stencil=True)
        fit(base, part, None)
        return base

    whole = base_of(windows)
    blocks = [(base_of(others), block) for others, block in blocks_of_years(windows, BLOCKS)]
    pairs = {"in sample": [(whole, windows)], "out of block": blocks}
    with torch.no_grad():
        forecast = whole(batch.history, batch.graph)
    linear = (forecast - batch.target).square().mean((1, 2)).numpy()
    print(f"| residuals of {years} years | {' | '.join(f'{steps} steps' for steps in STEPS)} |\n|---|---|---|")
    for kind, parts in pairs.items():
        residuals = torch.from_numpy(
            np.concatenate([each for base, part in parts for each in errors_in(base, part, 1)])
        )
        torch.manual_seed(0)
        model = build_forecaster("mlp-pointwise", **sizes, width=64, layers=3, base="none")
        optimizer, texts = torch.optim.AdamW(model.parameters(), RATE, weight_decay=DECAY), []
        average = torch.optim.swa_utils.AveragedModel(
            model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(EMA)
        )
        for step in range(1, max(STEPS) + 1):
            index = torch.randint(len(windows), (64,))
            part = windows.batch(index)
            optimizer.zero_grad()
            (model(part.history, part.graph) - residuals[index].transpose(1, 2)).square().mean().backward()
            optimizer.step()
            average.update_parameters(model)
            if step in STEPS:
                with torch.no_grad():
                    change = average.module(batch.history, batch.graph)
                errors = (forecast + change - batch.target).square().mean((1, 2)).numpy()
                value, (low, high) = ratio(errors, linear, DateBlocks.of(HORIZON, EVERY).block)
                texts.append(f"{value:.4f}, {low:.4f}-{high:.4f}")
        print(f"| {kind} | {' | '.join(texts)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="prepared data, bases, residuals, weights and errors")
    parser.add_argument("--checks", action="store_true")
    parser.add_argument("--simulated", action="store_true")
    parser.add_argument("--folds", type=int, nargs="+", help="first years of the folds, by default all")
    options = parser.parse_args()
    versions = f"sstcast {sstcast.__version__}, torch {torch.__version__}, Python {platform.python_version()}"
    print(f"{versions}, {dt.date.today()}\n")
    if options.simulated:
        simulated()
        return
    chosen = [fold for fold in PROTOCOL.folds if fold.first in (options.folds or [fold.first])]
    folds = [Data(fold, options.folder.resolve()) for fold in chosen]
    if options.checks:
        checks(folds)
    else:
        trainings(folds)


if __name__ == "__main__":
    main()
