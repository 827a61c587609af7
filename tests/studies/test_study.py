"""How studies run: what is on disk is not measured again."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
import torch
from matplotlib.figure import Figure
from torch import nn

import studies
from sstcast.errors import SSTCastError
from studies.__main__ import main
from studies.study import Study, fit, run_study


class Squares:
    """A study of squares that counts its measurements and may be interrupted at one of them."""

    def __init__(self, numbers: tuple[int, ...], stop: int | None = None) -> None:
        self.numbers, self.stop, self.measured = numbers, stop, list[int]()

    def measure(self, number: int, name: str) -> Iterator[dict[str, float]]:
        if number == self.stop:
            raise KeyboardInterrupt
        self.measured.append(number)
        yield {"power": 2, "value": number**2}
        yield {"power": 3, "value": number**3}

    def study(self) -> Study:
        cases = [{"number": number, "name": "none"} for number in self.numbers]
        return Study(cases, self.measure, lambda rows: rows[["number", "value"]], lambda rows: Figure())


def test_a_study_writes_its_rows_table_and_figure_once(tmp_path: Path) -> None:
    squares = Squares((2, 3))
    page, new = run_study(squares.study(), tmp_path / "squares")
    assert new
    assert page.startswith(
        "| number | value |\n| --- | --- |\n| 2 | 4 |\n| 2 | 8 |\n| 3 | 9 |\n| 3 | 27 |\n\nsstcast "
    )
    assert {path.name for path in (tmp_path / "squares").glob("[!.]*")} == {"rows.csv", "figure.png", "table.md"}
    assert (tmp_path / "squares/figure.png").read_bytes().startswith(b"\x89PNG")
    assert list(pd.read_csv(tmp_path / "squares/rows.csv")) == ["number", "name", "power", "value"]
    assert run_study(squares.study(), tmp_path / "squares") == (page, False)
    assert squares.measured == [2, 3]


def test_more_cases_measure_only_what_is_missing(tmp_path: Path) -> None:
    run_study(Squares((2, 3)).study(), tmp_path)
    more = Squares((3, 4))
    page, new = run_study(more.study(), tmp_path)
    assert new
    assert more.measured == [4]
    assert "| 3 | 9 |\n| 3 | 27 |\n| 4 | 16 |\n| 4 | 64 |" in page
    assert "| 2 |" not in page


@pytest.mark.parametrize("content", [b"", b"other,columns\n1,2\n", b'"cut'])
def test_rows_that_are_no_rows(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "rows.csv").write_bytes(content)
    with pytest.raises(SSTCastError, match=r"rows\.csv: not the rows of this study; delete the file"):
        run_study(Squares((2,)).study(), tmp_path)


def test_the_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    def run(study: Squares) -> tuple[int, str, str]:
        monkeypatch.setattr(studies, "build_study", lambda name, root: study.study())
        monkeypatch.setattr(sys, "argv", ["studies", "squares", "--out", str(tmp_path)])
        try:
            main()
        except SystemExit as end:
            return int(end.code or 0), *capsys.readouterr()
        return 0, *capsys.readouterr()

    code, _, err = run(Squares((2, 3), stop=3))
    assert code == 130
    assert err == "interrupted; re-run the command to finish\n"
    resumed = Squares((2, 3))
    code, out, _ = run(resumed)
    assert (code, resumed.measured) == (0, [3])
    assert "| 3 | 27 |" in out
    assert out.endswith("squares: written\n")
    code, out, _ = run(resumed)
    assert "| 3 | 27 |" in out
    assert out.endswith("squares: nothing to do\n")


def test_every_study_builds_and_an_unknown_one_is_named() -> None:
    for name in studies.STUDIES:
        study = studies.build_study(name)
        assert len({tuple(case.items()) for case in study.cases}) == len(study.cases) > 0
    with pytest.raises(SSTCastError, match=r"no study 'attention-cots' .did you mean 'attention-cost'"):
        studies.build_study("attention-cots")


def test_fit_finds_the_least_squares() -> None:
    torch.manual_seed(0)
    x, model = torch.randn(100, 3), nn.Linear(3, 1)
    y = x @ torch.tensor([[1.0], [-2.0], [0.5]]) + 3 + 0.1 * torch.randn(100, 1)
    fit(model, lambda step: (model(x) - y).square().mean(), steps=300, rate=0.1)
    best = torch.linalg.lstsq(torch.cat([x, torch.ones(100, 1)], dim=1), y).solution.squeeze(1)
    torch.testing.assert_close(torch.cat([model.weight[0], model.bias]), best, rtol=0, atol=1e-3)
