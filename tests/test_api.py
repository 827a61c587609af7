"""The examples of the public functions, run in their order as one session."""

import doctest
import inspect
import re
from datetime import date
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import torch
import typer
import xarray as xr
import yaml
from quick_drawing import draw_quickly
from refusals import refused
from torch_geometric.utils import from_networkx

import sstcast
from sstcast.cli import app
from sstcast.figures import catalogue

EARLIER = ["load_config", "fetch", "prepare", "open", "windows", "as_forecasts", "heatwaves", "build_forecaster"]
LATER = ["status", "datasets", "init", "page", "map", "report", "leaderboard", "update"]
ORDER = [*EARLIER, "train", "evaluate", "hindcast", "combine", "load", "forecast", "score", "benchmark", *LATER]
ONLY_PRINTED = {"doctor", "models", "runs"}


@pytest.fixture
def session(tmp_path: Path, run_yaml: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    """A folder with `my.yaml`, a run on the small ocean, and `rings.yaml`, graphs with and without a ring."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(catalogue, "MAPS", {"maps": [catalogue.skill_maps]})  # tests of reports draw all
    draw_quickly(monkeypatch)
    raw = yaml.safe_load(run_yaml.read_text())
    raw["training"] |= {"windows_per_epoch": 20}
    raw["data"] |= {"directory": "prepared"}
    Path("my.yaml").write_text(yaml.safe_dump(raw))
    rings = []
    for number in range(40):
        graph = from_networkx((nx.cycle_graph if number % 2 else nx.path_graph)(4 + number % 5))
        graph.y = torch.tensor([number % 2])
        rings.append(graph)
    torch.save(rings, "rings.pt")
    own = {"kind": "pyg", "path": "rings.pt", "task": "graph-classification"}
    Path("rings.yaml").write_text(yaml.safe_dump(own))
    return {"sstcast": sstcast, "torch": torch, "date": date}


def test_every_option_of_a_command_is_an_argument_of_its_function() -> None:
    for name, command in typer.main.get_command(app).commands.items():  # type: ignore[attr-defined]
        if name in ONLY_PRINTED:
            continue
        arguments = inspect.signature(getattr(sstcast, name)).parameters
        objects = ("xr.", "Mapping[str, xr.", "Callable[")
        only_python = {key for key, argument in arguments.items() if str(argument.annotation).startswith(objects)}
        options = [option for option in command.params if option.name != "tables"]  # decides only what is printed
        assert {option.name for option in options} == arguments.keys() - only_python
        for option in options:
            default = arguments[option.name].default
            assert option.required == (default is inspect.Parameter.empty), option.name
            assert option.required or (option.default or None) == (default or None), option.name
            assert option.help, option.name


@pytest.mark.parametrize("name", [name for name in sstcast.__all__ if inspect.isfunction(getattr(sstcast, name))])
def test_help_says_what_goes_in_and_out(name: str) -> None:
    function = getattr(sstcast, name)
    text = inspect.getdoc(function) or ""
    listed = text.partition("Args:\n")[2].partition("\n\n")[0]
    assert re.findall(r"^    (\w+): ", listed, re.MULTILINE) == list(inspect.signature(function).parameters)
    sections = ["Returns", "Examples"] + ["Raises"] * (name != "datasets")
    assert all(f"\n{section}:\n" in text for section in sections)


def test_the_examples_do_what_they_say(session: dict[str, object]) -> None:
    parser, runner = (
        doctest.DocTestParser(),
        doctest.DocTestRunner(verbose=False, optionflags=doctest.FAIL_FAST | doctest.ELLIPSIS),
    )
    for name in ORDER:
        test = parser.get_doctest(getattr(sstcast, name).__doc__, session, name, None, 0)
        output: list[str] = []
        runner.run(test, out=output.append, clear_globs=False)
        session |= test.globs
        assert not output, "".join(output)
        assert test.examples


@pytest.mark.parametrize("values", [[xr.Dataset()], xr.DataArray([1.0, 2.0])])
def test_predictors_without_names_are_refused(values: object) -> None:
    words = f"predictors: is a {type(values).__name__}; give a mapping from names to values"
    with refused(words):
        sstcast.prepare("configs/demo.yaml", predictors=values)  # type: ignore[arg-type]
    with refused(words):
        sstcast.train("configs/demo.yaml", predictors=values)  # type: ignore[arg-type]
    with refused(words):
        sstcast.hindcast(["configs/demo.yaml"], years="1997:2016", predictors=values)  # type: ignore[arg-type]


@pytest.mark.parametrize("years", [2003, (2003,), (2003, 2001), 2003.5])
def test_years_that_are_no_first_and_last_are_refused(
    years: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with refused(f"--years {years if np.ndim(years) == 0 else ':'.join(map(str, years))}: ", "1997:2016"):
        sstcast.hindcast(["configs/demo.yaml"], years=years)  # type: ignore[arg-type]
    with refused(f"--years {years}: ", "1991:2020"):
        sstcast.heatwaves("sample", years=years)  # type: ignore[arg-type]


def test_a_nul_in_the_name_of_an_output_is_refused() -> None:
    words = "holds a NUL, which no path can; check it"
    with refused(words):
        sstcast.init("absent.nc", out="a\0b")
    with refused(words):
        sstcast.heatwaves("absent.nc", out="a\0b")
    with refused(words):
        sstcast.forecast("absent", out="a\0b")
    with refused(words):
        sstcast.score("absent.nc", out="a\0b")
    with refused(words):
        sstcast.hindcast(["configs/demo.yaml"], years="1997:2016", out="a\0b")
    with refused(words):
        sstcast.page("absent.nc", out="a\0b")
    with refused(words):
        sstcast.fetch("sample", out="a\0b")
