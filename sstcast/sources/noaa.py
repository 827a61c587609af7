"""The servers of NOAA and PSL, mirrors with the same layout, and ERDDAP, which crops files to the box."""

import datetime as dt
from collections.abc import Sequence
from urllib.parse import quote

from sstcast.errors import SSTCastError
from sstcast.reading.raw import OPTIONAL
from sstcast.sources.remote import Remote
from sstcast.sources.source import FetchRequest, Source


class Daily(Remote):
    """Daily files, final or preliminary according to their attribute `id`."""

    grows = True
    variables = ("sst", *OPTIONAL)
    folders: tuple[str, ...] = ("{day:%Y%m}/",)

    def files(self, day: dt.date, final_only: bool = False) -> tuple[str, ...]:
        return tuple(
            f"{folder.format(day=day)}oisst-avhrr-v02r01.{day:%Y%m%d}{suffix}.nc"
            for suffix in ("", "_preliminary")[: 1 if final_only else 2]
            for folder in self.folders
        )


class Aws(Daily):
    """NOAA's bucket, with NCEI as a fallback."""

    name = "aws"
    # Plain HTTPS, so cloud profiles and AWS_* variables have no effect.
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


class Psl(Remote):
    """Yearly files. The current one grows and does not mark preliminary days."""

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


class Mirror(Daily):
    """Daily files in monthly folders or a single one.

    Yearly files are tried first, with one request per year. They hold SST alone, so `fetch` passes them over if
    other variables are wanted.
    """

    name = "mirror"
    folders = ("{day:%Y%m}/", "")

    @classmethod
    def accepts(cls, address: str) -> bool:
        return address.startswith(("http://", "https://"))

    @classmethod
    def open(cls, request: FetchRequest) -> Sequence[Source]:
        sources: list[Remote] = [_Years(request), cls(request)]
        for source in sources:
            source.base = request.source
        return sources


class _Years(Psl):
    name = "mirror"


class Erddap(Remote):
    """NOAA CoastWatch or another ERDDAP server, with one request at a time, as they block parallel requests."""

    name = "erddap"
    grows = True
    variables = ("sst", *OPTIONAL)
    base = "https://coastwatch.pfeg.noaa.gov/erddap/griddap"
    together = 1
    time_limit = 300

    def __init__(self, request: FetchRequest) -> None:
        super().__init__(request)
        if self.accepts(request.source):
            self.base = request.source.rstrip("/")
        if request.box.lon[0] < 0:
            raise SSTCastError("--region: ERDDAP cannot serve a box across Greenwich; choose another --source")

    @classmethod
    def accepts(cls, address: str) -> bool:
        return address.rstrip("/").endswith("griddap")

    def files(self, day: dt.date, final_only: bool = False) -> tuple[str, ...]:
        lat, lon = self.request.box.lat, self.request.box.lon
        cut = f"[({day}T12:00:00Z)][(0.0)][({lat[0]}):({lat[-1]})][({lon[0]}):({lon[-1]})]"
        query = ",".join(f"{name}{cut}" for name in ("sst", *self.optional))
        datasets = ("ncdcOisst21Agg", "ncdcOisst21NrtAgg")[: 1 if final_only else 2]
        return tuple(f"{dataset}.nc?{quote(query, safe='():,')}" for dataset in datasets)

    def provisional(self, file: str, day: dt.date) -> bool:
        return file.startswith("ncdcOisst21NrtAgg")
