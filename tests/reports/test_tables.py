"""Printed tables: every number is whole, however little room the names of the systems leave."""

from itertools import pairwise

import pytest

from sstcast.figures.printing import _parts_that_fit, print_sheets
from sstcast.figures.sheets.sheet import Sheet

HEADER = ["RMSE", "95 %", "bias", "MSE ratio", "95 %", "CRPS", "in 50 %", "in 80 %", "in 95 %", "day 1", "day 7"]
CELLS = ["0.953", "0.848..1.063", "-0.096", "0.974", "0.927..1.026", "0.5248", "44.4%", "73.0%", "90.1%", "0.479"]


@pytest.mark.parametrize("length", range(1, 90, 4))
def test_no_number_is_cut_or_broken(length: int, capsys: pytest.CaptureFixture[str]) -> None:
    print_sheets([Sheet("Errors", HEADER, [("n" * length, [*CELLS, "0.821"])])])
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 140
    printed = [word for line in lines if line.lstrip().startswith("n" * length) for word in line.split()[1:]]
    assert printed == [*CELLS, "0.821"]
    assert all(any(heading in line for line in lines) for heading in HEADER)


def test_each_part_of_a_table_is_as_full_as_it_can_be() -> None:
    least = [max(len(head), len(cell)) for head, cell in zip(HEADER, [*CELLS, "0.821"], strict=True)]
    for width in range(40, 141, 10):
        parts = _parts_that_fit(Sheet("", HEADER, [("name", [*CELLS, "0.821"])]), width)
        assert [column for part in parts for column in part] == [*range(len(HEADER))]
        space = width - 3 - len("name")
        for part, after in pairwise(parts):
            assert sum(2 + of for of in part.values()) <= space
            assert sum(2 + least[column] for column in part) + 2 + least[next(iter(after))] > space
            assert [part[column] for column in part] == [least[column] for column in part]
