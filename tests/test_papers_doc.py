"""docs/papers.md: each row is shown by something, and all that it names exists and runs in a clone.

`pytest -v tests/test_papers_doc.py -k shown` lists the rows with what shows them.
"""

import ast
import re
import shlex
from pathlib import Path

import pytest
import torch
from numbers_of_papers import PAPERS, checked_presets
from typer.main import get_command

from sstcast.benchmarks.config import load_benchmark, presets_of
from sstcast.cli import app
from sstcast.models import build_model
from sstcast.storage.paths import packaged
from studies import STUDIES

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "docs/papers.md").read_text()
MEASURED = ("docs/results.md", "docs/graph-results.md", "studies/README.md", "perf/log.md")
PAGES = [(ROOT / page).read_text() for page in MEASURED]
SECTIONS = [section for page in PAGES for section in re.split(r"^#+ ", page, flags=re.MULTILINE)]
LINES = [line for line in TEXT.splitlines() if line.startswith("|")]
ROWS = [[cell.strip() for cell in line.split("|")[1:-1]] for line in LINES]
COMMANDS = sorted(set(re.findall(r"`(?:sstcast|python -m) ([^`]+)`", TEXT)))
TESTS = set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", TEXT))
CLAIMS = [row for row in ROWS if row[0] != "in the paper" and not set(row[0]) <= set("-")]
# Presets whose sizes the papers leave open, or which are not theirs.
UNPRINTED = {"gps", "gps-lap", "gps-rwse", "gps-no-conv-lap", "gps-no-conv-rwse", "lsat", "sapdgt"}
UNPRINTED |= {f"{dataset}/{name}" for dataset in ("zinc", "ogbg-molhiv", "csl") for name in ("tokengt", "gine-vn")}
UNPRINTED |= {"ogbg-molhiv/gps-deepsets", "ogbg-molhiv/gps-deepsets-nope", "peptides-func/gcn-rwse-vn"}
UNPRINTED |= {"zinc/tokengt-orf", "zinc/tokengt-none", "zinc/tokengt-performer"}


def test_files_exist() -> None:
    named = set(re.findall(r"`((?:sstcast|studies|tests|configs|docs|perf)/[^`:]*)", TEXT))
    assert len(named) > 60
    assert not [name for name in named if not (ROOT / name).exists()]


@pytest.mark.parametrize("row", CLAIMS, ids=[f"{row[0]}: shown by {row[2]}" for row in CLAIMS])
def test_each_row_is_shown_by_a_test_a_command_or_an_option(row: list[str]) -> None:
    """Or cannot be run here; and what is exact has a test."""
    text = " | ".join(row)
    assert "not yet" not in text
    test = re.search(r"`tests/[\w/]+\.py::\w+`", text)
    command = re.search(r"`(sstcast|python -m studies|make) [^`]+`", text)
    option = re.search(r"`model\.\w+=[^`]+`", text)
    assert test or command or option or "cannot be run here" in text
    assert test or not re.match("exact", row[3])


@pytest.mark.parametrize("path", sorted({path for path, _ in TESTS}))
def test_tests_exist_and_run_in_a_clone(path: str) -> None:
    """No test of a named file is ever skipped, and none reads what is not in the repository."""
    text = (ROOT / path).read_text()
    tree = ast.parse(text)
    defined = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert not {name for of, name in TESTS if of == path} - defined
    words = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert not words & {"skip", "skipif", "importorskip", "xfail"}
    assert "shared/" not in text


def test_presets_are_those_whose_numbers_are_compared() -> None:
    """`papers/test_numbers.py` compares their numbers with the papers', unless these print none."""
    cited = set(re.findall(r"`([\w-]+)/([\w-]+)`", TEXT))
    assert not {f"{dataset}/{name}" for dataset, name in cited if name not in presets_of(dataset)}
    left = cited - checked_presets()
    assert not {f"{dataset}/{name}" for dataset, name in left if not {name, f"{dataset}/{name}"} & UNPRINTED}
    assert len(cited - left) > 35
    of_sst = set(re.findall(r"configs/models/paper/([\w-]+)\.yaml", TEXT)) - {"sapdgt"}
    assert of_sst == set(PAPERS["mpnn-gt"]["Table 5"])


def test_numbers_of_theirs_ship() -> None:
    """Numbers with three decimals or more that a row calls theirs are in the two files of the papers' numbers."""
    files = [packaged(f"configs/benchmarks/{name}.yaml").read_text() for name in ("papers", "published")]
    known = {float(number) for text in files for number in re.findall(r"\d+\.\d+", text)}
    theirs = [part for row in CLAIMS for part in row[3].split(";") if part.strip().startswith("theirs")]
    assert len(theirs) > 40
    for part in theirs:
        assert {float(n) for n in re.findall(r"(?<![\d.])0\.\d{3,}", part)} <= known, part


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_can_be_given(command: str) -> None:
    """A benchmark's data set, model and options exist and fit together; its network is built without memory."""
    verb, *arguments = shlex.split(command)
    if verb == "studies":
        assert arguments[0] in STUDIES
    elif verb == "benchmark":
        dataset, flag, preset, *rest = arguments
        assert {flag, *rest[::2]} <= {"--model", "--set"}
        config = load_benchmark(dataset, preset, None, rest[1::2])
        with torch.device("meta"):
            model = build_model(config.model.name, **config.model.options)
        assert set(config.stages) <= set(model.stages)
    else:
        known = get_command(app).commands[verb]  # type: ignore[attr-defined]
        assert {a for a in arguments if a.startswith("-")} <= {name for p in known.params for name in p.opts}


def test_numbers_of_ours_were_measured() -> None:
    """All numbers of a row stand in one section; `;` ends ours, and what follows is theirs, or a remark."""
    ours = [part for row in ROWS for part in row[3].split(";") if part.strip().startswith("ours")]
    assert len(ours) > 15
    for part in ours:
        numbers = set(re.findall(r"\d+(?:\.\d+)?", part))
        found = [set(re.findall(r"\d+(?:\.\d+)?", section.replace(",", ""))) for section in SECTIONS]
        assert any(numbers <= known for known in found), part
