"""NOAA's daily files, at NCEI and on AWS: one file per day, one folder per month."""

import datetime as dt
from collections.abc import Sequence

from sstcast.sources.remote import Remote
from sstcast.sources.request import FetchRequest
from sstcast.sources.source import Source


class Daily(Remote):
    """One file per day, final or preliminary, as its attribute `id` says."""

    grows = True
    folders: tuple[str, ...] = ("{day:%Y%m}/",)

    def files(self, day: dt.date, final_only: bool = False) -> tuple[str, ...]:
        return tuple(
            f"{folder.format(day=day)}oisst-avhrr-v02r01.{day:%Y%m%d}{end}.nc"
            for end in ("", "_preliminary")[: 1 if final_only else 2]
            for folder in self.folders
        )


class Aws(Daily):
    """NOAA's bucket, with NCEI as a fallback."""

    name = "aws"
    # Plain https: cloud profiles and AWS_* variables have no effect.
    base = "https://noaa-cdr-sea-surface-temp-optimum-interpolation-pds.s3.amazonaws.com/data/v2.1/avhrr"

    @classmethod
    def open(cls, request: FetchRequest) -> Sequence[Source]:
        return [cls(request), Ncei(request)]


class Ncei(Daily):
    """NCEI's own server, with AWS as a fallback."""

    name = "ncei"
    base = "https://www.ncei.noaa.gov/data/sea-surface-temperature-optimum-interpolation/v2.1/access/avhrr"

    @classmethod
    def open(cls, request: FetchRequest) -> Sequence[Source]:
        return [cls(request), Aws(request)]
