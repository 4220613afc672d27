"""The board's web application: which runs are seen at which address.

One VisualDL app is made per set of runs and address, when it is first asked for: VisualDL shows all it is
given in one page, and a page with every run of a user does not come up. The address says it all
(``request``), so there is no list of views to keep, or to lose.
"""

from __future__ import annotations

import contextlib
import json
import logging
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlencode

from visualdl.server import app as visualdl_app
from werkzeug.datastructures import Headers, LanguageAccept
from werkzeug.http import parse_accept_header
from werkzeug.test import run_wsgi_app
from werkzeug.wrappers import Response

from nbdist.board.feed import Feed
from nbdist.board.patches import LOAD_SECONDS, READ_SECONDS, Boards, board_arguments, curve_name, read_on
from nbdist.board.readers import STEP_TIME, SYSTEM, shown_first
from nbdist.board.request import ALIVE, BoardRequest, Refused, read_request
from nbdist.errors import NotPrivate
from nbdist.model.decoding import loads
from nbdist.store import LogStream, MetricPoint, RunDirectory, snapshot
from nbdist.store.metrics import points_of
from nbdist.store.paths import check_private
from nbdist.store.scraped.log import printed_points

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment


log = logging.getLogger("nbdist.board")

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

    def _answer(self, asked: BoardRequest) -> WSGIApplication:
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

    def _view(self, asked: BoardRequest) -> View:
        with self._lock:
            if asked.public_path not in self._views:
                runs = [RunDirectory(self._runs / run_id) for run_id in asked.runs]
                self._views[asked.public_path] = View(runs, asked.public_path, self._feed)
            self._views.move_to_end(asked.public_path)
            while len(self._views) > MAX_VIEWS:
                self._views.popitem(last=False)
            return self._views[asked.public_path]


def _with_headers(start_response: StartResponse, policy: str) -> StartResponse:
    def start(status: str, given: list[tuple[str, str]], *rest: Any) -> Callable[[bytes], object]:
        headers = Headers(given)
        headers.update(_HEADERS)
        headers["Content-Security-Policy"] = policy
        headers.setdefault("Cache-Control", "no-store")
        headers.remove("Set-Cookie")  # of the language; it would reach every server on 127.0.0.1
        return start_response(status, headers.to_wsgi_list(), *rest)

    return start


# The view over some runs.

_LOOK = 16_384  # bytes at either end of a file


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedRun:
    """What the list says of a run: its curves and their tags."""

    curves: tuple[str, ...]
    tags: tuple[str, ...]


class LazyRuns:
    """Runs that a view lists, and does not read before a page asks for them. ``name_of`` says how the page
    calls a run.

    VisualDL knows of a curve what it has read of it, so a view of a hundred runs would take minutes to come
    up while each of their points becomes a record. Beyond a few, runs sleep: the page's list of curves has
    them, with the tags that stand at either end of rank 0's files, and the first request for one of their
    curves wakes them.
    """

    def __init__(self, runs: Iterable[RunDirectory], name_of: Callable[[RunDirectory], str]) -> None:
        self._all = {name_of(run): run for run in runs}
        self._runs = dict(self._all)
        self._seen: dict[str, ListedRun] = {}

    def __len__(self) -> int:
        return len(self._runs)

    def wake(self, curve: str) -> RunDirectory | None:
        """The run that a curve (``lenet-k3f9/mean``) is of, where it sleeps; it does no longer."""
        return self._runs.pop(curve.rpartition("/")[0], None)

    def wake_one(self) -> RunDirectory | None:
        """Any run that sleeps."""
        return self._runs.pop(next(iter(self._runs))) if self._runs else None

    def listed(self) -> list[tuple[str, list[str]]]:
        """Every curve with its tags, as VisualDL lists them when it has read them; also of those runs that
        sleep no longer, since its own list may be a moment old."""
        found = []
        for name, run in self._all.items():
            if name not in self._seen:
                self._seen[name] = _look(run)
            seen = self._seen[name]
            found += [(f"{name}/{curve}", list(seen.tags)) for curve in seen.curves]
        return found


def curve_of(run: RunDirectory) -> str:
    """The one curve that stands for a run among many: the mean over its ranks, where there are several."""
    now = snapshot(run)
    if now is None:
        return "rank0"
    suffix = f".attempt-{now.attempt}" if now.attempt > 1 else ""
    return f"{'mean' if len(now.ranks) > 1 else 'rank0'}{suffix}"


def _ends(stream: LogStream) -> list[MetricPoint]:
    """The points at either end of a file."""
    begin = stream.read(_LOOK)
    stream.skip_to_tail(_LOOK)
    return points_of((begin + b"\n" + stream.read(_LOOK)).splitlines())


def _look(run: RunDirectory) -> ListedRun:
    now = snapshot(run)
    files = run.rank(0, now.attempt if now is not None else 1)
    tags = dict.fromkeys(tag for point in _ends(LogStream(files.metrics)) for tag in point.values)
    if now is not None and now.spec.scrape:
        printed = printed_points(files, 2 * _LOOK)
        tags |= dict.fromkeys(tag for point in printed for tag in point.values)
    used = dict.fromkeys(tag for point in _ends(LogStream(files.system)) for tag in point.values)
    system = [SYSTEM + tag for tag in used if not tag.endswith("_total")]
    return ListedRun(curves=tuple(dict.fromkeys((curve_of(run), "rank0"))), tags=(*tags, STEP_TIME, *system))


AWAKE_AT_FIRST = 4
"""Runs that a view reads before anyone asks for one of them."""

_WAKING_SECONDS = 0.5  # of a request for something that a list cannot know of
_QUIET = 0.1  # seconds without a request after which one is not expected at once
_PATIENCE = 1.0  # seconds that pages which ask all the time can keep the rest from being read
_PIECE_SECONDS = 0.1  # read at a time while no request waits; one may have to wait so long
_LISTS = ("scalar/tags", "runs")
# what asks for a curve by its name, or for nothing of a run
_OF_SCALARS = ("scalar/", "runs", "tags", "component", "logs", "graph/", "profiler/")


class View:
    """A WSGI application; threads may share it.

    What is there is read for a moment before the first answer, and a thread reads the rest, while no request
    waits: a page of millions of points comes up with the first of them, and asks for more as it always does.
    """

    def __init__(self, runs: list[RunDirectory], public_path: str, feed: Feed) -> None:
        self._runs = runs
        self._feed = feed
        self._api = public_path + "/api/"
        self._scalars = public_path + "/scalar"
        self._lock = threading.Lock()  # VisualDL's readers are made for one thread
        self._asking = 0  # requests that wait for it, or have it
        self._asked_last = 0.0
        self._asked = threading.Condition()
        self._reading: threading.Thread | None = None
        self._boards = [str(run.board) for run in runs]
        self._many = len(runs) > AWAKE_AT_FIRST
        self._awake = runs[:AWAKE_AT_FIRST]
        self._asleep = LazyRuns(runs[AWAKE_AT_FIRST:], self._name)
        self._advanced = 0.0
        self._read = Boards(named=self._boards)
        fed = self._advance_all(READ_SECONDS)
        self._app: Any = visualdl_app.create_app(board_arguments(self._read, public_path))
        self._read.behind |= not fed
        self._read_on()

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        _speak_a_language_of_the_page(environ)
        path, query = environ["PATH_INFO"], parse_qs(environ.get("QUERY_STRING", ""))
        if path == self._scalars and not query.get("runs"):
            return Response(status=302, headers={"Location": self._first_page()})(environ, start_response)
        if not path.startswith(self._api):
            return self._app(environ, start_response)  # type: ignore[no-any-return]
        asked = path[len(self._api) :]
        with self._waiting(), self._lock:
            self._wake_for(asked, query.get("run", []))
            if not self._read.behind:
                self._advance()
            answer = self._listing if asked in _LISTS and self._many else self._app
            said = answer(environ, start_response)
            self._read_on()
            return said

    @contextlib.contextmanager
    def _waiting(self) -> Iterator[None]:
        """A request goes before what is read meanwhile."""
        with self._asked:
            self._asking += 1
        try:
            yield
        finally:
            with self._asked:
                self._asking -= 1
                self._asked_last = time.monotonic()
                self._asked.notify()

    def _read_on(self) -> None:
        """Have the rest read, where there is one; with the lock held, or before anyone could ask."""
        if self._read.behind and self._reading is None:
            self._reading = threading.Thread(target=self._read_the_rest, name="read on", daemon=True)
            self._reading.start()

    def _read_the_rest(self) -> None:
        try:
            while self._read_a_piece():
                pass
        except Exception:
            # the next request tries again, and answers with the error
            log.exception("what is left of %s is not read", ", ".join(run.run_id for run in self._runs))
            self._read.behind, self._reading = False, None

    def _read_a_piece(self) -> bool:
        """Whether there is more."""
        self._wait_for_quiet()
        with self._lock:
            fed = self._advance_all(_PIECE_SECONDS)
            self._read.behind = not (read_on(self._read, _PIECE_SECONDS) and fed)
            if not self._read.behind:
                self._reading = None
            return self._read.behind

    def _first_page(self) -> str:
        """The page with some curves ticked; the others are in its list.

        Of a few runs, each with the whole and its rank 0; of many, the first few with the mean over their
        ranks. ``runs`` is the page's own (``hooks/useTagFilter.js``). Relative, since a proxy may have put
        something in front of the address.
        """
        shown = self._runs[:AWAKE_AT_FIRST]
        if self._many:
            names = [f"{self._name(run)}/{curve_of(run)}" for run in shown]
        else:
            names = [
                curve_name(str(run.board / name), self._boards) for run in shown for name in shown_first(run)
            ]
        return "scalar?" + urlencode({"runs": ",".join(names)})

    def _name(self, run: RunDirectory) -> str:
        return curve_name(str(run.board), self._boards)

    def _wait_for_quiet(self) -> None:
        """The requests of a page come together, some of them one after another."""
        end = time.monotonic() + _PATIENCE
        with self._asked:
            while (now := time.monotonic()) < end:
                left = end if self._asking else min(end, self._asked_last + _QUIET)
                if left <= now:
                    return
                self._asked.wait(left - now)

    def _wake_for(self, asked: str, curves: list[str]) -> None:
        """Let VisualDL know of the runs whose curves are asked for."""
        before = len(self._asleep)
        for curve in curves:
            self._wake(self._asleep.wake(curve))
        if not curves and not asked.startswith(_OF_SCALARS):
            # hyperparameters, pictures: no list can have what was not read, so read on a little each time
            end = time.monotonic() + _WAKING_SECONDS
            while len(self._asleep) and time.monotonic() < end:
                self._wake(self._asleep.wake_one())
        if len(self._asleep) < before:
            # it looks a curve up by its name before it reads what is new
            fed = not self._read.behind
            self._read.behind = not (read_on(self._read, READ_SECONDS) and fed)

    def _wake(self, run: RunDirectory | None) -> None:
        if run is not None:
            self._awake.append(run)
            self._read.behind |= not self._advance_run(run, READ_SECONDS)

    def _advance(self) -> None:
        now = time.monotonic()
        # the requests of one page come together
        if now - self._advanced >= LOAD_SECONDS:
            self._read.behind = not self._advance_all(READ_SECONDS)
            self._advanced = time.monotonic()

    def _advance_all(self, seconds: float) -> bool:
        """Whether all that the runs have logged was taken."""
        whole = [self._advance_run(run, seconds / len(self._awake)) for run in self._awake]
        return all(whole)

    def _advance_run(self, run: RunDirectory, seconds: float) -> bool:
        whole = self._feed.advance(run, seconds)
        if not self._many:
            self._read.add(str(run.board))
            return whole
        # of many runs the whole and rank 0 are read: the other ranks are there when a run is looked at alone
        for name in shown_first(run):
            if not name.startswith(("min", "max")):
                self._read.add(str(run.board / name))
        return whole

    def _listing(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """VisualDL's own list, and behind it the runs that sleep."""
        chunks, status, headers = run_wsgi_app(self._app, environ, buffered=True)
        body = b"".join(chunks)
        given = loads(body)
        data = given.get("data")
        there = set(data["runs"] if isinstance(data, dict) else data or ())
        more = [(name, tags) for name, tags in self._asleep.listed() if name not in there]
        if isinstance(data, dict):
            data["runs"] += [name for name, _ in more]
            data["tags"] += [tags for _, tags in more]
        elif isinstance(data, list):
            data += [name for name, _ in more]
        headers.remove("Content-Length")
        answer: WSGIApplication = Response(json.dumps(given), status, headers)
        return answer(environ, start_response)


def _speak_a_language_of_the_page(environ: WSGIEnvironment) -> None:
    """VisualDL answers 500 to a browser that asks for neither English nor Chinese."""
    asked = parse_accept_header(environ.get("HTTP_ACCEPT_LANGUAGE"), LanguageAccept)
    if asked.best_match(visualdl_app.support_language) is None:
        environ["HTTP_ACCEPT_LANGUAGE"] = visualdl_app.default_language
