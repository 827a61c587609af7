"""A local server of a folder, as plain HTTP or like S3, that misbehaves on demand."""

import email.utils
import hashlib
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote


class BucketServer:
    """Serves the files in a folder.

    `fault` is what it does to each request: a status, `slow`, or nothing. With `etags`, it sends ETags in place of
    times. `signed` is the region that requests must be signed for, and `told` whether HEAD of a bucket tells it.
    If `body` is set, files with `part` in their path are `huge` or `empty`, or their bytes come slowly: the body
    `trickles`, `flows` or `stops`. `seen` are the paths asked for, with their methods.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.fault, self.etags, self.signed, self.told = folder, "", True, "", True
        self.seen: list[str] = []
        self.part, self.body = "sst/", ""

    def bytes_of(self, path: str) -> bytes | None:
        file = self.folder / unquote(path).lstrip("/")
        return file.read_bytes() if file.is_file() else None

    def asked(self, part: str, method: str = "GET") -> list[str]:
        """Return the paths with `part` that were asked for."""
        return [path for verb, path in (line.split() for line in self.seen) if verb == method and part in path]


class _Handler(BaseHTTPRequestHandler):
    server: "_Server"
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        bucket = self.server.bucket
        bucket.seen.append(f"{self.command} {self.path}")
        if bucket.fault == "slow":
            time.sleep(1.5)
        elif bucket.fault:
            return self.answer(int(bucket.fault))
        if bucket.signed:
            region = {"x-amz-bucket-region": bucket.signed} if bucket.told else {}
            if self.path.count("/") == 1:
                return self.answer(403, region)
            scope = re.search(r"Credential=\w+/\d+/([\w-]+)/s3", self.headers.get("Authorization", ""))
            if scope is None:
                return self.answer(403)
            if scope[1] != bucket.signed:
                return self.answer(301)
        content = bucket.bytes_of(self.path)
        if content is None:
            return self.answer(404)
        headers = {"ETag": f'"{hashlib.md5(content).hexdigest()}"'}
        if not bucket.etags:
            changed = (bucket.folder / self.path.lstrip("/")).stat().st_mtime
            headers = {"Last-Modified": email.utils.formatdate(changed, usegmt=True)}
        status, size = 200, len(content)
        if wanted := re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", "")):
            first, last = map(int, wanted.groups())
            status, content = 206, content[first : last + 1]
            headers["Content-Range"] = f"bytes {first}-{last}/{size}"
        if bucket.part in self.path and bucket.body:
            return self.send(status, headers, content)
        return self.answer(status, headers, content)

    do_HEAD = do_GET

    def send(self, status: int, headers: dict[str, str], content: bytes) -> None:
        """Answer with another body than the file has, or let the body trickle."""
        body = self.server.bucket.body
        length = {"huge": 2**55, "empty": 0}.get(body, len(content))
        self.begin(status, headers, length)
        if self.command == "GET" and body in ("trickles", "flows"):
            step = 1 if body == "trickles" else max(1, len(content) // 8)
            for start in range(0, len(content), step):
                self.wfile.write(content[start : start + step])
                time.sleep(0.1)
        if self.command == "GET" and body == "stops":
            self.wfile.write(content[:20])
            time.sleep(2)
        self.close_connection = True

    def begin(self, status: int, headers: dict[str, str], length: int) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(length))
        self.end_headers()

    def answer(self, status: int, headers: dict[str, str] | None = None, content: bytes = b"") -> None:
        self.begin(status, headers or {}, len(content))
        if self.command == "GET":
            self.wfile.write(content)

    def log_message(self, *arguments: object) -> None:
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    bucket: BucketServer

    def handle_error(self, *arguments: object) -> None:
        """Say nothing of clients that have gone."""


@contextmanager
def serving(folder: Path) -> Iterator[tuple[str, BucketServer]]:
    """Serve a folder. Yields the address of the server and its `BucketServer`."""
    with _Server(("127.0.0.1", 0), _Handler) as server:
        server.bucket = BucketServer(folder)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", server.bucket
        finally:
            server.shutdown()
