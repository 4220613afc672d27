"""The board's web application: which runs are seen at which address.

One VisualDL app is made per set of runs and address, when it is first asked for: VisualDL shows all it is
given in one page, and a page with every run of a user does not come up. The address says it all
(``asked``), so there is no list of views to keep, or to lose.
"""

from __future__ import annotations

import importlib
import re
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from werkzeug.datastructures import Headers
from werkzeug.wrappers import Response

from nbdist.board.feed import Feed
from nbdist.board.request import ALIVE, TENSORBOARD, Asked, Refused, read_request
from nbdist.board.view import View
from nbdist.errors import NotPrivate
from nbdist.store import RunDirectory
from nbdist.store.paths import check_private

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

    from nbdist.board.tensorboard import TensorBoardView

MAX_VIEWS = 8
"""Sets of runs that are kept in memory; the one that was not asked for longest goes first."""

_RUN_ID = re.compile(r"\w[\w.-]*", re.ASCII)
# The page needs inline script and style and, for its wasm workers, eval. Whatever it holds can talk to
# this server only.
_POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; "
    "style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; font-src 'self' data:; "
    "worker-src 'self' blob:; object-src 'none'; base-uri 'self'; form-action 'none'; "
    "frame-ancestors 'self' http://localhost:* http://127.0.0.1:* https://localhost:* https://127.0.0.1:*"
)
# a proxy may have another name than the notebook's page
_PROXIED_POLICY = f"{_POLICY} https:"
_HEADERS = {
    "Referrer-Policy": "no-referrer",  # the address holds the token
    "X-Content-Type-Options": "nosniff",
}


class BoardApp:
    """A WSGI application, for a server with threads. ``runs`` is the directory of the runs, ``scratch`` one
    for files that can be made again."""

    def __init__(
        self, runs: Path, token: str, scratch: Path, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._runs = runs
        self._scratch = scratch
        self.token = token
        self._clock = clock
        self._feed = Feed()
        self._made_for_tensorboard = 0
        self._views: OrderedDict[str, View | TensorBoardView] = OrderedDict()
        self._lock = threading.Lock()
        self._last_request = clock()

    def idle_seconds(self) -> float:
        """Seconds since the last request that had the token."""
        return self._clock() - self._last_request

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        try:
            asked = read_request(environ, self.token)
            answer = self._answer(asked)
        except Refused as refusal:
            return Response(str(refusal), refusal.status)(environ, _with_headers(start_response, _POLICY))
        # what a proxy took away is put back, as the pages have it
        environ["PATH_INFO"] = asked.path
        policy = _POLICY if asked.direct else _PROXIED_POLICY
        return answer(environ, _with_headers(start_response, policy))

    def _answer(self, asked: Asked) -> WSGIApplication:
        self._last_request = self._clock()
        if asked.runs == (ALIVE,):
            return Response(status=204)
        if not all(map(self._exists, asked.runs)):
            raise Refused(404, "There is no such run.\n")
        if asked.below == ALIVE:
            return Response(status=204)
        return self._view(asked)

    def _exists(self, run_id: str) -> bool:
        if not _RUN_ID.fullmatch(run_id):
            return False
        try:
            check_private(self._runs / run_id)
        except (OSError, NotPrivate):
            return False
        return True

    def _view(self, asked: Asked) -> View | TensorBoardView:
        with self._lock:
            if asked.public_path not in self._views:
                self._views[asked.public_path] = self._made(asked)
            self._views.move_to_end(asked.public_path)
            while len(self._views) > MAX_VIEWS:
                self._views.popitem(last=False)
            return self._views[asked.public_path]

    def _made(self, asked: Asked) -> View | TensorBoardView:
        runs = [RunDirectory(self._runs / run_id) for run_id in asked.runs]
        if asked.viewer != TENSORBOARD:
            return View(runs, asked.public_path, self._feed)
        # the user may have installed it since this process began
        importlib.invalidate_caches()
        try:
            from nbdist.board.tensorboard import TensorBoardView
        except ImportError as error:
            raise Refused(501, f"TensorBoard cannot be imported by {sys.executable}: {error}\n") from None
        self._made_for_tensorboard += 1
        scratch = self._scratch / f"tensorboard-{self._made_for_tensorboard}"
        return TensorBoardView(runs, asked.public_path, self._feed, scratch)


def _with_headers(start_response: StartResponse, policy: str) -> StartResponse:
    def start(status: str, given: list[tuple[str, str]], *rest: Any) -> Callable[[bytes], object]:
        headers = Headers(given)
        headers.update(_HEADERS)
        headers["Content-Security-Policy"] = policy
        headers.setdefault("Cache-Control", "no-store")
        headers.remove("Set-Cookie")  # of the language; it would reach every server on 127.0.0.1
        return start_response(status, headers.to_wsgi_list(), *rest)

    return start
