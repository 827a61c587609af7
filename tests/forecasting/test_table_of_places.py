"""The text of the table of places."""

import numpy as np
import pandas as pd

from sstcast.forecasting.places import _as_text


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
