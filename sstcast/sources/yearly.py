"""PSL's yearly files."""

import datetime as dt

from sstcast.sources.remote import Remote


class Psl(Remote):
    """One file per year; the current one grows, and does not say which days are preliminary."""

    name = "psl"
    grows = True
    base = "https://downloads.psl.noaa.gov/Datasets/noaa.oisst.v2.highres"
    together = 1
    long_files = True
    time_limit = 3600

    def files(self, day: dt.date, final_only: bool = False) -> tuple[str, ...]:
        return () if final_only and self.settling(day) else (f"sst.day.mean.{day:%Y}.nc",)

    def provisional(self, file: str, day: dt.date) -> bool:
        return self.settling(day)
