"""Files of runs and sources: truncated, corrupt or something else."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from bad import CHANGES, changed
from small_ocean import make_sst

pytestmark = pytest.mark.filterwarnings("ignore")  # a damaged file may well make a library wonder
Attempt = Callable[..., int]
READERS = {
    "config.yaml": ("runs", "forecast", "resume"),
    "metrics.json": ("evaluate", "leaderboard"),
    "scores.nc": ("evaluate",),
    "history.csv": ("runs", "resume"),
    "provenance.json": ("runs",),
    "checkpoints/best.pt": ("forecast",),
    "checkpoints/step-000000001.pt": ("resume",),
}


def command(verb: str, world: Path) -> list[object]:
    folder = world / "runs/small"
    return {
        "runs": ["runs", world / "runs"],
        "leaderboard": ["leaderboard", world / "runs"],
        "resume": ["train", "--resume", folder],
        "forecast": ["forecast", folder, "--out", world / "forecast.nc"],
    }.get(verb, [verb, folder])


@pytest.mark.parametrize("name", READERS)
def test_files_of_a_run(world: Path, attempt: Attempt, name: str) -> None:
    path, chance = world / "runs/small" / name, random.Random(name)
    damaged = CHANGES[chance.choice(list(CHANGES))](path.read_bytes(), chance)
    for new in (damaged, b"[1, 2]")["evaluate" in READERS[name] :]:  # which scores anew
        for verb in READERS[name]:
            with changed(path, new, world / "runs"):
                attempt((path.name, "small"), *command(verb, world))


def test_forecasts_of_a_run(world: Path, attempt: Attempt) -> None:
    """Chunks that were cut must not be scored as numbers."""
    store = world / "runs/small/forecasts.zarr"
    chunks = [path for path in (store / "sst").rglob("*") if path.is_file() and path.name[0].isdigit()]
    with changed(chunks[0], b"", store):
        for path in chunks:
            path.write_bytes(path.read_bytes()[:-9])
        arguments = ("--against", world / "runs/small", "--out", world / "scored")
        assert attempt(("forecasts.zarr",), "score", store, *arguments) == 2


@pytest.mark.parametrize("name", ["best.pt", "step-000000001.pt"])
def test_checkpoints_of_something_else(world: Path, tmp_path: Path, attempt: Attempt, name: str) -> None:
    path, made = world / "runs/small/checkpoints" / name, tmp_path / "a"
    whole = torch.load(path, weights_only=True)
    spoilt = [torch.zeros(3), {}, whole | {"format": 99}, whole | {"model": {"x": torch.zeros(2)}}]
    spoilt += [whole | {"model": "x"}, {key: value for key, value in whole.items() if key != "model"}]
    spoilt += [whole | {"state": {}}] if "state" in whole else []
    for state in spoilt:
        torch.save(state, made)
        with changed(path, made.read_bytes(), world / "runs"):
            attempt((name, "checkpoints"), *command("forecast" if name == "best.pt" else "resume", world))


def test_weights_that_are_not_those_of_the_training(world: Path, tmp_path: Path, attempt: Attempt) -> None:
    path = world / "runs/small/checkpoints/best.pt"
    state = torch.load(path, weights_only=True)
    next(iter(state["model"].values()))[0] = float("nan")
    torch.save(state, tmp_path / "made.pt")
    with changed(path, (tmp_path / "made.pt").read_bytes()):
        for verb in ("forecast", "evaluate"):
            assert attempt(("best.pt: holds other weights than",), *command(verb, world)) == 2
    assert attempt((), *command("forecast", world)) == 0


@pytest.mark.parametrize("kind", ["nc", "zarr"])
def test_sources(world: Path, tmp_path: Path, attempt: Attempt, kind: str) -> None:
    chance, place = random.Random(6), tmp_path / "in"
    place.mkdir()
    source, data = place / f"tiny.{kind}", make_sst(years=2).isel(time=slice(400, 460))
    if kind == "nc":
        data.to_netcdf(source, engine="netcdf4")
        cases = [(source, change) for change in CHANGES.values()]
    else:
        data.to_zarr(source, zarr_format=2, consolidated=True)
        cases = [(path, CHANGES["cut"]) for path in sorted(source.rglob("*")) if path.is_file()]
    splits = "{train: [2001, 2001], validation: [2002-02-10, 2002-02-20], test: [2002-03-01, 2002-03-15]}"
    sets = (f"data.source={source}", f"data.directory={tmp_path}/out", f"data.splits={splits}")
    flags = [part for text in sets for part in ("--set", text)]
    for path, change in cases:
        with changed(path, change(path.read_bytes(), chance)):
            attempt((source.name, "data."), "prepare", world / "small.yaml", *flags)
