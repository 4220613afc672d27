"""VisualDL behind this server's authentication and address, and no other service."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from http.client import parse_headers
from io import BytesIO
from urllib.parse import urlsplit

from jupyter_server.auth.decorator import authorized
from tornado import web
from tornado.httputil import HTTPServerRequest
from tornado.iostream import StreamClosedError

from nbdist.board import BoardRoute
from nbdist.errors import LaunchError
from nbdist.server.backend import Handler, signed_in

_BITE = 128 * 1024
_HEAD = 64 * 1024
_AGAIN = 3  # seconds
_BUSY = (
    f'<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="{_AGAIN}">'
    "<title>VisualDL</title>"
    "<p>VisualDL is still reading the curves. This page asks again by itself.</p>"
)
_TARGET = re.compile(r"/[!-~]*")
_STATUS = re.compile(rb"HTTP/1\.[01] (\d{3})[^\r\n]*\r\n")
# neither cookies nor tokens pass in either direction
_ASKED = ("Accept", "Accept-Language", "Content-Type", "If-Modified-Since", "If-None-Match", "Range")
_ANSWERED = (
    "Cache-Control",
    "Content-Disposition",
    "Content-Encoding",
    "Content-Length",
    "Content-Range",
    "Content-Security-Policy",
    "Content-Type",
    "ETag",
    "Last-Modified",
    "Referrer-Policy",
    "Vary",
    "X-Content-Type-Options",
)


@dataclass(frozen=True, slots=True)
class Answer:
    """The head of an answer, and the unread ``rest``."""

    status: int
    headers: dict[str, str]
    rest: asyncio.StreamReader
    writer: asyncio.StreamWriter


class BoardProxy(Handler):
    @signed_in
    async def get(self, _path: str) -> None:
        await self._hand_on()

    head = get

    @web.authenticated
    @authorized(action="read")  # type: ignore[untyped-decorator]
    async def post(self, _path: str) -> None:
        await self._hand_on()

    def check_xsrf_cookie(self) -> None:
        """Accept this server's own pages without a token: VisualDL's page has none, and JupyterHub requires
        it even for reading. But a browser names the origin of a request, and nothing here can be changed."""
        known = getattr(self, "_jupyter_current_user", None) is not None  # else this call is early
        sent = self.request.method == "POST" and "Origin" in self.request.headers
        if _of_own_page(self.request) or (known and sent and self.check_origin()):
            return
        super().check_xsrf_cookie()

    def compute_etag(self) -> str | None:
        return None

    def check_etag_header(self) -> bool:
        return False

    async def _hand_on(self) -> None:
        if not _TARGET.fullmatch(self.request.uri or ""):
            raise web.HTTPError(400, "this is no address")
        try:
            answer = await self._ask()
        except LaunchError as error:
            raise web.HTTPError(503, str(error).replace("%", "")) from None
        except asyncio.TimeoutError:
            self.set_status(503)
            self.set_header("Retry-After", str(_AGAIN))
            self.set_header("Cache-Control", "no-store")
            self.finish(_BUSY)
            return
        except (OSError, EOFError, ValueError):
            raise web.HTTPError(502, "VisualDL does not answer") from None
        try:
            await self._give_back(answer)
        finally:
            answer.writer.close()

    async def _ask(self) -> Answer:
        """Send the request by the last known route, else by a fresh one."""
        for fresh in (False, True):
            route = await self.backend.board_route(fresh=fresh)
            try:
                reader, writer = await asyncio.open_connection(route.host, route.port, limit=_HEAD)
            except OSError:
                if fresh:
                    raise
                continue
            try:
                writer.write(self._request(route))
                await writer.drain()
                return await asyncio.wait_for(_read_head(reader, writer), self.backend.board_patience)
            except BaseException:
                writer.close()
                raise
        raise OSError("VisualDL has ended")

    def _request(self, route: BoardRoute) -> bytes:
        headers = {name: self.request.headers[name] for name in _ASKED if name in self.request.headers}
        headers |= {**route.headers, "Host": f"{route.host}:{route.port}", "Connection": "close"}
        body = b""
        if self.request.method == "POST":
            body = self.request.body
            headers["Content-Length"] = str(len(body))
        # version 1.0: no chunks in the answer
        lines = [f"{self.request.method} {self.request.uri} HTTP/1.0"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        return "\r\n".join([*lines, "", ""]).encode("latin-1", "replace") + body

    async def _give_back(self, answer: Answer) -> None:
        self.set_status(answer.status)
        for name in _ANSWERED:
            if name in answer.headers:
                self.set_header(name, answer.headers[name])
        location = answer.headers.get("Location", "")
        if location and not location.startswith("//") and "://" not in location.partition("?")[0]:
            self.set_header("Location", location)
        try:
            if self.request.method != "HEAD" and answer.status not in (204, 304):
                while data := await asyncio.wait_for(answer.rest.read(_BITE), self.backend.board_patience):
                    self.write(data)
                    await self.flush()
            await self.finish()
        except StreamClosedError:
            return  # the browser has gone
        except (asyncio.TimeoutError, OSError):
            self.detach().close()  # half an answer must not look like a whole one


def _of_own_page(request: HTTPServerRequest) -> bool:
    """Return whether a page of this very server sent the request, by a header that no script can set."""
    if (site := request.headers.get("Sec-Fetch-Site")) is not None:
        return site == "same-origin"
    # browsers send that one only over https, or to their own machine
    return urlsplit(request.headers.get("Origin", "")).netloc.lower() == request.host.lower()


async def _read_head(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Answer:
    head = await reader.readuntil(b"\r\n\r\n")
    status = _STATUS.match(head)
    if status is None:
        raise ValueError("no answer in HTTP")
    headers = parse_headers(BytesIO(head[status.end() :]))
    canonical = {name.title(): value for name, value in headers.items()}
    known = {name: canonical[name.title()] for name in (*_ANSWERED, "Location") if name.title() in canonical}
    return Answer(int(status[1]), known, reader, writer)
