"""The text of the table of places, and the shares of areas that it tells of."""

import numpy as np
import pandas as pd
import pytest

from sstcast.errors import SSTCastError
from sstcast.forecasting.places import _as_text, parse_shares


def test_cells_of_the_table_are_written_as_pandas_writes_them() -> None:
    names = ["a, b", 'the "reef"', "two\nlines", "plain", "plain"]
    values = np.array([20.00004, np.nan, -0.25, 1e-7, 1e9], np.float32)
    days = pd.to_datetime(["2004-03-10", None, "2004-03-12", "2004-03-10", "2004-03-11"])
    leads = np.array([1, None, 2, 1, 28], object)
    table = pd.DataFrame({"place": names, "sst": values, "valid_time": days, "lead": leads})
    rounded = table.assign(sst=table["sst"].astype(float).round(4))
    rows = zip(*(_as_text(table[name]) for name in table), strict=True)
    assert "".join(f"{','.join(row)}\n" for row in rows) == rounded.to_csv(
        index=False, header=False, date_format="%Y-%m-%d"
    )


def test_shares_are_read_in_any_order_and_once() -> None:
    assert parse_shares("50, 10,10") == (10, 50)
    assert parse_shares("100") == (100,)
    assert parse_shares(10.0) == (10,)
    assert parse_shares([50, 10]) == (10, 50)
    for wrong in ("0", "101", "", "10;20", None, 0.0, ["a"]):
        with pytest.raises(SSTCastError, match="--share"):
            parse_shares(wrong)
