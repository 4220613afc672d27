"""A rank's whole log as a download, or a range of it."""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass

from tornado.iostream import StreamClosedError

from nbdist.server.backend import signed_in
from nbdist.server.handlers import Api
from nbdist.store import RunDirectory, look
from nbdist.store.logs import kept_parts

_RANGE = re.compile(r"\s*bytes\s*=\s*([0-9]{0,18})-([0-9]{0,18})\s*", re.IGNORECASE)


def read_range(header: str | None, size: int) -> tuple[int, int] | None:
    """Return begin and end of a range, empty outside of the log; None for none, several or malformed."""
    match = _RANGE.fullmatch(header or "")
    if match is None or not (match[1] or match[2]):
        return None
    first, last = match[1], match[2]
    if first and last and int(last) < int(first):
        return None
    if not first:
        return max(0, size - int(last)), size
    return int(first), min(size, int(last) + 1) if last else size


_BITE = 256 * 1024
_TEXT = "text/plain; charset=utf-8"
_BYTES = "application/octet-stream"


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenLog:
    """A log with its present length. ``handle`` is None while the rank has written nothing."""

    handle: int | None
    size: int
    etag: str
    name: str
    parts: tuple[tuple[int, int], ...] = ()
    """The places of its bytes in the file (``log_gap``)."""

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
    @signed_in
    async def get(self, run_id: str, rank: str) -> None:
        attempt = self.number("attempt", least=1, most=99_999, default=None)
        download = self.number("download", least=0, most=1, default=0)
        number = self.rank(rank)
        directory = await self.directory(run_id)
        missing = "the run has no such rank, or no such attempt"
        log = await self.found(open_log, directory, number, attempt, missing=missing)
        try:
            await self._send(log, _BYTES if download else _TEXT, download=bool(download))
        finally:
            log.close()

    head = get

    def compute_etag(self) -> str | None:
        return None  # it is the file's, not the answer's

    def check_etag_header(self) -> bool:
        return False  # the log may have grown since the last request

    async def _send(self, log: OpenLog, kind: str, *, download: bool) -> None:
        self.set_header("ETag", log.etag)
        self.set_header("Accept-Ranges", "bytes")
        self.set_header("Cache-Control", "no-store")
        # the server would compress text, and a range of that is another range
        self.set_header("Content-Encoding", "identity")
        if download:
            self.set_header("Content-Disposition", f'attachment; filename="{log.name}"')
        same = self.request.headers.get("If-Range", log.etag) == log.etag
        part = read_range(self.request.headers.get("Range") if same else None, log.size)
        low, high = part or (0, log.size)
        if part is not None and low >= high:
            self.set_header("Content-Range", f"bytes */{log.size}")
            self.clear_header("Content-Encoding")
            self.answer({"message": f"the log has {log.size} bytes"}, 416)
            return
        if part is not None:
            self.set_status(206)
            self.set_header("Content-Range", f"bytes {low}-{high - 1}/{log.size}")
        self.set_header("Content-Type", kind)
        self.set_header("Content-Length", str(high - low))
        try:
            if self.request.method == "GET":
                await self._write(log, low, high)
            await self.finish(set_content_type=kind)
        except StreamClosedError:
            return

    async def _write(self, log: OpenLog, at: int, end: int) -> None:
        while at < end:
            data = await self.backend.run(log.read, at, min(_BITE, end - at))
            if not data:
                # the file has become shorter than the length in the header
                self.detach().close()
                raise StreamClosedError
            self.write(data)
            await self.flush()
            at += len(data)


def open_log(directory: RunDirectory, rank: int, attempt: int | None) -> OpenLog | None:
    """Open the log of a rank in an attempt, by default the last; None when the run has no such log."""
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
    # a longer gap makes another text
    etag = "-".join(f"{number:x}" for number in (status.st_ino, *(begin for begin, _ in parts[1:])))
    size = sum(end - begin for begin, end in parts)
    return OpenLog(handle=handle, size=size, etag=f'"{etag}"', name=name, parts=parts)
