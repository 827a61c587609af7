"""The examples of the public functions, run in their order as one session."""

import doctest
import inspect
from pathlib import Path

import networkx as nx
import pytest
import torch
import yaml

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
    edges, indicator = [], []
    for number in range(1, 41):
        graph = (nx.path_graph if number % 2 else nx.cycle_graph)(4 + number % 5)
        first = len(indicator) + 1
        indicator += [number] * len(graph)
        edges += [f"{first + a}, {first + b}" for u, v in graph.edges for a, b in ((u, v), (v, u))]
    Path("rings").mkdir()
    Path("rings/rings_A.txt").write_text("\n".join(edges) + "\n")
    Path("rings/rings_graph_indicator.txt").write_text("\n".join(map(str, indicator)) + "\n")
    Path("rings/rings_graph_labels.txt").write_text("\n".join(str(i % 2) for i in range(40)) + "\n")
    own = {"kind": "tudataset", "path": "rings", "task": "graph-classification"}
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
