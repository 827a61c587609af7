"""The linear systems with long memory and a stencil in plain NumPy: an oracle for tests."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.ndimage import uniform_filter

PERIODS = ((42, 90), (90, 180), (180, 365))  # days before the initial date, the last not included
AROUND = (1, 7, 15, 0)  # sides of the boxes that long means are taken of; 0 is the whole domain
BOXES = (1, 3, 7, 15, 0)
OFFSETS = [(r * n, c * n) for n in (2, 4) for r, c in ((-1, 0), (1, 0), (0, 1), (0, -1))]
LAGS = (0, 3, 7, 14, 28)
PENALTIES = {"multiscale": (1e2, 3e2, 1e3, 3e3, 1e4, 3e4, 1e5), "new": (1e4, 3e4, 1e5, 3e5, 1e6)}


class Sums(NamedTuple):
    """`x.T @ x`, `x.T @ y` and the squares of `y`, summed over rows."""

    gram: np.ndarray
    cross: np.ndarray
    squares: np.ndarray


def box_mean(field: np.ndarray, ocean: np.ndarray, size: int) -> np.ndarray:
    """Mean of `field [..., H, W]` over the ocean of a box around each ocean cell; 0 on land."""
    if size == 0:
        return field[..., ocean].mean(-1)[..., None, None] * ocean
    sides = (*[1] * (field.ndim - 2), size, size)
    total = uniform_filter(field * ocean, sides, mode="constant")
    share = uniform_filter(ocean.astype(float), size, mode="constant")
    return np.where(ocean, total / np.where(ocean, share, 1), 0).astype(field.dtype)


def shifted(field: np.ndarray, rows: int, cols: int) -> np.ndarray:
    """Return the value of `field [..., H, W]` that many rows and columns on; 0 outside."""
    height, width = field.shape[-2:]
    wide = np.pad(field, [(0, 0)] * (field.ndim - 2) + [(abs(rows),) * 2, (abs(cols),) * 2])
    return wide[..., abs(rows) + rows :, abs(cols) + cols :][..., :height, :width]


class Inputs:
    """What a system sees at an initial date, of standardised anomalies `z [T, H, W]`, 0 on land."""

    def __init__(self, z: np.ndarray, ocean: np.ndarray, history: int = 42, groups: Sequence[str] = ()) -> None:
        self.history, self.groups = history, groups
        self.boxes = [box_mean(z, ocean, size)[:, ocean] for size in BOXES]
        self.around = [self.boxes[BOXES.index(size)] for size in AROUND]
        self.stencil = [shifted(box_mean(z, ocean, 3), *offset)[:, ocean] for offset in OFFSETS]
        self.sums = [np.concatenate([0 * f[:1], f]).cumsum(0, dtype="f8") for f in self.around]

    def at(self, day: int) -> np.ndarray:
        """Return the inputs `[cells, inputs]` at the initial date number `day`, the last is 1.

        Days before the first count as days without anomaly.
        """
        parts = [f[day + 1 - self.history : day + 1] for f in self.boxes]
        if "memory" in self.groups:
            ends = [(max(0, day + 1 - last), max(0, day + 1 - first), last - first) for first, last in PERIODS]
            parts += [np.stack([(s[b] - s[a]) / count for a, b, count in ends]) for s in self.sums]
        if "stencil" in self.groups:
            lags = [lag for lag in LAGS if lag < self.history]
            parts += [f[[day - lag for lag in lags]] for f in self.stencil]
        return np.concatenate([*parts, np.ones((1, parts[0].shape[1]))]).T.astype(parts[0].dtype)

    def sums_of(self, z: np.ndarray, days: Sequence[int], horizon: int) -> Sums:
        """Sum over initial dates, with targets `z [T, cells]`."""
        total = Sums(np.zeros(()), np.zeros(()), np.zeros(()))
        for day in days:
            x, y = self.at(day), z[day + 1 : day + 1 + horizon].T
            terms = Sums((x.T @ x).astype("f8"), (x.T @ y).astype("f8"), (y**2).sum(0, dtype="f8"))
            total = Sums(*(old + new for old, new in zip(total, terms, strict=True)))
        return total


def solve(sums: Sums, first: float, second: float, multiscale: int) -> np.ndarray:
    """Ridge weights: a penalty on the inputs of the multiscale ridge, one on the others, none on the constant."""
    penalty = np.full(len(sums.gram), second)
    penalty[:multiscale], penalty[-1] = first, 0
    return np.linalg.solve(sums.gram + np.diag(penalty), sums.cross)


def cross_validated(blocks: Sequence[Sums], multiscale: int) -> tuple[np.ndarray, list[tuple[float, float]]]:
    """Choose both penalties lead by lead, each block forecast from the others; fit to all."""
    new = len(blocks[0].gram) > multiscale + 1
    pairs = [(p, q) for p in PENALTIES["multiscale"] for q in (PENALTIES["new"] if new else (p,))]
    total = Sums(*(sum(parts) for parts in zip(*blocks, strict=True)))  # type: ignore[arg-type]
    errors = np.zeros((len(pairs), blocks[0].cross.shape[1]))
    for block in blocks:
        rest = Sums(*(whole - part for whole, part in zip(total, block, strict=True)))
        for number, pair in enumerate(pairs):
            w = solve(rest, *pair, multiscale)
            errors[number] += block.squares - 2 * (w * block.cross).sum(0) + (w * (block.gram @ w)).sum(0)
    best = errors.argmin(0)
    fitted = np.stack([solve(total, *pair, multiscale) for pair in pairs])
    return fitted[best, :, np.arange(len(best))].T, [pairs[choice] for choice in best]


def by_years(days: Sequence[int], years: np.ndarray) -> list[list[int]]:
    """Divide initial dates by their year."""
    return [[day for day in days if years[day] == year] for year in np.unique(years[list(days)])]
