"""What an event is: the percentile that its days are beyond, the days it is of, and how many there must be."""

from dataclasses import asdict, dataclass

from sstcast.errors import SSTCastError

LONGEST_WIDTH = 365  # days


@dataclass(frozen=True)
class Definition:
    """The definition of heatwaves and cold spells, by default that of Hobday et al. (2016, Prog. Oceanogr.).

    Raises SSTCastError if a number is not usable.

    Attributes:
        percentile: the percentile that a heatwave is above, between 50 and 100. A cold spell is below the
            percentile as far from 0 as this one is from 100.
        shortest: the fewest successive days beyond the threshold that are an event.
        longest_gap: the most days between two events that count as one, fewer than `shortest`.
        window: the days around a day of the year that its statistics are of, an odd number.
        smooth: the days of the running mean of the statistics, an odd number. 1 is none.
    """

    percentile: float = 90
    shortest: int = 5
    longest_gap: int = 2
    window: int = 11
    smooth: int = 31

    def __post_init__(self) -> None:
        """Raise SSTCastError if a number is not usable."""
        if not 50 < self.percentile < 100:
            raise SSTCastError(
                f"--percentile {self.percentile:g}: give one between 50 and 100, for instance 95; a cold spell "
                "is below 100 minus it"
            )
        if self.shortest < 1:
            raise SSTCastError(f"--shortest {self.shortest}: give one day or more")
        if not 0 <= self.longest_gap < self.shortest:
            raise SSTCastError(
                f"--longest-gap {self.longest_gap}: give 0 or more days, fewer than --shortest, {self.shortest}"
            )
        for name, width in (("window", self.window), ("smooth", self.smooth)):
            if not (1 <= width <= LONGEST_WIDTH and width % 2):
                raise SSTCastError(
                    f"--{name} {width}: give the full width, an odd number of days from 1 to {LONGEST_WIDTH} "
                    "(a half width of 5 is 11)"
                )

    def __str__(self) -> str:
        """The definition as it is recorded in files."""
        smooth = f"smoothed over {self.smooth} days" if self.smooth > 1 else "not smoothed"
        return f"percentile {self.percentile:.12g}, window of {self.window} days, {smooth}, {self.duration}"

    @property
    def duration(self) -> str:
        """Which days beyond a threshold are an event, in words."""
        return f"events of at least {self.shortest} days, joined over at most {self.longest_gap}"

    @property
    def given(self) -> list[str]:
        """The names of the numbers that are not Hobday's."""
        usual = asdict(HOBDAY)
        return [name for name, value in asdict(self).items() if value != usual[name]]


HOBDAY = Definition()
