"""Allowed imports between folders, and the length of files."""

import ast
import re
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import sstcast

PACKAGE = Path(__file__).parents[1] / "sstcast"
# A folder imports only those named after it on its lines.
LINES = (
    ("reports", "figures", "papers", "hindcasts", "scores", "forecasting", "training", "models", "graphs"),
    ("benchmarks", "training", "models", "graphs"),
    ("forecasting", "extremes", "ocean", "predictors", "reading"),
    ("forecasting", "sources", "reading"),
    ("forecasting", "extremes", "places", "reading"),
)
ROOMS = {room for line in LINES for room in line}
EDGES = {
    room: {"extremes", "ocean", "places", "predictors", "reading"}
    for room in ("scores", "hindcasts", "figures", "reports")
}
EDGES |= {"training": {"ocean"}, "ocean": {"graphs"}, "papers": {"ocean", "sources", "reading"}}


def imports(path: Path, anywhere: bool = True) -> set[str]:
    """Return what a module imports: anywhere, or when it is imported, not within functions nor for types alone."""
    tree, found = ast.parse(path.read_text()), set()
    for node in ast.walk(tree) if anywhere else tree.body:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def allowed(room: str) -> set[str]:
    """Return the folders that one may import: itself, those below it, and the edges between lines."""
    below = {room} | EDGES.get(room, set())
    for line in LINES:
        if room in line:
            below |= set(line[line.index(room) :])
    return below


@pytest.mark.parametrize("room", sorted(ROOMS))
def test_arrows_go_down(room: str) -> None:
    files = list((PACKAGE / room).glob("**/*.py"))
    assert files
    for path in files:
        known = {name.split(".")[1] for name in imports(path) if name.startswith("sstcast.")}
        assert not (known & ROOMS) - allowed(room), path


@pytest.mark.parametrize("room", ["reading", "scores"])
def test_the_page_has_a_line_for_each_file(room: str) -> None:
    page = (PACKAGE.parent / "docs/architecture.md").read_text()
    _, section = page.split(f"## The files of `{room}`")
    named = set(re.findall(r"`(\w+\.py)`", section.partition("\n## ")[0]))
    assert named == {path.name for path in (PACKAGE / room).glob("*.py")} - {"__init__.py"}


def test_files_import_one_another_one_way() -> None:
    """Also imports for types alone, or within functions; the files of `reports` are not asked."""
    files = {
        f"sstcast.{'.'.join(path.with_suffix('').relative_to(PACKAGE).parts)}": path
        for path in PACKAGE.rglob("*.py")
        if path.parent.name != "reports" and path.name != "__init__.py"
    }
    known = {name: {imported.rpartition(".")[0] for imported in imports(path)} for name, path in files.items()}
    TopologicalSorter({name: others & files.keys() for name, others in known.items()}).prepare()


def test_no_folder_has_the_name_of_a_public_function() -> None:
    # Importing `sstcast.NAME.module` would replace the function `sstcast.NAME`.
    folders = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert len(folders) >= len(ROOMS)
    assert not folders & set(sstcast.__all__)


def test_what_all_use_imports_no_folder() -> None:
    top = [path for path in PACKAGE.glob("*.py") if path.stem not in ("cli", "__init__")]
    for path in [*top, *(PACKAGE / "storage").glob("*.py")]:
        known = {name.split(".")[1] for name in imports(path) if name.startswith("sstcast.")}
        assert not known & (ROOMS | {"api"}), path


def test_what_is_there_is_shown_without_pytorch() -> None:
    files = [*(PACKAGE / "figures").glob("*.py"), *(PACKAGE / "reports").glob("*.py")]
    making = ("table5", "update")  # these train and forecast
    shown = [f"{file.parent.name}.{file.stem}" for file in files if file.stem not in making]
    imports = "".join(f"import sstcast.{name}\n" for name in sorted(shown))
    code = f"import sys\n{imports}print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"


def test_modules_import_one_another_in_no_circle() -> None:
    names = {
        ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts): path for path in PACKAGE.rglob("*.py")
    }
    names = {name.removesuffix(".__init__"): path for name, path in names.items()}
    graph = {
        name: {found if found in names else found.rpartition(".")[0] for found in imports(path, anywhere=False)}
        & names.keys()
        for name, path in names.items()
    }
    assert list(TopologicalSorter(graph).static_order())


def test_files_stay_short() -> None:
    files = [path for path in PACKAGE.glob("**/*") if path.suffix in (".py", ".js", ".html")]
    lengths = {path: len(path.read_text().splitlines()) for path in files}
    assert max(lengths.values()) <= 500, max(lengths, key=lengths.__getitem__)


def test_every_kind_of_score_has_a_file_and_a_sheet_of_its_own() -> None:
    from sstcast.figures.sheets import SHEETS
    from sstcast.scores.kinds import KINDS

    names = [kind.__module__.rpartition(".")[2] for kind in KINDS]
    shown = {sheet.__module__.rpartition(".")[2] for functions in SHEETS.values() for sheet in functions}
    assert shown == set(names)
    kinds = {path.stem for path in (PACKAGE / "scores/kinds").glob("*.py")} - {"__init__", "kind"}
    assert kinds == set(names)
    for path in (PACKAGE / "figures/sheets").glob("*.py"):
        assert not any(name.startswith("matplotlib") for name in imports(path)), path
