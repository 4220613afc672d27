"""The board's web application: one VisualDL app for each set of runs and address, made at its first request.

VisualDL shows all its runs in one page, and a page with every run of a user does not come up.
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
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlencode

from visualdl.server import app as visualdl_app
from werkzeug.datastructures import Headers, LanguageAccept
from werkzeug.http import parse_accept_header
from werkzeug.test import run_wsgi_app
from werkzeug.wrappers import Response

from nbdist.board.patches import LOAD_SECONDS, READ_SECONDS, Boards, board_arguments, curve_name, read_on
from nbdist.board.readers import STEP_TIME, SYSTEM, shown_first
from nbdist.board.request import ALIVE, BoardRequest, Refused, read_request
from nbdist.board.scalars import Feed
from nbdist.errors import NotPrivate
from nbdist.model.decoding import loads
from nbdist.store import LogStream, RunDirectory, snapshot
from nbdist.store.metrics import points_of
from nbdist.store.paths import check_private
from nbdist.store.scraped.log import printed_points

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment


log = logging.getLogger("nbdist.board")

MAX_VIEWS = 8  # in memory; the least recently requested goes first
_RUN_ID = re.compile(r"\w[\w.-]*", re.ASCII)
# the page needs inline script and style and, for its wasm workers, eval; it may reach this server only
_POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; "
    "style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; font-src 'self' data:; "
    "worker-src 'self' blob:; object-src 'none'; base-uri 'self'; form-action 'none'; "
    "frame-ancestors 'self' http://localhost:* http://127.0.0.1:* https://localhost:* https://127.0.0.1:*"
)
_PROXIED_POLICY = f"{_POLICY} https:"  # a proxy may have another name than the notebook's page
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
        """Return the seconds since the last request that had the token."""
        return self._clock() - self._last_request

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        try:
            request = read_request(environ, self.token)
            answer = self._answer(request)
        except Refused as refusal:
            return Response(str(refusal), refusal.status)(environ, _with_headers(start_response, _POLICY))
        # with the prefix that a proxy removed, as the pages have it
        environ["PATH_INFO"] = request.path
        policy = _POLICY if request.direct else _PROXIED_POLICY
        return answer(environ, _with_headers(start_response, policy))

    def _answer(self, request: BoardRequest) -> WSGIApplication:
        self._last_request = self._clock()
        if request.runs == (ALIVE,):
            return Response(status=204)
        if not all(map(self._exists, request.runs)):
            raise Refused(404, "There is no such run.\n")
        return Response(status=204) if request.below == ALIVE else self._view(request)

    def _exists(self, run_id: str) -> bool:
        if not _RUN_ID.fullmatch(run_id):
            return False
        try:
            check_private(self._runs / run_id)
        except (OSError, NotPrivate):
            return False
        return True

    def _view(self, request: BoardRequest) -> View:
        path = request.public_path
        with self._lock:
            if path not in self._views:
                runs = [RunDirectory(self._runs / run_id) for run_id in request.runs]
                self._views[path] = View(runs, path, self._feed)
            self._views.move_to_end(path)
            while len(self._views) > MAX_VIEWS:
                self._views.popitem(last=False)
            return self._views[path]


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


class LazyRuns:
    """Runs that a view lists unread, as 100 take minutes to read; ``name_of`` returns a run's name.

    The page lists their curves with the tags at either end of rank 0's files; a request wakes their run.
    """

    def __init__(self, runs: Iterable[RunDirectory], name_of: Callable[[RunDirectory], str]) -> None:
        self._all = {name_of(run): run for run in runs}
        self._asleep = dict(self._all)
        self._seen: dict[str, tuple[list[str], list[str]]] = {}

    def __len__(self) -> int:
        return len(self._asleep)

    def wake(self, curve: str) -> RunDirectory | None:
        """Wake the run of a curve (``lenet-k3f9/mean``), if it sleeps."""
        return self._asleep.pop(curve.rpartition("/")[0], None)

    def wake_next(self) -> RunDirectory:
        """Wake the first run that sleeps."""
        return self._asleep.pop(next(iter(self._asleep)))

    def listed(self) -> list[tuple[str, list[str]]]:
        """Return every curve with its tags, also of runs that woke: VisualDL's own list may lag."""
        for name, run in self._all.items():
            if name not in self._seen:
                self._seen[name] = _curves_and_tags(run)
        return [(f"{name}/{curve}", tags) for name, (curves, tags) in self._seen.items() for curve in curves]


def curve_of(run: RunDirectory) -> str:
    """Return the curve that stands for a run among many: the mean over its ranks, or its only one."""
    now = snapshot(run)
    if now is None:
        return "rank0"
    suffix = f".attempt-{now.attempt}" if now.attempt > 1 else ""
    return f"{'mean' if len(now.ranks) > 1 else 'rank0'}{suffix}"


def _tags_at_ends(path: Path) -> dict[str, None]:
    """Return the tags of the points at either end of a file."""
    stream = LogStream(path)
    begin = stream.read(_LOOK)
    stream.skip_to_tail(_LOOK)
    points = points_of((begin + b"\n" + stream.read(_LOOK)).splitlines())
    return dict.fromkeys(tag for point in points for tag in point.values)


def _curves_and_tags(run: RunDirectory) -> tuple[list[str], list[str]]:
    now = snapshot(run)
    files = run.rank(0, now.attempt if now is not None else 1)
    tags = _tags_at_ends(files.metrics)
    if now is not None and now.spec.scrape:
        printed = printed_points(files, 2 * _LOOK)
        tags |= dict.fromkeys(tag for point in printed for tag in point.values)
    system = [SYSTEM + tag for tag in _tags_at_ends(files.system) if not tag.endswith("_total")]
    return list(dict.fromkeys((curve_of(run), "rank0"))), [*tags, STEP_TIME, *system]


AWAKE_AT_FIRST = 4  # runs that a view reads before a request needs them
_WAKING_SECONDS = 0.5  # of a request for things that no list has
_QUIET = 0.1  # seconds without a request, after which none is expected at once
_PATIENCE = 1.0  # seconds for which requests can delay the reading of the rest
_PIECE_SECONDS = 0.1  # of reading, for which a request may have to wait
_LISTS = ("scalar/tags", "runs")
# requests that name a curve, or need no run
_OF_SCALARS = ("scalar/", "runs", "tags", "component", "logs", "graph/", "profiler/")


class View:
    """A WSGI application over some runs; threads may share it.

    It reads for a moment before its first answer with points; a thread reads the rest while no request waits.
    """

    def __init__(self, runs: list[RunDirectory], public_path: str, feed: Feed) -> None:
        self._runs = runs
        self._feed = feed
        self._api = public_path + "/api/"
        self._scalars = public_path + "/scalar"
        self._lock = threading.Lock()  # VisualDL's readers are made for one thread
        self._requests = 0  # that wait for it, or have it
        self._last_request = 0.0
        self._quiet = threading.Condition()
        self._reading: threading.Thread | None = None
        self._boards = [str(run.board) for run in runs]
        self._many = len(runs) > AWAKE_AT_FIRST
        self._awake = runs[:AWAKE_AT_FIRST]
        self._asleep = LazyRuns(runs[AWAKE_AT_FIRST:], self._name)
        self._advanced = 0.0
        self._read = Boards(named=self._boards)
        # the page needs no points yet: it loads while they are read
        self._first_answer = time.monotonic() + READ_SECONDS
        fed = self._advance_all(_PIECE_SECONDS)
        self._app: Any = visualdl_app.create_app(board_arguments(self._read, public_path))
        self._read.behind |= not fed
        self._read_on()

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        _speak_a_language_of_the_page(environ)
        path, query = environ["PATH_INFO"], parse_qs(environ.get("QUERY_STRING", ""))
        if path == self._scalars and not query.get("runs"):
            return Response(status=302, headers={"Location": self._first_page()})(environ, start_response)
        if not path.startswith(self._api):
            # some 250 files of the page, each of which would wait for a piece of reading
            with self._waiting():
                return self._app(environ, start_response)  # type: ignore[no-any-return]
        name = path[len(self._api) :]
        with self._waiting(), self._lock:
            self._wake_for(name, query.get("run", []))
            if self._read.behind and (left := self._first_answer - time.monotonic()) > 0:
                fed = self._advance_all(left)
                self._read.behind = not (read_on(self._read, left) and fed)
            # the requests of one page come together
            if not self._read.behind and time.monotonic() - self._advanced >= LOAD_SECONDS:
                self._read.behind = not self._advance_all(READ_SECONDS)
                self._advanced = time.monotonic()
            application = self._listing if name in _LISTS and self._many else self._app
            answer: Iterable[bytes] = application(environ, start_response)
            self._read_on()
            return answer

    @contextlib.contextmanager
    def _waiting(self) -> Iterator[None]:
        """Count a request that goes before the reading of the rest."""
        with self._quiet:
            self._requests += 1
        try:
            yield
        finally:
            with self._quiet:
                self._requests -= 1
                self._last_request = time.monotonic()
                self._quiet.notify()

    def _read_on(self) -> None:
        """Start a thread that reads the rest, if any; with the lock held, or before any request."""
        if self._read.behind and self._reading is None:
            self._reading = threading.Thread(target=self._read_the_rest, name="read on", daemon=True)
            self._reading.start()

    def _read_the_rest(self) -> None:
        behind = True
        try:
            while behind:
                self._wait_for_quiet()
                with self._lock:
                    fed = self._advance_all(_PIECE_SECONDS)
                    behind = self._read.behind = not (read_on(self._read, _PIECE_SECONDS) and fed)
                    if not behind:
                        self._reading = None
        except Exception:
            # the next request tries again, and answers with the error
            log.exception("the rest of %s is not read", ", ".join(run.run_id for run in self._runs))
            self._read.behind, self._reading = False, None

    def _first_page(self) -> str:
        """Return the page, relative for the sake of proxies, with some curves ticked
        (``hooks/useTagFilter.js``): the whole and rank 0 of each run, of many the mean of the first few."""
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
        """Wait until no request comes: those of a page come close together."""
        end = time.monotonic() + _PATIENCE
        with self._quiet:
            while (now := time.monotonic()) < end:
                until = end if self._requests else min(end, self._last_request + _QUIET)
                if until <= now:
                    return
                self._quiet.wait(until - now)

    def _wake_for(self, name: str, curves: list[str]) -> None:
        """Let VisualDL read the runs whose curves a request needs."""
        before = len(self._asleep)
        for curve in curves:
            if (run := self._asleep.wake(curve)) is not None:
                self._wake(run)
        if not curves and not name.startswith(_OF_SCALARS):
            # hyperparameters, pictures: no list has what was not read, so read on a little each time
            end = time.monotonic() + _WAKING_SECONDS
            while len(self._asleep) and time.monotonic() < end:
                self._wake(self._asleep.wake_next())
        if len(self._asleep) < before:
            # it looks a curve up by its name before it reads what is new
            fed = not self._read.behind
            self._read.behind = not (read_on(self._read, READ_SECONDS) and fed)

    def _wake(self, run: RunDirectory) -> None:
        self._awake.append(run)
        self._read.behind |= not self._advance_run(run, READ_SECONDS)

    def _advance_all(self, seconds: float) -> bool:
        """Read for ``seconds``; return whether that was everything that the runs have logged."""
        whole = [self._advance_run(run, seconds / len(self._awake)) for run in self._awake]
        return all(whole)

    def _advance_run(self, run: RunDirectory, seconds: float) -> bool:
        whole = self._feed.advance(run, seconds)
        if not self._many:
            self._read.add(str(run.board))
            return whole
        # of many runs read the whole and rank 0: the page of one run has its other ranks
        for name in shown_first(run):
            if not name.startswith(("min", "max")):
                self._read.add(str(run.board / name))
        return whole

    def _listing(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Send VisualDL's own list, and behind it the runs that sleep."""
        chunks, status, headers = run_wsgi_app(self._app, environ, buffered=True)
        content = loads(b"".join(chunks))
        data = content.get("data")
        if isinstance(data, dict):
            more = [(name, tags) for name, tags in self._asleep.listed() if name not in data["runs"]]
            data["runs"] += [name for name, _ in more]
            data["tags"] += [tags for _, tags in more]
        elif isinstance(data, list):
            data += [name for name, _ in self._asleep.listed() if name not in data]
        headers.remove("Content-Length")
        answer: WSGIApplication = Response(json.dumps(content), status, headers)
        return answer(environ, start_response)


def _speak_a_language_of_the_page(environ: WSGIEnvironment) -> None:
    """Replace a language that the page lacks: VisualDL answers 500 to any but English and Chinese."""
    accepted = parse_accept_header(environ.get("HTTP_ACCEPT_LANGUAGE"), LanguageAccept)
    if accepted.best_match(visualdl_app.support_language) is None:
        environ["HTTP_ACCEPT_LANGUAGE"] = visualdl_app.default_language
