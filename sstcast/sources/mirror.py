"""A mirror: any URL below which files keep the names that NOAA or PSL give them."""

from collections.abc import Sequence

from sstcast.sources.daily import Daily
from sstcast.sources.request import FetchRequest
from sstcast.sources.source import Source
from sstcast.sources.yearly import Psl


class Mirror(Daily):
    """Daily files, in one folder per month or all in one; yearly files are tried first, one request per year."""

    name = "mirror"
    folders = ("{day:%Y%m}/", "")

    def __init__(self, request: FetchRequest) -> None:
        super().__init__(request)
        self.base = _address(request.source)

    @classmethod
    def accepts(cls, address: str) -> bool:
        return address.startswith(("http://", "https://", "s3://"))

    @classmethod
    def open(cls, request: FetchRequest) -> Sequence[Source]:
        return [_Years(request), cls(request)]


class _Years(Psl):
    name = "mirror"

    def __init__(self, request: FetchRequest) -> None:
        super().__init__(request)
        self.base = _address(request.source)


def _address(source: str) -> str:
    if not source.startswith("s3://"):
        return source
    bucket, _, prefix = source.removeprefix("s3://").partition("/")
    return f"https://{bucket}.s3.amazonaws.com/{prefix}"
