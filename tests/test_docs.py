"""The documentation site builds strictly and needs no network; the code of the README and its pages runs."""

import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch
import yaml
from documentation import EXTENDING, ROOT, blocks

import sstcast
from sstcast.graphs.grid import GridGraph
from sstcast.scores.metrics import METRICS


def test_the_examples_of_the_readme_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # no checkout here: the packaged configuration is found
    (graphs, forecast), names = blocks("README.md"), {}
    exec(graphs, names)
    assert 0 <= names["result"]["test"] <= 1
    assert names["y"].shape == (34, 64)
    exec(forecast, names)
    assert len(names["windows"]) == 11_253
    assert names["batch"].history.shape == (20, 900, 42)
    assert names["forecast"].shape == (20, 900, 28)
    assert names["loss"].isfinite()


def test_links_lead_somewhere() -> None:
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_yaml_of_the_pages_can_be_parsed() -> None:
    found = [
        (page.name, block)
        for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
        for block in re.findall(r"^ *```ya?ml\n(.*?)^ *```", page.read_text(), re.M | re.S)
    ]
    assert len(found) >= 7
    for name, block in found:
        assert isinstance(yaml.safe_load(textwrap.dedent(block)), dict), name


def test_the_block_on_delays_reads_the_scores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    leads = range(1, 29)
    mse = {"model": [n / 100 for n in leads], "climatology": [1.0] * 28, "trend climatology": [0.5] * 28}
    scores = {name: {"degC": {"by_lead": {"mse": values}}} for name, values in mse.items()}
    (tmp_path / "runs/demo").mkdir(parents=True)
    (tmp_path / "runs/demo/metrics.json").write_text(json.dumps({"scores": scores}))
    monkeypatch.chdir(tmp_path)
    [block] = blocks("docs/operations.md")
    assert len(block.splitlines()) <= 8
    exec(block, {})
    assert capsys.readouterr().out.splitlines()[1] == "day 7 0.14 0.16 0.18 0.20"


def test_the_page_for_tools_names_commands_that_exist() -> None:
    text = (ROOT / "AGENTS.md").read_text()
    assert len(text.splitlines()) <= 25
    targets = re.findall(r"^([\w./-]+)(?: [\w./-]+)*:", (ROOT / "Makefile").read_text(), re.M)
    commands = re.findall(r"`make ([^ `]+)`", text)
    assert {"demo", "test"} <= {*commands} <= {*targets}
    assert all((ROOT / target).exists() for target in re.findall(r"\]\(([^)#:]+)\)", text))
    [test] = re.findall(r"pytest -q (\S+)", text)
    assert (ROOT / test).exists()


def test_the_site_builds_and_is_whole(tmp_path: Path) -> None:
    """Strictly: broken links and undocumented public names fail."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT)}
    built = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert built.returncode == 0, built.stdout + built.stderr
    functions = (tmp_path / "reference/functions.html").read_text()
    for name in sstcast.__all__:
        found = getattr(sstcast, name)
        assert f'id="{found.__module__}.{found.__qualname__}"' in functions
    for page in tmp_path.rglob("*.html"):
        elsewhere = re.findall(r'<(?:script|img|link)[^>]*(?:src|href)="https?://[^"]*"', page.read_text())
        assert not elsewhere, (page.name, elsewhere)


def test_the_model_of_the_page_is_a_backbone() -> None:
    names: dict = {}
    exec(blocks(EXTENDING, "A network")[0], names)
    model = names["Diffusion"](width=8)
    graph = GridGraph(3, 4, torch.ones(2, 12, dtype=torch.bool))
    x = torch.randn(2, 12, 8)
    assert model(x, graph).shape == x.shape


def test_the_metric_of_the_page_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    names: dict = {}
    monkeypatch.setitem(METRICS, "misses", None)  # removed again after the test
    for block in blocks(EXTENDING, "A metric"):
        exec(block, names)
    assert names["Misses"]()(names["forecast"], names["truth"], ["init_time"]).values.tolist() == [1, 1]
