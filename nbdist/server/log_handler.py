"""A rank's whole log as a download, in ranges."""

from __future__ import annotations

import os
import re
import secrets
import stat
from dataclasses import dataclass

from jupyter_server.auth.decorator import authorized
from tornado import web
from tornado.iostream import StreamClosedError

from nbdist.server.handlers import Api
from nbdist.store import RunDirectory, look
from nbdist.store.logs import kept_parts

MOST = 16
_UNIT = re.compile(r"\s*bytes\s*=(.*)", re.IGNORECASE | re.DOTALL)
_SPEC = re.compile(r"([0-9]{0,18})-([0-9]{0,18})")


class Unsatisfiable(Exception):
    """None of the ranges lies within the content, or they are too many."""


def read_ranges(header: str | None, size: int) -> list[tuple[int, int]] | None:
    """First byte and end (behind the last) of each range; None for the whole, which is also the answer to
    what cannot be understood. Raises Unsatisfiable."""
    unit = _UNIT.fullmatch(header or "")
    if unit is None:
        return None
    specs = [_SPEC.fullmatch(spec.strip()) for spec in unit[1].split(",") if spec.strip()]
    if not specs or any(spec is None or not (spec[1] or spec[2]) for spec in specs):
        return None
    if any(spec[1] and spec[2] and int(spec[2]) < int(spec[1]) for spec in specs if spec is not None):
        return None
    if len(specs) > MOST:
        raise Unsatisfiable
    found = [_resolved(spec[1], spec[2], size) for spec in specs if spec is not None]
    within = [(low, high) for low, high in found if low < high]
    if not within:
        raise Unsatisfiable
    return within


def _resolved(first: str, last: str, size: int) -> tuple[int, int]:
    if not first:
        return max(0, size - int(last)), size
    return int(first), min(size, int(last) + 1) if last else size


_BITE = 256 * 1024
_TEXT = "text/plain; charset=utf-8"
_BYTES = "application/octet-stream"


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenLog:
    """A log as long as it is now. ``handle`` is None where the rank has written nothing yet."""

    handle: int | None
    size: int
    etag: str
    name: str
    parts: tuple[tuple[int, int], ...] = ()
    """Where its bytes lie in the file (``log_gap``); all of them together are what it has."""

    def read(self, offset: int, length: int) -> bytes:
        for begin, end in self.parts:
            if self.handle is not None and offset < end - begin:
                return os.pread(self.handle, min(length, end - begin - offset), begin + offset)
            offset -= end - begin
        return b""

    def close(self) -> None:
        if self.handle is not None:
            os.close(self.handle)


class LogHandler(Api):
    @web.authenticated
    @authorized
    async def get(self, run_id: str, rank: str) -> None:
        await self._answer(run_id, rank)

    @web.authenticated
    @authorized
    async def head(self, run_id: str, rank: str) -> None:
        await self._answer(run_id, rank)

    def compute_etag(self) -> str | None:
        return None  # it is the file's, not the answer's

    def check_etag_header(self) -> bool:
        return False  # the log may be longer than when it was asked for last

    async def _answer(self, run_id: str, rank: str) -> None:
        attempt = self.number("attempt", least=1, most=99_999, default=None)
        download = self.number("download", least=0, most=1, default=0)
        number = self.rank(rank)
        directory = await self.directory(run_id)
        log = await self.backend.run(open_log, directory, number, attempt)
        if log is None:
            raise web.HTTPError(404, "the run has no such rank, or no such attempt")
        try:
            await self._send(log, _BYTES if download else _TEXT, download=bool(download))
        finally:
            log.close()

    async def _send(self, log: OpenLog, kind: str, *, download: bool) -> None:
        self.set_header("ETag", log.etag)
        self.set_header("Accept-Ranges", "bytes")
        self.set_header("Cache-Control", "no-store")
        # the server would compress what is text, and a range of that is a range of something else
        self.set_header("Content-Encoding", "identity")
        if download:
            self.set_header("Content-Disposition", f'attachment; filename="{log.name}"')
        try:
            ranges = read_ranges(self._range_of(log), log.size)
        except Unsatisfiable:
            self.set_header("Content-Range", f"bytes */{log.size}")
            self.clear_header("Content-Encoding")
            self.answer({"message": f"the log has {log.size} bytes"}, 416)
            return
        parts, kind = self._parts(ranges, log, kind)
        self.set_header("Content-Type", kind)
        length = sum(len(part) if isinstance(part, bytes) else part[1] - part[0] for part in parts)
        self.set_header("Content-Length", str(length))
        try:
            if self.request.method == "GET":
                for part in parts:
                    await self._send_part(log, part)
            await self.finish(set_content_type=kind)
        except StreamClosedError:
            return

    def _range_of(self, log: OpenLog) -> str | None:
        same = self.request.headers.get("If-Range", log.etag) == log.etag
        return self.request.headers.get("Range") if same else None

    def _parts(
        self, ranges: list[tuple[int, int]] | None, log: OpenLog, kind: str
    ) -> tuple[list[bytes | tuple[int, int]], str]:
        """What is sent, in its order: bytes as they are, and ranges of the log; and what that is called."""
        if ranges is None:
            return [(0, log.size)], kind
        self.set_status(206)
        if len(ranges) == 1:
            low, high = ranges[0]
            self.set_header("Content-Range", f"bytes {low}-{high - 1}/{log.size}")
            return [ranges[0]], kind
        boundary = secrets.token_hex(12)
        parts: list[bytes | tuple[int, int]] = []
        for low, high in ranges:
            title = f"Content-Type: {kind}\r\nContent-Range: bytes {low}-{high - 1}/{log.size}"
            parts += [f"--{boundary}\r\n{title}\r\n\r\n".encode(), (low, high), b"\r\n"]
        return [*parts, f"--{boundary}--\r\n".encode()], f"multipart/byteranges; boundary={boundary}"

    async def _send_part(self, log: OpenLog, part: bytes | tuple[int, int]) -> None:
        if isinstance(part, bytes):
            self.write(part)
            return
        at, end = part
        while at < end:
            data = await self.backend.run(log.read, at, min(_BITE, end - at))
            if not data:
                # the file has become shorter, and the length was promised
                self.detach().close()
                raise StreamClosedError
            self.write(data)
            await self.flush()
            at += len(data)


def open_log(directory: RunDirectory, rank: int, attempt: int | None) -> OpenLog | None:
    """The log of a rank in an attempt, by default the last; None when there is none in the run."""
    run = look(directory)
    if run is None or rank >= run.spec.world_size or (attempt or 1) > run.attempt:
        return None
    attempt = attempt or run.attempt
    name = f"{run.label}-rank{rank}.log" if attempt == 1 else f"{run.label}-rank{rank}-{attempt}.log"
    try:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        handle = os.open(directory.rank(rank, attempt).log, flags)
    except OSError:
        return OpenLog(handle=None, size=0, etag='"none"', name=name)
    status = os.fstat(handle)
    if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
        os.close(handle)
        return None
    parts = tuple(kept_parts(handle))
    # what is left out of it may grow, and then it is another text
    etag = "-".join(f"{number:x}" for number in (status.st_ino, *(begin for begin, _ in parts[1:])))
    size = sum(end - begin for begin, end in parts)
    return OpenLog(handle=handle, size=size, etag=f'"{etag}"', name=name, parts=parts)
