"""The examples of the public functions, run in their order as one session."""

import doctest
import inspect
from pathlib import Path

import networkx as nx
import pytest
import torch
import yaml
from torch_geometric.utils import from_networkx

import sstcast

EARLIER = ["load_config", "prepare", "open", "windows", "build_forecaster"]
ORDER = [*EARLIER, "train", "evaluate", "hindcast", "combine", "load", "forecast", "score", "benchmark"]


@pytest.fixture
def session(tmp_path: Path, run_yaml: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    """A folder with `my.yaml`, a run on the small ocean, and `rings.yaml`, graphs with and without a ring."""
    monkeypatch.chdir(tmp_path)
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
    return {"sstcast": sstcast, "torch": torch}


def test_every_public_function_is_documented_with_an_example() -> None:
    functions = [name for name in sstcast.__all__ if inspect.isfunction(getattr(sstcast, name))]
    assert sorted(functions) == sorted(ORDER)
    for name in functions:
        text = getattr(sstcast, name).__doc__
        assert ">>>" in text, name
        assert "Raises:" in text, name


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
