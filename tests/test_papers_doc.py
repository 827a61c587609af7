"""docs/papers.md: whatever it names exists, and its numbers of ours stand in the pages that measured them."""

import ast
import re
import shlex
from pathlib import Path

import pytest
import torch
from typer.main import get_command

from sstcast.benchmarks.config import BenchmarkConfig, load_benchmark
from sstcast.cli import app
from sstcast.models import build_model
from studies import STUDIES

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "docs/papers.md").read_text()
PAGES = [(ROOT / f"docs/{page}.md").read_text() for page in ("results", "graph-results", "studies")]
SECTIONS = [section for page in PAGES for section in re.split(r"^#+ ", page, flags=re.MULTILINE)]
LINES = [line for line in TEXT.splitlines() if line.startswith("|")]
ROWS = [[cell.strip() for cell in line.split("|")[1:-1]] for line in LINES]
COMMANDS = sorted(set(re.findall(r"`(?:sstcast|python -m) ([^`]+)`", TEXT)))


def test_every_table_has_four_columns() -> None:
    assert sum(row == ["in the paper", "here", "shown by", "numbers"] for row in ROWS) == 5
    assert {len(row) for row in ROWS} == {4}


def test_files_exist() -> None:
    named = set(re.findall(r"`((?:sstcast|studies|tests|configs|docs|perf)/[^`:]*)", TEXT))
    assert len(named) > 80
    assert not [name for name in named if not (ROOT / name).exists()]


def test_tests_exist() -> None:
    named = set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", TEXT))
    assert len(named) > 60
    defined = {
        (path, node.name)
        for path in {path for path, _ in named}
        for node in ast.parse((ROOT / path).read_text()).body
        if isinstance(node, ast.FunctionDef)
    }
    assert not named - defined


def test_links_lead_to_a_heading() -> None:
    for target in re.findall(r"\]\(([^):]+)\)", TEXT):
        path, _, heading = target.partition("#")
        page = ROOT / "docs" / path
        assert page.exists(), target
        headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE) if heading else []
        slugs = [re.sub(r"[^\w -]", "", text).lower().replace(" ", "-") for text in headings]
        assert not heading or heading in slugs, target


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_can_be_given(command: str) -> None:
    """A benchmark's data set, model and options exist and fit together; its network is built without memory."""
    verb, *arguments = shlex.split(command)
    if verb == "studies":
        assert arguments[0] in STUDIES
    elif verb == "benchmark":
        build(configured(arguments))
    else:
        assert verb in get_command(app).commands  # type: ignore[attr-defined]
        assert not arguments


def configured(arguments: list[str]) -> BenchmarkConfig:
    dataset, flag, model, *rest = arguments
    assert flag == "--model"
    assert set(rest[::2]) <= {"--set"}
    return load_benchmark(dataset, model, None, rest[1::2])


def build(config: BenchmarkConfig) -> None:
    with torch.device("meta"):
        model = build_model(config.model.name, **config.model.options)
    assert set(config.stages) <= set(model.stages)


def test_numbers_of_ours_were_measured() -> None:
    """All numbers of a row stand in one section; `;` ends ours, and what follows is theirs, or a remark."""
    ours = [part for row in ROWS for part in row[3].split(";") if part.strip().startswith("ours")]
    assert len(ours) > 15
    for part in ours:
        numbers = set(re.findall(r"\d+(?:\.\d+)?", part))
        found = [set(re.findall(r"\d+(?:\.\d+)?", section.replace(",", ""))) for section in SECTIONS]
        assert any(numbers <= known for known in found), part
