"""Which room may know which, and how long a file may be."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "sstcast"
UPPER = {"training", "evaluation", "forecasting", "benchmarks", "cli"}
FORBIDDEN = {"sources": UPPER, "ocean": UPPER | {"sources"}, "graphs": UPPER, "models": UPPER | {"ocean"}}


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


@pytest.mark.parametrize("room", FORBIDDEN)
def test_lower_rooms_do_not_know_the_upper_ones(room: str) -> None:
    files = list((PACKAGE / room).glob("**/*.py"))
    assert files
    for path in files:
        rooms = {name.split(".")[1] for name in imports(path) if name.startswith("sstcast.")}
        assert not rooms & FORBIDDEN[room], path


def test_files_stay_short() -> None:
    lengths = {path: len(path.read_text().splitlines()) for path in PACKAGE.glob("**/*.py")}
    assert max(lengths.values()) <= 400, max(lengths, key=lengths.__getitem__)
