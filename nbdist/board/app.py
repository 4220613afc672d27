"""The board's web application: who may ask, and which runs they see.

    /<token>/alive                       204
    /<token>/<run_id>[~<run_id>…]/…      VisualDL over these runs; its page is …/scalar

One VisualDL app is made per set of runs, when it is first asked for: VisualDL shows all it is given
in one page, and a page with every run of a user does not come up. The address says it all, so there
is no list of views to keep, or to lose.
"""

from __future__ import annotations

import hmac
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlencode

from visualdl.server import app as visualdl_app
from werkzeug.datastructures import Headers, LanguageAccept
from werkzeug.http import parse_accept_header
from werkzeug.wrappers import Response

from nbdist.board import patches
from nbdist.board.feed import Feed, shown_first
from nbdist.board.server import RUN_SEPARATOR
from nbdist.store import RunDirectory

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

MAX_VIEWS = 8
"""Sets of runs that are kept in memory; the one that was not asked for longest goes first."""

_RUN_ID = re.compile(r"\w[\w.-]*", re.ASCII)
_LOOPBACK = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:\d+)?")
_HEADERS = {
    # The page needs inline script and style and, for its wasm workers, eval. Whatever it holds
    # can talk to this server only, and only pages of this machine may frame it.
    "Content-Security-Policy": (
        "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; "
        "style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; font-src 'self' data:; "
        "worker-src 'self' blob:; object-src 'none'; base-uri 'self'; form-action 'none'; "
        "frame-ancestors 'self' http://localhost:* http://127.0.0.1:* "
        "https://localhost:* https://127.0.0.1:*"
    ),
    "Referrer-Policy": "no-referrer",  # the address holds the token
    "X-Content-Type-Options": "nosniff",
}


class BoardApp:
    """A WSGI application, for a server with threads. ``runs`` is the directory of the runs."""

    def __init__(self, runs: Path, token: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._runs = runs
        self.token = token
        self._clock = clock
        self._feed = Feed()
        self._views: OrderedDict[str, View] = OrderedDict()
        self._lock = threading.Lock()
        self._last_request = clock()

    def idle_seconds(self) -> float:
        """How long nobody who has the token has asked for anything."""
        return self._clock() - self._last_request

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        return self._answer(environ)(environ, _with_headers(start_response))

    def _answer(self, environ: WSGIEnvironment) -> WSGIApplication:
        # A page elsewhere can have its own name resolve to 127.0.0.1, but not change this header.
        if not _LOOPBACK.fullmatch(environ.get("HTTP_HOST", "")):
            return Response("This server answers to this machine only.\n", 403)
        token, name = (environ.get("PATH_INFO", "") + "//").split("/")[1:3]
        if not hmac.compare_digest(token.encode(), self.token.encode()):
            return Response("Not found.\n", 404)
        self._last_request = self._clock()
        if name == "alive":
            return Response(status=204)
        run_ids = name.split(RUN_SEPARATOR)
        if not all(map(self._exists, run_ids)):
            return Response("There is no such run.\n", 404)
        return self._view(name, run_ids)

    def _exists(self, run_id: str) -> bool:
        return bool(_RUN_ID.fullmatch(run_id)) and (self._runs / run_id).is_dir()

    def _view(self, name: str, run_ids: list[str]) -> View:
        with self._lock:
            if name not in self._views:
                runs = [RunDirectory(self._runs / run_id) for run_id in dict.fromkeys(run_ids)]
                self._views[name] = View(runs, f"/{self.token}/{name}", self._feed)
            self._views.move_to_end(name)
            while len(self._views) > MAX_VIEWS:
                self._views.popitem(last=False)
            return self._views[name]


class View:
    """VisualDL over some runs, under one address."""

    def __init__(self, runs: list[RunDirectory], public_path: str, feed: Feed) -> None:
        self._runs = runs
        self._feed = feed
        self._api = public_path + "/api/"
        self._scalars = public_path + "/scalar"
        self._lock = threading.Lock()  # VisualDL's readers are made for one thread
        self._advance()
        self._logdirs = [str(run.board) for run in runs]
        self._app: Any = visualdl_app.create_app(patches.board_arguments(self._logdirs, public_path))

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        _speak_a_language_of_the_page(environ)
        if environ["PATH_INFO"] == self._scalars and not parse_qs(environ.get("QUERY_STRING", "")).get(
            "runs"
        ):
            return Response(status=302, headers={"Location": self._first_page()})(environ, start_response)
        if not environ["PATH_INFO"].startswith(self._api):
            return self._app(environ, start_response)  # type: ignore[no-any-return]
        with self._lock:
            self._advance()
            return self._app(environ, start_response)  # type: ignore[no-any-return]

    def _first_page(self) -> str:
        """The page with the whole and rank 0 ticked; the other ranks are in its list.

        ``runs`` is the page's own (``hooks/useTagFilter.js``). Relative, since a proxy may have put
        something in front of the address.
        """
        names = [
            patches.curve_name(str(run.board / name), self._logdirs)
            for run in self._runs
            for name in shown_first(run)
        ]
        return "scalar?" + urlencode({"runs": ",".join(names)})

    def _advance(self) -> None:
        for run in self._runs:
            self._feed.advance(run)


def _speak_a_language_of_the_page(environ: WSGIEnvironment) -> None:
    """VisualDL answers 500 to a browser that asks for neither English nor Chinese."""
    asked = parse_accept_header(environ.get("HTTP_ACCEPT_LANGUAGE"), LanguageAccept)
    if asked.best_match(visualdl_app.support_language) is None:
        environ["HTTP_ACCEPT_LANGUAGE"] = visualdl_app.default_language


def _with_headers(start_response: StartResponse) -> StartResponse:
    def start(status: str, given: list[tuple[str, str]], *rest: Any) -> Callable[[bytes], object]:
        headers = Headers(given)
        headers.update(_HEADERS)
        headers.setdefault("Cache-Control", "no-store")
        headers.remove("Set-Cookie")  # of the language; it would reach every server on 127.0.0.1
        return start_response(status, headers.to_wsgi_list(), *rest)

    return start
