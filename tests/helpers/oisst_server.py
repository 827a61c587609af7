"""A local OISST server that misbehaves on demand, and the tiny files it serves."""

import datetime as dt
import io
import re
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

import h5py
import numpy as np
import xarray as xr

LAT = np.arange(-0.875, 1, 0.25)  # 8 x 8 cells
LON = np.arange(180.125, 182, 0.25)
REGION = "180,182,-1,1"


def calendar(first: str, count: int) -> list[dt.date]:
    """Return `count` days from `first` on."""
    return [dt.date.fromisoformat(first) + dt.timedelta(i) for i in range(count)]


def hundredths(day: dt.date, preliminary: bool = False) -> np.ndarray:
    """Return the field of a day, `[lat, lon]` in hundredths of degC; one cell is land (-999)."""
    cells = np.arange(LAT.size * LON.size).reshape(LAT.size, LON.size)
    season = 2 * abs(day.toordinal() % 800 - 400)  # hundredths: no ocean jumps
    field = (2000 + season + 3 * cells + preliminary).astype(np.int16)
    field[2, 3] = -999
    return field


def ice_hundredths(day: dt.date) -> np.ndarray:
    """Return the ice of a day in OISST's files, `[lat, lon]` in hundredths, missing (-999) without ice."""
    ice = np.full((LAT.size, LON.size), -999, np.int16)
    ice[5:] = 20 + day.toordinal() % 50
    return ice


def err_hundredths(day: dt.date) -> np.ndarray:
    """Return the error of a day in OISST's files, `[lat, lon]` in hundredths of degC, missing on land."""
    err = np.full((LAT.size, LON.size), 10 + day.toordinal() % 30, np.int16)
    err[2, 3] = -999
    return err


def daily_file(
    day: dt.date,
    preliminary: bool = False,
    field: np.ndarray | None = None,
    lat: np.ndarray = LAT,
    name: str | None = None,
    optional: bool = False,
) -> bytes:
    """Return a file in the daily layout of NCEI; `name` is the attribute `id` where it is to differ.

    If `optional`, it has `ice_hundredths` and `err_hundredths` too, as NOAA packs them.
    """
    field = hundredths(day, preliminary) if field is None else field
    days = (day - dt.date(1978, 1, 1)).days
    buffer = io.BytesIO()
    with h5py.File(buffer, "w") as file:
        ending = "_preliminary" if preliminary else ""
        file.attrs["id"] = np.bytes_(name or f"oisst-avhrr-v02r01.{day:%Y%m%d}{ending}.nc")
        file["time"] = np.array([days], np.float32)
        file["time"].attrs["units"] = np.bytes_("days since 1978-01-01 12:00:00")
        file["lat"], file["lon"] = lat.astype(np.float32), LON.astype(np.float32)
        sst = file.create_dataset("sst", data=field[None, None], chunks=(1, 1, *field.shape), compression=4)
        sst.attrs["_FillValue"] = np.array([-999], np.int16)
        sst.attrs["scale_factor"] = np.array([0.01], np.float32)
        sst.attrs["add_offset"] = np.array([0.0], np.float32)
        for variable, values, units in (
            ("ice", ice_hundredths(day), "%"),
            ("err", err_hundredths(day), "Celsius"),
        ) * optional:
            data = file.create_dataset(variable, data=values[None, None], chunks=(1, 1, *values.shape))
            data.attrs["_FillValue"] = np.array([-999], np.int16)
            data.attrs["scale_factor"] = np.array([0.01], np.float32)
            data.attrs["units"] = np.bytes_(units)
    return buffer.getvalue()


def yearly_file(days: list[dt.date]) -> bytes:
    """Return a file in the yearly layout of PSL: float32, no zlev, stamped 00:00."""
    celsius = np.stack([np.where(f == -999, -9.96921e36, f / 100) for f in map(hundredths, days)])
    buffer = io.BytesIO()
    with h5py.File(buffer, "w") as file:
        file["time"] = np.array([(day - dt.date(1800, 1, 1)).days for day in days], np.float64)
        file["time"].attrs["units"] = "days since 1800-01-01 00:00:00"
        file["lat"], file["lon"] = LAT.astype(np.float32), LON.astype(np.float32)
        file["sst"] = celsius.astype(np.float32)
        file["sst"].attrs["missing_value"] = np.array([-9.96921e36], np.float32)
    return buffer.getvalue()


def daily_path(day: dt.date, preliminary: bool = False) -> str:
    """Return where the daily layout keeps a day."""
    return f"/{day:%Y%m}/oisst-avhrr-v02r01.{day:%Y%m%d}{'_preliminary' if preliminary else ''}.nc"


def daily_files(days: list[dt.date], preliminary: bool = False, optional: bool = False) -> dict[str, bytes]:
    """Return files by path."""
    return {daily_path(day, preliminary): _plain_file(day, preliminary, optional) for day in days}


@cache
def _plain_file(day: dt.date, preliminary: bool, optional: bool) -> bytes:
    return daily_file(day, preliminary, optional=optional)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128  # of the default 5, many clients at once would wait for a second and time out


class OisstServer:
    """Serves `files` by path; `faults[path]`, or `faults["*"]` for any, are misbehaviours, one a request.

    A fault is `404`, `500`, `503` (with Retry-After: `retry_after`), `reset`, `truncated`, `slow`, `html`, or
    bytes to send instead. `seen` are the paths asked for with GET; `peak` is the most requests at one time.
    """

    def __init__(self, files: dict[str, bytes] | None = None) -> None:
        self.files = files or {}
        self.faults: dict[str, Iterator[str | bytes | None]] = {}
        self.unavailable: set[str] = set()
        self.seen: list[str] = []
        self.retry_after, self.delay = "0", 0.0
        self.busy = self.peak = 0
        self.erddap: Callable[[str], bytes | int] | None = None
        self.lock = threading.Lock()

    def __enter__(self) -> "OisstServer":
        self._server = _Server(("127.0.0.1", 0), type("Handler", (_Handler,), {"site": self}))
        self._server.handle_error = lambda *_: None  # clients are killed on purpose
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def fault(self, path: str) -> str | bytes | None:
        """Take the next fault of `path`, or of any path."""
        with self.lock:
            fault = next(self.faults.get(path) or self.faults.get("*") or iter(()), None)
            (self.unavailable.add if fault == "503" else self.unavailable.discard)(path)
            return fault


class _Handler(BaseHTTPRequestHandler):
    site: OisstServer
    protocol_version = "HTTP/1.1"
    wbufsize = -1

    def log_message(self, *_: object) -> None:
        pass

    def do_HEAD(self) -> None:
        path = unquote(self.path)
        self._answer(503 if path in self.site.unavailable else 200, b"")

    def do_GET(self) -> None:
        site, path = self.site, unquote(self.path)
        with site.lock:
            site.seen.append(path)
            site.busy += 1
            site.peak = max(site.peak, site.busy)
        try:
            time.sleep(site.delay)
            self._get(path)
        finally:
            with site.lock:
                site.busy -= 1

    def _get(self, path: str) -> None:
        fault = self.site.fault(path)
        body = self._body(path)
        if isinstance(fault, bytes):
            self._answer(200, fault)
        elif fault == "html":
            self._answer(200, b"<!DOCTYPE html><title>Down for maintenance</title>")
        elif fault in ("404", "500", "503"):
            self._answer(int(fault), b"no")
        elif fault == "reset":
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()  # takes effect, as a reset, once the handler has closed its streams
            self.close_connection = True
        elif isinstance(body, int):
            self._answer(body, b"no")
        elif fault in ("truncated", "slow"):
            self._answer(200, body, stop=fault == "truncated", pause=2 if fault == "slow" else 0)
        else:
            self._answer(200, body)

    def _body(self, path: str) -> bytes | int:
        if self.site.erddap and "?" in path:
            return self.site.erddap(path)
        return self.site.files.get(path, 404)

    def _answer(self, status: int, body: bytes, stop: bool = False, pause: float = 0) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        if status == 503:
            self.send_header("Retry-After", self.site.retry_after)
        self.end_headers()
        self.wfile.write(body[: len(body) // 2])
        if pause:
            self.wfile.flush()
            time.sleep(pause)
        if stop:
            self.close_connection = True
        elif self.command == "GET":
            self.wfile.write(body[len(body) // 2 :])


def erddap(final_until: dt.date) -> Callable[[str], bytes | int]:
    """Answer griddap queries: finals up to a day, preliminary ones for 14 days more, in classic NetCDF."""

    def answer(path: str) -> bytes | int:
        query = (
            r"/griddap/(\w+)\.nc\?sst\[\((.+)T12:00:00Z\)\]\[\(0\.0\)\]\[\((.+)\):\((.+)\)\]\[\((.+)\):\((.+)\)\]"
        )
        match = re.fullmatch(query, path)
        if not match:
            return 400
        preliminary = {"ncdcOisst21Agg": False, "ncdcOisst21NrtAgg": True}[match[1]]
        day, box = dt.date.fromisoformat(match[2]), [float(edge) for edge in match.groups()[2:]]
        if (not preliminary and day > final_until) or day > final_until + dt.timedelta(14):
            return 404
        whole = xr.DataArray(
            hundredths(day, preliminary)[None, None],
            coords={
                "time": [(day - dt.date(1970, 1, 1)).days * 86400.0 + 43200],
                "zlev": [0.0],
                "latitude": LAT,
                "longitude": LON,
            },
            dims=("time", "zlev", "latitude", "longitude"),
            attrs={"scale_factor": 0.01, "_FillValue": np.int16(-999)},
        )
        cut = whole.sel(latitude=slice(*box[:2]), longitude=slice(*box[2:])).to_dataset(name="sst")
        cut["time"].attrs["units"] = "seconds since 1970-01-01T00:00:00Z"
        return bytes(cut.to_netcdf(engine="scipy", format="NETCDF3_CLASSIC"))

    return answer


DAYS = calendar("2020-02-25", 40)
