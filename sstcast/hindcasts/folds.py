"""Which years test, and which train: an expanding window over a record."""

import re
from dataclasses import asdict, dataclass, replace
from typing import Any

from sstcast.config import DataConfig
from sstcast.errors import SSTCastError
from sstcast.splits import for_years
from sstcast.yaml_files import FIRST_YEAR, LAST_YEAR


@dataclass(frozen=True)
class Protocol:
    """How a hindcast is made.

    Attributes:
        first, last: years forecast.
        fold: years that one training is tested on; the last fold may be shorter.
        validation: years before them that select the weights.
        every: days from one initial date to the next.
    """

    first: int
    last: int
    fold: int = 4
    validation: int = 2
    every: int = 3

    @classmethod
    def parse(cls, years: str, fold: int, validation: int, every: int) -> "Protocol":
        """Read years as `1997:2016`; raise SSTCastError if they are none, or a fold is longer than all of them."""
        given = re.fullmatch(r"([0-9]{4}):([0-9]{4})", years)
        first, last = map(int, given.groups()) if given else (0, 0)
        if not FIRST_YEAR <= first <= last <= LAST_YEAR:
            raise SSTCastError(
                f"--years {years}: write the first and the last year forecast, for instance 1997:2016"
            )
        if min(fold, validation, every) < 1 or every > 366:
            raise SSTCastError("hindcast: fold and validation are years, at least 1, and every is 1 to 366 days")
        if fold > (count := last - first + 1):
            raise SSTCastError(f"--fold {fold}: longer than the {count} year(s) of --years {years}; choose fewer")
        return cls(first, last, fold, validation, every)

    @property
    def folds(self) -> list["Fold"]:
        """The folds in order."""
        firsts = range(self.first, self.last + 1, self.fold)
        return [Fold(first, min(first + self.fold - 1, self.last), self.validation) for first in firsts]

    def before(self, fold: "Fold") -> "Protocol":
        """Return the protocol of the two folds before one, on which its system may be chosen."""
        return replace(self, first=fold.first - 2 * self.fold, last=fold.first - 1)

    def plain(self) -> dict[str, Any]:
        """Return it as JSON takes it."""
        return asdict(self)


@dataclass(frozen=True)
class Fold:
    """Years `first` to `last`, forecast after training that ends `validation` years before them."""

    first: int
    last: int
    validation: int

    @property
    def name(self) -> str:
        """The name of its runs."""
        return f"fold-{self.first}"

    def split(self, data: DataConfig) -> DataConfig:
        """Return `data` with the fold's splits.

        Training begins where that of `data` does. The climatology is of all days before the fold, as that of a
        forecaster would be. Raises SSTCastError if less than a year, or not a single window, is left to train on.
        """
        splits = for_years(data, self.first, self.last, self.validation, self.name)
        return data.model_copy(update={"splits": splits})
