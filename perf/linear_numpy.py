"""The linear systems in plain NumPy on five folds of the years 1997 to 2016, each trained on all years before it.

python perf/linear_numpy.py FILE.nc    # daily sst(time, lat, lon) in degC, NaN on land; 20 minutes
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr

sys.path.insert(0, str(Path(__file__).parents[1] / "tests/helpers"))
from linear_reference import BOXES, Inputs, by_years, cross_validated

FOLDS = [(year, year + 3) for year in range(1997, 2014, 4)]


def main(path: str) -> None:
    sst = next(v for v in xr.open_dataset(path).data_vars.values() if v.ndim == 3).sel(time=slice("1982", "2016"))
    sst = sst[:, 1:31, 1:31] if sst.shape[1:] == (32, 32) else sst
    days, values = pd.DatetimeIndex(sst.time.values), sst.values.astype("f8")
    years, ocean = days.year.values, ~np.isnan(values).any(0)
    angle = 2 * np.pi * days.day_of_year.values[:, None] / 365.25
    season = np.hstack([np.ones_like(angle), *(f(k * angle) for k in (1, 2, 3) for f in (np.sin, np.cos))])
    errors: dict[str, list[np.ndarray]] = {}
    history, horizon = 42, 28

    def starts(first: int, last: int, step: int) -> np.ndarray:
        """Initial dates of windows that lie within some years."""
        at = np.flatnonzero((years >= first) & (years <= last))
        return np.arange(at[0] + history - 1, at[-1] + 1 - horizon - 1, step)

    for first, last in FOLDS:
        known, cells = years < first, values[:, ocean]
        anomaly = cells - season @ np.linalg.lstsq(season[known], cells[known], rcond=None)[0]
        scale = anomaly[known].std()
        z = (anomaly / scale).astype("f4")
        field = np.zeros(values.shape, "f4")
        field[:, ocean] = z
        vectors = np.linalg.svd(z[known][::3], full_matrices=False)[2][:20]
        pc = z @ vectors.T / np.sqrt(len(vectors.T))

        def truth(at: np.ndarray, z: np.ndarray = z) -> np.ndarray:
            return np.stack([z[day + 1 : day + 1 + horizon] for day in at])

        def state(at: np.ndarray, pc: np.ndarray = pc) -> np.ndarray:
            """Inputs of the local correction."""
            parts, waves = [pc[at - lag] for lag in (0, 3, 7, 14, 28, 41)], (np.sin(angle[at]), np.cos(angle[at]))
            return np.hstack([*parts, *waves, *(parts[0] * wave for wave in waves)])

        train, test = starts(1982, first - 1, 7), starts(first, last, 3)
        for groups in ((), ("memory",), ("stencil",), ("memory", "stencil")):
            inputs = Inputs(field, ocean, history, groups)
            blocks = [inputs.sums_of(z, block, horizon) for block in by_years(train, years)]
            weights, _ = cross_validated(blocks, len(BOXES) * history)
            name = " + ".join(("multiscale", *groups))
            pooled = {k: np.stack([(inputs.at(d) @ weights).T for d in at]) for k, at in (("test", test),)}
            errors.setdefault(name, []).append((pooled["test"] - truth(test)) ** 2 * scale**2)
            at = starts(1982, first - 1, 5)
            x, rest = state(at), truth(at) - np.stack([(inputs.at(d) @ weights).T for d in at])
            mean, deviation = x.mean(0), x.std(0)
            x = (x - mean) / deviation
            local = np.linalg.solve(x.T @ x + 1e4 * np.eye(x.shape[1]), x.T @ rest.reshape(len(at), -1))
            corrected = pooled["test"] + ((state(test) - mean) / deviation @ local).reshape(pooled["test"].shape)
            errors.setdefault(f"{name}, local", []).append((corrected - truth(test)) ** 2 * scale**2)
            for system in (name, f"{name}, local"):
                print(f"{first} {system:40} {errors[system][-1].mean():.4f}", flush=True)
    for name, parts in errors.items():
        every = np.concatenate(parts)
        leads = " ".join(f"{every[:, lead - 1].mean():.4f}" for lead in (1, 7, 14, 28))
        print(f"{name:40} {every.mean():.4f} | folds {' '.join(f'{p.mean():.4f}' for p in parts)} | leads {leads}")


if __name__ == "__main__":
    main(sys.argv[1])
