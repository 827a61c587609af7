"""ERDDAP's griddap: the server crops files to the box."""

import datetime as dt
from urllib.parse import quote

from sstcast.errors import SSTCastError
from sstcast.sources.remote import Remote
from sstcast.sources.request import FetchRequest


class Erddap(Remote):
    """NOAA CoastWatch or another ERDDAP server; these servers block clients that send requests in parallel."""

    name = "erddap"
    grows = True
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
        query = f"sst[({day}T12:00:00Z)][(0.0)][({lat[0]}):({lat[-1]})][({lon[0]}):({lon[-1]})]"
        datasets = ("ncdcOisst21Agg", "ncdcOisst21NrtAgg")[: 1 if final_only else 2]
        return tuple(f"{dataset}.nc?{quote(query, safe='():')}" for dataset in datasets)

    def provisional(self, file: str, day: dt.date) -> bool:
        return file.startswith("ncdcOisst21NrtAgg")
