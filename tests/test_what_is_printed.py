"""No name in a file reaches the terminal as a command to it."""

import ast
from pathlib import Path

import pytest

import sstcast
from sstcast.figures.printing import print_sheets
from sstcast.figures.sheets.sheet import Sheet
from sstcast.log import show

RED = "\x1b[31mred\x9b5m"


def test_lines_are_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    show(RED, Path(RED), "two\nlines")
    assert capsys.readouterr().out == "\\x1b[31mred\\x9b5m\n" * 2 + "two\\nlines\n"


def test_tables_are_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    print_sheets([Sheet(RED, [RED], [(RED, [RED])])], heading=RED, note=f"{RED}\n{RED}")
    told = capsys.readouterr().out
    assert told.count("\\x1b[31mred") == 7
    assert all(character.isprintable() for character in told.replace("\n", ""))


def test_nothing_else_prints_on_standard_output() -> None:
    package = Path(sstcast.__file__).parent
    calls = [
        (file.relative_to(package).as_posix(), ast.unparse(call))
        for file in sorted(package.rglob("*.py"))
        for call in ast.walk(ast.parse(file.read_text()))
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "print"
    ]
    assert {file for file, text in calls if "file=sys.stderr" not in text} == {"log.py"}
