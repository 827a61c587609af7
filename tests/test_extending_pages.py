"""What docs/extending.md tells to write, tested in a copy of the repository."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from documentation import EXTENDING, blocks

PROJECT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the repository in which the pages have been followed."""
    folder = tmp_path_factory.mktemp("followed")
    for name in ("sstcast", "tests"):
        shutil.copytree(PROJECT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "*.tar.xz"))
    for path in PROJECT.iterdir():
        if path.name[0] != "." and path.name not in ("sstcast", "tests", "runs"):
            (folder / path.name).symlink_to(path)
    model, entry, _ = blocks(EXTENDING, "A network")
    (folder / "sstcast/models/diffusion.py").write_text(model)
    insert(folder / "sstcast/models/registry.py", r"^MODELS\b.*{\n", entry)
    metric = re.search(r"^class .*?(?=^METRICS)", blocks(EXTENDING, "A metric")[0], re.M | re.S)
    assert metric
    insert(folder / "sstcast/scores/metrics.py", r"^(?=METRICS\b)", f"{metric[0]}\n\n")
    insert(folder / "sstcast/scores/metrics.py", r"for metric in \((?=mse)", "Misses(), ")
    (kind,), (table,), (test,) = (blocks(EXTENDING, of) for of in ("The class", "The table", "A test"))
    (folder / "sstcast/scores/kinds/patterns.py").write_text(kind)
    (folder / "sstcast/figures/sheets/patterns.py").write_text(table)
    (folder / "tests/scores/test_patterns.py").write_text(test)
    kinds, sheets = (folder / f"sstcast/{name}/__init__.py" for name in ("scores/kinds", "figures/sheets"))
    insert(kinds, r"^(?=KINDS)", "from sstcast.scores.kinds.patterns import Patterns\n\n")
    insert(kinds, r"^KINDS.*Events(?=\))", ", Patterns")
    insert(sheets, r"^from sstcast.figures.sheets import above", ", patterns")
    insert(sheets, r'^    "scores": .*by_index(?=\])', ", patterns.patterns")
    return folder


def insert(file: Path, after: str, text: str) -> None:
    """Insert a text behind the only place that a pattern matches."""
    changed, count = re.subn(f"({after})", lambda match: match[0] + text, file.read_text(), flags=re.M)
    assert count == 1
    file.write_text(changed)


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ("tests/models/test_models.py", "tests/models/test_invariance.py", "-k", "diffusion or presets or each"),
        ("tests/papers/test_numbers.py",),
        ("tests/scores/test_metrics.py",),
        (
            *("tests/scores/test_patterns.py", "tests/scores/test_evaluate.py", "tests/test_architecture.py"),
            *("-k", "patterns or every_kind or table_of_the_command"),
        ),
    ],
    ids=["models", "papers", "metrics", "scores"],
)
def test_the_tests_of_a_contributor_pass(copy: Path, arguments: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *arguments]
    done = subprocess.run(
        command, cwd=copy, env=os.environ | {"PYTHONPATH": str(copy)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
