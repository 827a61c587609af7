"""How much of a line's throughput is left when days are also opened, checked, cropped and stored.

    python perf/fetch.py [--days 200] [--line 125] [--file oisst-avhrr-v02r01.20220218.nc]

A server in a process of its own serves whole-globe daily files over a line of so many MB/s (125 is a gigabit,
0 is loopback without limit). The same files are downloaded with the same concurrency and only written to
disk, then fetched, in turns; the ratio of the best of three each is printed. Without `--file` the files are
simulated.
"""

import argparse
import datetime as dt
import io
import multiprocessing
import shutil
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.connection import Connection
from pathlib import Path

import h5py
import requests
from simulated import Simulator, canonical_name, write_day

from sstcast.sources.fetch import fetch
from sstcast.sources.noaa import Aws
from sstcast.sources.source import FetchRequest

FIRST = dt.date(2020, 1, 1)
TOGETHER = 16
PIECE = 1 << 16


class Line:
    """Bytes leave at `rate` bytes a second, whoever sends them; no limit if 0."""

    def __init__(self, rate: float) -> None:
        self.rate, self.free_at, self.lock = rate, 0.0, threading.Lock()

    def wait(self, size: int) -> None:
        """Return when `size` more bytes may leave."""
        if self.rate:
            with self.lock:
                self.free_at = max(self.free_at, time.monotonic() - 0.01) + size / self.rate
                pause = self.free_at - time.monotonic()
            if pause > 0:
                time.sleep(pause)


def serve(files: dict[str, bytes], rate: float, report: Connection) -> None:
    """Serve `files` by path for ever; report the port."""
    line = Line(rate)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def do_GET(self) -> None:
            body = memoryview(files[self.path])
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            piece = PIECE if rate else len(body)
            for start in range(0, len(body), piece):
                line.wait(piece)
                self.wfile.write(body[start : start + piece])

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    report.send(server.server_port)
    server.serve_forever()


def daily_files(template: bytes, days: list[dt.date]) -> dict[str, bytes]:
    """Return the template under the name and with the date of each day."""
    files = {}
    for day in days:
        buffer = io.BytesIO(template)
        with h5py.File(buffer, "r+") as file:
            file["time"][0] = (day - dt.date(1978, 1, 1)).days
            file.attrs["id"] = canonical_name(day)
        files[f"/{day:%Y%m}/{canonical_name(day)}"] = buffer.getvalue()
    return files


def simulated_file() -> bytes:
    """Return a simulated whole-globe day."""
    with tempfile.TemporaryDirectory() as folder:
        write_day(Path(folder) / "day.nc", FIRST, Simulator())
        return (Path(folder) / "day.nc").read_bytes()


def download(url: str, names: list[str], folder: Path) -> float:
    """Download to files and nothing else; return seconds."""
    session = requests.Session()
    session.mount(url, requests.adapters.HTTPAdapter(pool_maxsize=TOGETHER))

    def one(name: str) -> None:
        (folder / Path(name).name).write_bytes(session.get(url + name).content)

    start = time.perf_counter()
    with ThreadPoolExecutor(TOGETHER) as pool:
        list(pool.map(one, names))
    return time.perf_counter() - start


def fetch_days(days: list[dt.date], folder: Path) -> float:
    """Fetch into a new store; return seconds."""
    start = time.perf_counter()
    request = FetchRequest(days[0], days[-1], region="pacific", out=folder / "a.zarr", concurrency=TOGETHER)
    report = fetch(request)
    assert report.fetched == len(days), report.missing
    return time.perf_counter() - start


def main() -> None:
    """Run both in turns and print the ratio."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--days", type=int, default=200)
    parser.add_argument("--line", type=float, default=125.0, help="MB/s")
    parser.add_argument("--file", type=Path)
    options = parser.parse_args()
    days = [FIRST + dt.timedelta(i) for i in range(options.days)]
    files = daily_files(options.file.read_bytes() if options.file else simulated_file(), days)
    megabytes = sum(map(len, files.values())) / 1e6

    here, there = multiprocessing.Pipe()
    server = multiprocessing.get_context("fork").Process(
        target=serve, args=(files, options.line * 1e6, there), daemon=True
    )
    server.start()
    Aws.base = f"http://127.0.0.1:{here.recv()}"
    bare, full = [], []
    for _ in range(3):
        folder = Path(tempfile.mkdtemp())
        bare.append(download(Aws.base, list(files), folder))
        full.append(fetch_days(days, folder))
        shutil.rmtree(folder)
    server.kill()
    line = f"{options.line:g} MB/s" if options.line else "loopback"
    print(f"{len(days)} files, {megabytes:.0f} MB, {TOGETHER} at once, line {line}")
    print(f"download {megabytes / min(bare):6.1f} MB/s  {min(bare):6.2f} s")
    print(f"fetch    {megabytes / min(full):6.1f} MB/s  {min(full):6.2f} s")
    print(f"ratio    {min(bare) / min(full):6.2f}")


if __name__ == "__main__":
    main()
