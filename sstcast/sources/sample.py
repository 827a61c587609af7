"""The sample data set that ships with sstcast."""

import datetime as dt

from sstcast.geo import Box
from sstcast.ocean.reading import source_path
from sstcast.sources.folder import Folder
from sstcast.sources.request import FetchRequest


class Sample(Folder):
    """All days of the sample, which is a single file."""

    name = store = "sample"
    region = "tasman"
    box = Box(147, 155, -45, -37)
    end = dt.date(2016, 12, 31)

    def __init__(self, request: FetchRequest) -> None:
        super().__init__(request)
        self.root = source_path("sample")
