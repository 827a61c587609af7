"""Files of runs, prepared stores and sources: truncated, corrupt, empty or something else."""

import random
from pathlib import Path

import pytest
import torch
from bad import CHANGES, Family, changed, run
from small_ocean import make_sst

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


def test_files_of_a_run(world: Path) -> None:
    family, chance = Family("files of a run", world), random.Random(2)
    for name, verbs in READERS.items():
        path = world / "runs/small" / name
        content = path.read_bytes()
        kinds = [
            (kind, CHANGES[kind](content, chance))
            for kind in chance.sample(list(CHANGES), 1 if verbs[0] == "evaluate" else 2)
        ]
        for kind, new in [*kinds, ("list", b"[1, 2]")]:
            for verb in verbs:
                with changed(path, new, world / "runs"):
                    family.try_out(f"{name}, {kind}", (path.name, "small"), *command(verb, world))
    family.close()


def test_forecasts_of_a_run(world: Path) -> None:
    """Chunks that were cut must not be scored as numbers."""
    family, store = Family("forecasts of a run", world), world / "runs/small/forecasts.zarr"
    chunks = [path for path in (store / "sst").rglob("*") if path.is_file() and path.name[0].isdigit()]
    with changed(chunks[0], b"", store):
        for path in chunks:
            path.write_bytes(path.read_bytes()[:-9])
        arguments = ("--against", world / "runs/small", "--out", world / "scored")
        family.try_out("cut chunks", ("forecasts.zarr",), "score", store, *arguments)
    assert set(family.codes) == {2}
    family.close()


@pytest.mark.parametrize("name", ["best.pt", "step-000000001.pt"])
def test_checkpoints_of_something_else(world: Path, tmp_path: Path, name: str) -> None:
    family, path, made = (
        Family(f"checkpoints, {name}", world),
        world / "runs/small/checkpoints" / name,
        tmp_path / "a",
    )
    whole, weights = torch.load(path, weights_only=True), {"model": {"x": torch.zeros(2)}}
    spoilt = {"tensor": torch.zeros(3), "nothing": {}, "later": weights | {"format": 99}}
    spoilt |= {"other model": weights | {"format": 2}, "model of text": {"format": 2, "model": "x"}}
    spoilt |= {f"{key} missing": {k: v for k, v in whole.items() if k != key} for key in whole}
    spoilt |= {f"state.{key}": whole | {"state": whole["state"] | {key: "x"}} for key in whole.get("state", {})}
    for case, state in spoilt.items():
        torch.save(state, made)
        with changed(path, made.read_bytes(), world / "runs"):
            verb = "forecast" if name == "best.pt" else "resume"
            family.try_out(case, (name, "checkpoints"), *command(verb, world))
    family.close()


def test_weights_that_are_not_finite(world: Path, tmp_path: Path) -> None:
    path = world / "runs/small/checkpoints/best.pt"
    state = torch.load(path, weights_only=True)
    next(iter(state["model"].values()))[0] = float("nan")
    torch.save(state, tmp_path / "made.pt")
    with changed(path, (tmp_path / "made.pt").read_bytes()):
        for verb in ("forecast", "evaluate"):
            code, _, err = run(*command(verb, world))
            assert code == 2
            assert "best.pt: its weights are not finite" in err
    assert run(*command("forecast", world))[0] == 0


def test_prepared_stores(world: Path) -> None:
    """Every damage is seen; preparing again mends it."""
    family, chance, stores = Family("prepared stores", world), random.Random(4), world / "prepared"
    files = sorted(path for path in stores.glob("*/*.zarr/**/*") if path.is_file() and path.suffix != ".lock")
    for path in chance.sample(files, 16):
        store = next(part.name for part in path.parents if part.suffix == ".zarr")
        kind, verb = chance.choice(list(CHANGES)), chance.choice(["evaluate", "forecast"])
        with changed(path, CHANGES[kind](path.read_bytes(), chance), stores):
            family.try_out(f"{path.relative_to(stores)}, {kind}", (store,), *command(verb, world))
    for path in chance.sample(files, 2):
        with changed(path, path.read_bytes()[:-1], stores):
            path.unlink()
            family.try_out(f"{path.name}, absent", (path.name,), "prepare", world / "small.yaml")
    family.close()


@pytest.mark.parametrize("kind", ["nc", "zarr"])
def test_sources(world: Path, tmp_path: Path, kind: str) -> None:
    family, chance, place = Family(f"sources, {kind}", tmp_path), random.Random(6), tmp_path / "in"
    place.mkdir()
    source, data = place / f"tiny.{kind}", make_sst(years=2).isel(time=slice(400, 460))
    if kind == "nc":
        data.to_netcdf(source, engine="netcdf4")
        files = [source] * 5
    else:
        data.to_zarr(source, zarr_format=2, consolidated=True)
        files = sorted(path for path in source.rglob("*") if path.is_file())
    splits = "{train: [2001, 2001], validation: [2002-02-10, 2002-02-20], test: [2002-03-01, 2002-03-15]}"
    sets = (f"data.source={source}", f"data.directory={tmp_path}/out", f"data.splits={splits}")
    flags = [part for text in sets for part in ("--set", text)]
    for path in files:
        for name in CHANGES if kind == "nc" else ("cut", "empty"):
            with changed(path, CHANGES[name](path.read_bytes(), chance)):
                case = f"{path.relative_to(place)}, {name}"
                family.try_out(case, (source.name, "data."), "prepare", world / "small.yaml", *flags)
    family.close()
