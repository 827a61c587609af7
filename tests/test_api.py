"""The examples of the public functions, run in their order as one session."""

import doctest
import inspect
import re
from datetime import date
from pathlib import Path

import networkx as nx
import pytest
import torch
import typer
import yaml
from torch_geometric.utils import from_networkx

import sstcast
from sstcast.cli import app
from sstcast.figures import catalogue

EARLIER = ["load_config", "fetch", "prepare", "open", "windows", "heatwaves", "build_forecaster"]
LATER = ["status", "datasets", "init", "page", "map", "report", "leaderboard", "update"]
ORDER = [*EARLIER, "train", "evaluate", "hindcast", "combine", "load", "forecast", "score", "benchmark", *LATER]
ONLY_PRINTED = {"doctor", "models", "runs"}


@pytest.fixture
def session(tmp_path: Path, run_yaml: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    """A folder with `my.yaml`, a run on the small ocean, and `rings.yaml`, graphs with and without a ring."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(catalogue, "MAPS", {"maps": [catalogue.skill_maps]})  # tests of reports draw all
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
        objects = ("xr.", "Mapping[str, xr.")
        only_python = {key for key, argument in arguments.items() if str(argument.annotation).startswith(objects)}
        assert {option.name for option in command.params} == arguments.keys() - only_python
        for option in command.params:
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
        doctest.DocTestRunner(optionflags=doctest.FAIL_FAST | doctest.ELLIPSIS),
    )
    for name in ORDER:
        test = parser.get_doctest(getattr(sstcast, name).__doc__, session, name, None, 0)
        output: list[str] = []
        runner.run(test, out=output.append, clear_globs=False)
        session |= test.globs
        assert not output, "".join(output)
        assert test.examples
