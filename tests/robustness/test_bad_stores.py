"""Files of prepared stores and of sources, damaged in every way."""

import random
from pathlib import Path

import pytest
from bad import CHANGES, Family, changed
from small_ocean import make_sst


def test_prepared_stores(world: Path) -> None:
    family, chance, config = Family("prepared stores", world), random.Random(4), world / "small.yaml"
    stores = world / "prepared"
    kinds = list(CHANGES)
    files = sorted(p for p in stores.glob("*/*.zarr/**/*") if p.is_file() and not p.name.endswith(".lock"))
    for path in chance.sample(files, min(len(files), 60)):
        store = next(p.name for p in path.parents if p.suffix == ".zarr")
        kind = chance.choice(kinds)
        with changed(path, CHANGES[kind](path.read_bytes(), chance), stores):
            case, verb = f"{path.relative_to(stores)}, {kind}", chance.choice(["evaluate", "forecast"])
            out = ("--out", world / "out.nc") if verb == "forecast" else ()
            family.try_out(case, (store,), verb, world / "runs/small", *out)
        if chance.random() < 0.85:  # to prepare again takes a second
            continue
        with changed(path, CHANGES[kind](path.read_bytes(), chance), stores):
            if absent := chance.random() < 0.5:
                path.unlink()
            case = f"{path.relative_to(stores)}, {'absent' if absent else kind}"
            family.try_out(case, (store,), "prepare", config)
    family.close(at_least=60)


@pytest.mark.parametrize("kind", ["nc", "zarr"])
def test_sources(world: Path, tmp_path: Path, kind: str) -> None:
    family, chance = Family(f"sources, {kind}", tmp_path), random.Random(6)
    place = tmp_path / "in"
    place.mkdir()
    source = place / f"tiny.{kind}"
    data = make_sst(years=2).isel(time=slice(400, 460))
    if kind == "nc":
        data.to_netcdf(source, engine="netcdf4")
        files, times = [source], 14
    else:
        data.to_zarr(source, zarr_format=2, consolidated=True)
        files, times = sorted(p for p in source.rglob("*") if p.is_file()), 1
    splits = "{train: [2001, 2001], validation: [2002-02-10, 2002-02-20], test: [2002-03-01, 2002-03-15]}"
    for path in files:
        for name, change in CHANGES.items():
            for _ in range(times):
                with changed(path, change(path.read_bytes(), chance)):
                    sets = (f"data.source={source}", f"data.directory={tmp_path}/out", f"data.splits={splits}")
                    flags = [part for text in sets for part in ("--set", text)]
                    case = f"{path.relative_to(place)}, {name}"
                    family.try_out(case, (source.name, "data."), "prepare", world / "small.yaml", *flags)
    family.close(at_least=60)
