"""Every `sstcast` command of the documentation is one that the command line takes; the short ones run."""

import re
import shlex
import shutil
from itertools import product
from pathlib import Path

import pandas as pd
import pytest
import yaml
from quick_drawing import draw_quickly
from small_ocean import make_sst
from typer.main import get_command

from sstcast import cli
from sstcast.api.arguments import names_in
from sstcast.benchmarks.config import load_benchmark
from sstcast.benchmarks.paper_tables import choose, paper_tables
from sstcast.config import load_config
from sstcast.figures import catalogue

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
# Run in this order on a small ocean, in a folder with the files and runs that the pages take for granted.
SHORT = [
    "sstcast models",
    "sstcast status",
    "sstcast init my-file.nc",
    "sstcast train my-file.yaml",
    "sstcast forecast runs/my-file --places farm.csv",
    "sstcast page runs/my-file",
    "sstcast combine runs/demo runs/local-ridge --name both",
    "sstcast evaluate runs/both --against runs/demo",
    "sstcast leaderboard runs/",
    "sstcast map runs/demo runs/local-ridge --projection Robinson --region 147,152,-44,-40",
    "sstcast report runs/demo",
    "sstcast forecast runs/demo --date 2016-01-31 --out january.nc",
    "sstcast page january.nc --out january.html",
    "sstcast score forecasts.zarr --against runs/demo --against persistence",
    "sstcast map forecasts.nc-scores",
    "sstcast runs",
]


def commands(text: str) -> list[str]:
    """The commands in the shell blocks of a page, and those in its lines that have arguments."""
    found = []
    for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL):
        found += block.replace("\\\n", " ").splitlines()
    found += re.findall(r"`((?:\.venv/bin/)?sstcast [a-z][^`]*)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    plain = (shlex.join(shlex.split(line, comments=True)).removeprefix(".venv/bin/") for line in found)
    return [line for line in plain if line.startswith("sstcast ") and " ..." not in line]


def words(command: str) -> list[str]:
    """The words of a command as a shell passes them: comments are left out, braces expanded."""
    expanded = []
    for word in shlex.split(command):
        path = re.fullmatch(r"(\S*/)\{(\S+)\}(\S*)", word)
        expanded += (
            ["".join(parts) for parts in product([path[1]], path[2].split(","), [path[3]])] if path else [word]
        )
    return expanded


FOUND = sorted({line for page in PAGES for line in commands(page.read_text())})


@pytest.mark.parametrize("command", FOUND)
def test_commands_are_understood(command: str) -> None:
    """The verb and its options exist, and so do configurations, data sets and the keys after `--set`."""
    _, verb, *arguments = words(command)
    given = get_command(cli.app).commands[verb]  # type: ignore[attr-defined]
    if not arguments:
        return  # named in the text, without its arguments
    values = given.make_context(verb, [*arguments]).params
    overrides = list(values.get("overrides") or ())
    for name in (word for word in arguments if word.startswith("configs/")):
        path = ROOT / name
        assert path.exists()
        if path.suffix == ".yaml":
            load_config(path, overrides if "diffusion" not in command else [])
    if verb == "benchmark" and not {"DATASET", "MODEL", "diffusion", "solubility.yaml"} & {*arguments}:
        for model in names_in(values["model"]):
            load_benchmark(values["dataset"], model, None, overrides)
    if verb == "table" and values["name"] in paper_tables():
        rows = [given and given.split(",") for given in (values["datasets"], values["models"])]
        assert choose(paper_tables()[values["name"]], *rows)


def test_short_commands_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not {*SHORT} - {*FOUND}
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(catalogue, "MAPS", {"maps": [catalogue.skill_maps]})
    draw_quickly(monkeypatch)
    sea = make_sst(years=6)  # brought to where and when the pages have theirs
    days = pd.date_range("2011-01-01", periods=sea.sizes["time"])
    sea.assign_coords(time=days, lat=sea["lat"] - 31, lon=sea["lon"] - 22).to_netcdf(
        "my-file.nc", engine="netcdf4"
    )
    demo = {
        "name": "demo",
        "data": {
            "source": "my-file.nc",
            "region": {"lon": [148, 149.5], "lat": [-43, -41.5], "tile": [6, 6]},
            "horizon": 7,
            "splits": {"train": [2011, 2013], "validation": [2014, 2014], "test": ["2015-11-01", "2016-02-28"]},
        },
    }
    Path("demo.yaml").write_text(yaml.safe_dump(demo))
    for name, model in (("demo", "local-ridge"), ("local-ridge", "multiscale-ridge")):
        assert run(f"sstcast train demo.yaml --set name={name} --set model.name={model}") == 0
        assert run(f"sstcast evaluate runs/{name}") == 0
    shutil.copytree("runs/demo/forecasts.zarr", "forecasts.zarr")
    Path("farm.csv").write_text("name,lat,lon\nfarm,-42.35,148.15\n")
    for command in SHORT:
        assert run(command.replace("forecasts.nc-scores", "forecasts.zarr-scores")) == 0, capsys.readouterr().err


def run(command: str) -> int:
    """Run a command in this process, and return its exit code."""
    return cli._run(words(command)[1:])
