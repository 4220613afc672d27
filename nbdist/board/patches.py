"""The changes that nbdist makes in VisualDL's server (2.5.3, frozen upstream), and the curves of a view.

``PATCHES`` has the changes, ``_PAGE_EDITS`` those of VisualDL's page; ``create_app`` gets the other two (no
telemetry, a short cache) as arguments.
"""

from __future__ import annotations

import array
import csv
import io
import logging
import math
import mimetypes
import os
import pkgutil
import re
import signal
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from flask import Response, abort
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from visualdl.proto.record_pb2 import Record
from visualdl.reader import reader as vdl_reader
from visualdl.server import app as vdl_app
from visualdl.server import data_manager
from visualdl.server import lib as vdl_lib
from visualdl.server.args import ParseArgs
from visualdl.utils.string_util import decode_tag
from werkzeug.security import safe_join

from nbdist.board.record_files import FrameReader
from nbdist.errors import LaunchError


class VisualDLChangedError(LaunchError):
    """A VisualDL that lacks something that we change; nbdist knows 2.5.3."""


def apply(patches: Mapping[str, object]) -> None:
    """Replace each dotted name of VisualDL in this process; with a name missing, none.

    :raises VisualDLChangedError: for a missing name.
    """
    for name in patches:
        try:
            pkgutil.resolve_name(name)
        except (ImportError, AttributeError) as error:
            raise VisualDLChangedError(f"VisualDL has no {name}: {error}") from error
    for name, replacement in patches.items():
        owner, _, attribute = name.rpartition(".")
        setattr(pkgutil.resolve_name(owner), attribute, replacement)
    logging.getLogger("vdl_logger").setLevel(logging.CRITICAL)  # it logs every refresh of a cache


class PageFiles:
    """The page's files for one address, in place of ``Template``; ``edits`` has a file's old and new text."""

    def __init__(self, edits: Mapping[str, tuple[str, str]], path: str, **context: str) -> None:
        self._edits = edits
        self._root = path
        self._context = {"API_TOKEN_KEY": "", **context}
        for name, (old, _) in edits.items():
            if old not in Path(path, name).read_text(encoding="utf-8"):
                raise VisualDLChangedError(f"{name} has no {old}")

    def render(self, name: str) -> Response:
        path = safe_join(self._root, name)
        if path is None or not os.path.isfile(path):
            abort(404)
        content = Path(path).read_bytes()
        if path.endswith((".html", ".js", ".css")):
            text = content.decode("utf-8").replace(*self._edits.get(name, ("", "")))
            for key, value in self._context.items():
                text = text.replace("{{" + key + "}}", value)
            content = text.encode("utf-8")
        kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
        response = Response(content, mimetype=kind)
        if not name.endswith(".html"):
            response.cache_control.max_age = 3600  # the address changes with every server
        return response


POLL_SECONDS = 2  # between two requests of an open page for new points
LOAD_SECONDS = 0.2  # for which one look at the files serves all the requests of a page
READ_SECONDS = 1.0  # that a request may wait while records are read
_ROOM = 1 << 16  # bytes of records read from one file before the next has its turn

log = logging.getLogger("nbdist.board")


def board_arguments(logdirs: list[str], public_path: str) -> Any:
    """Return the arguments of ``create_app``: no telemetry, hardly any cache."""
    return ParseArgs(
        logdir=logdirs,
        public_path=public_path,
        host="127.0.0.1",
        telemetry=False,
        cache_timeout=LOAD_SECONDS,
    )


# Curves: their names, and which of their points are kept.


class Boards(list[str]):
    """The directories that VisualDL reads, some later than others, named among ``named``."""

    def __init__(self, *, named: list[str]) -> None:
        super().__init__()
        self.named = named
        self.reader: Any = None  # VisualDL's, which reads them
        self.loaded = -math.inf  # the time of its last look at the files, on the monotonic clock
        self.behind = False  # while known records are unread
        # by directory and tag of a scalar, the function that adds a point
        self.added: dict[str, dict[str, Callable[[Any, float], None]]] = {}

    def add(self, directory: str) -> None:
        if directory not in self:
            self.append(directory)
            self.loaded = -math.inf


def curve_name(directory: str, logdirs: list[str]) -> str:
    """Return the name of a directory's curves: ``rank0``, and with several runs ``lenet-k3f9/rank0``.

    ``logdirs`` are the boards of the runs, ``…/<run_id>/board``. VisualDL merges curves of one name, so each
    directory has its own, unlike the names that programs give themselves.
    """
    logdir = next(d for d in logdirs if directory == d or directory.startswith(d + os.sep))
    below = os.path.relpath(directory, logdir)
    run_ids = [Path(d).parent.name for d in logdirs]
    run_id = Path(logdir).parent.name
    if len(logdirs) == 1:
        return run_id if below == os.curdir else below
    short = _without_time(run_id)
    run = short if [_without_time(other) for other in run_ids].count(short) == 1 else run_id
    return run if below == os.curdir else f"{run}/{below}"


def natural(path: str) -> list[tuple[int, str]]:
    """Return a key that sorts rank2 before rank10; VisualDL shows curves in their order of reading."""
    return [(int(part), "") if part.isdigit() else (0, part) for part in re.split(r"(\d+)", path)]


def _without_time(run_id: str) -> str:
    date, _, rest = run_id.partition("-")
    clock, _, name = rest.partition("-")
    return name if name and date.isdigit() and clock.isdigit() else run_id


class EvenBucket(data_manager._ReservoirBucket):  # type: ignore[misc]
    """The points of one curve: every n-th, the lowest, the highest and the last."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._items: list[Any]
        self._num_items_index: int
        self._numbers: list[int] = []  # which point each of _items is
        self._stride = 1
        self._lowest = self._highest = (0, float("nan"))

    def add_scalar_item(self, item: Any) -> None:
        is_scalar = item.WhichOneof("one_value") == "value"
        self.add(item, item.value if is_scalar else item.tag_value.value)

    add_scalars_item = add_scalar_item

    def add(self, item: Any, value: float) -> None:
        """Add an item with its value; drop others when there are too many."""
        with self._mutex:
            number = self._num_items_index
            self._num_items_index = number + 1
            if not value >= self._lowest[1]:  # true, too, while that is NaN: there is none yet
                self._lowest = (number, value)
            if not value <= self._highest[1]:
                self._highest = (number, value)
            numbers = self._numbers
            if numbers and not self._stays(numbers[-1]):
                numbers[-1], self._items[-1] = number, item
            else:
                numbers.append(number)
                self._items.append(item)
            while 0 < self._max_size < len(self._items):
                self._stride *= 2
                kept = [i for i, n in enumerate(self._numbers) if n == number or self._stays(n)]
                self._numbers = [self._numbers[i] for i in kept]
                self._items = [self._items[i] for i in kept]

    def _stays(self, number: int) -> bool:
        return not number % self._stride or number == self._lowest[0] or number == self._highest[0]


# Reading records.

_init_log_reader = vdl_reader.LogReader.__init__


def init_log_reader(reader: Any, *args: Any, **kwargs: Any) -> None:
    """Replace ``LogReader.__init__``: give the reader points of its own. One thread at a time may call it."""
    vdl_reader.default_data_manager = data_manager.DataManager()
    _init_log_reader(reader, *args, **kwargs)
    reader.dir.reader = reader


def add_remain(reader: Any, seconds: float = READ_SECONDS) -> None:
    """Replace ``LogReader.add_remain``: drop records that cannot be shown, and stop after ``seconds``."""
    end = time.monotonic() + seconds
    boards: Boards = reader.dir
    sources = sorted(reader.readers.values(), key=lambda source: natural(source.dir))
    for source in sources:
        name = curve_name(source.dir, boards.named)
        reader.name2tags[name], reader.tags2name[source.dir] = source.dir, name
        _add(reader, source)
    # a piece of each in turn: all curves of a page grow together
    while (behind := [source for source in sources if source.behind]) and time.monotonic() < end:
        for source in behind:
            _add(reader, source)
    boards.behind = bool(behind)


def _add(reader: Any, source: FrameReader) -> None:
    """Add the next records of a file."""
    reader.reader = source
    added = reader.dir.added.setdefault(source.dir, {})
    left_out = []
    for message in source.get_remain():
        try:
            value = Record.FromString(message).values[0]
            add = added.get(value.tag)
            if add is not None and value.WhichOneof("one_value") == "value":
                add(value, value.value)
                continue
            component, run, tag, value = reader.parse_from_bin(message)
            reader.data_manager.add_item(component, run, tag, value)
            if component == "scalar" and value.WhichOneof("one_value") == "value":
                buckets = reader.data_manager.get_reservoir("scalar")._buckets
                added[value.tag] = buckets[f"{run}/{tag}"].add
        except (DecodeError, ValueError, TypeError, KeyError, IndexError) as error:
            left_out.append(error)
    if left_out:
        log.warning("%d records in %s are left out: %s", len(left_out), source.dir, left_out[0])


def read_on(boards: Boards, seconds: float) -> bool:
    """Let VisualDL read its files for about ``seconds``; return whether that was all."""
    boards.reader.register_readers(update=True)
    add_remain(boards.reader, seconds)
    return not boards.behind


_load_new_data = vdl_reader.LogReader.load_new_data


def load_new_data(reader: Any, update: bool = True) -> None:
    """Replace ``LogReader.load_new_data``, which every request for every tag calls."""
    boards: Boards = reader.dir
    now = time.monotonic()
    # while it is behind, the view reads on
    if not boards.behind and now - boards.loaded >= LOAD_SECONDS:
        _load_new_data(reader, update)
        boards.loaded = now


def get_log_data(reader: Any, component: str, run: str, tag: str) -> list[Any]:
    """Replace ``LogReader.get_log_data``: read all points of a tag anew, for a download."""
    field = {"scalar": "value", "scalars": "tag_value"}[component]
    values = []
    for message in FrameReader(os.path.join(run, reader.walks[run])).get_remain():
        try:
            value = Record.FromString(message).values[0]
        except (DecodeError, IndexError):
            continue
        if decode_tag(value.tag) == tag and value.WhichOneof("one_value") == field:
            values.append(value)
    rows: list[Any] = reader.parsing_from_proto(component, values)
    return rows


_get_hparam_list = vdl_lib.get_hparam_list


def get_hparam_list(reader: Any) -> list[dict[str, Any]]:
    """Replace ``lib.get_hparam_list``: name runs by their curves, not by their directories."""
    items: list[dict[str, Any]] = _get_hparam_list(reader)
    return [item | {"name": reader.tags2name.get(item["name"], item["name"])} for item in items]


# Embeddings.


def get_embeddings_list(reader: Any) -> list[dict[str, Any]]:
    """Replace ``lib.get_embeddings_list``: list this reader's, by the names of their curves."""
    listed = vdl_lib.get_logs(reader, "embeddings")
    items = []
    for run, tags in zip(listed["runs"], listed["tags"], strict=True):
        for tag in tags:
            rows = _embedding(reader, f"{run}/{tag}", (run, tag)).embeddings
            shape = [len(rows), len(rows[0].vectors) if rows else 0]
            items.append({"name": f"{run}/{tag}", "shape": shape, "path": f"{run}/{tag}"})
    return items


def get_embedding_labels(reader: Any, name: str) -> str:
    """Replace ``lib.get_embedding_labels``: a row for each point, below the names of the columns."""
    shown = _embedding(reader, name)
    rows = [list(shown.label_meta)] if shown.label_meta else []
    rows += [list(row.label) for row in shown.embeddings]
    with io.StringIO() as text:
        csv.writer(text, delimiter="\t").writerows(rows)
        return text.getvalue()


def get_embedding_tensors(reader: Any, name: str) -> bytes:
    """Replace ``lib.get_embedding_tensors``: float32, row after row."""
    rows = _embedding(reader, name).embeddings
    return array.array("f", (value for row in rows for value in row.vectors)).tobytes()


def _embedding(reader: Any, name: str, parts: tuple[str, str] | None = None) -> Any:
    """Return the embedding of a curve and a tag; both may have slashes."""
    run, tag = parts or next(
        (run, name[len(run) + 1 :]) for run in sorted(reader.name2tags, key=len) if name.startswith(f"{run}/")
    )
    bucket = reader.data_manager.get_reservoir("embeddings")
    return bucket.get_items(reader.name2tags.get(run, run), decode_tag(tag))[0].embeddings


# Answering.

# A browser may deny storage to a frame of another site (JupyterLab at localhost, the board at 127.0.0.1), and
# the page stays blank when the mere name raises.
_STORAGE = """<script>
try { window.localStorage } catch {
  const kept = new Map();
  Object.defineProperty(window, "localStorage", { value: {
    getItem: key => kept.get(key) ?? null,
    setItem: (key, value) => { kept.set(key, String(value)) },
    removeItem: key => { kept.delete(key) },
  } });
}
</script>"""

_PAGE_EDITS = {
    "index.html": ("<head>", "<head>" + _STORAGE),
    "_dist_/hooks/useRequest.js": ("15*1e3", f"{POLL_SECONDS}*1e3"),
    # for a moment it takes all curves for chosen, and requests each
    "_dist_/hooks/useTagFilter.js": (
        "M(e,s.globalRuns)",
        "M(e,s.globalRuns.length?s.globalRuns:"
        '(new URLSearchParams(location.search).get("runs")||"").split(","))',
    ),
    # it goes to where it is already, and forgets the curves in the address
    "_dist_/components/Navbar.js": ("a.push(r)", "a.location.pathname===r||a.push(r)"),
}


def call_once(_times: int, function: Callable[..., Any], _pause: float, *args: Any, **kwargs: Any) -> Any:
    """Replace ``lib.retry``: no pause, and an empty list where there is nothing."""
    try:
        return function(*args, **kwargs)
    except (KeyError, IndexError) as error:
        log.info("asked for what is not there: %s", error)
        return []


_create_profiler_api_call = vdl_app.create_profiler_api_call

PATCHES: dict[str, object] = {
    # telemetry, whose reply can overwrite VisualDL's own code
    "visualdl.utils.update_util.PbUpdater.start": lambda _: None,
    # a torn last record shifts everything behind it, and each answer waits for a file's end
    "visualdl.reader.reader.RecordReader": partial(FrameReader, room=_ROOM),
    # a record of another kind, or a malformed one, keeps the server from starting
    "visualdl.reader.reader.LogReader.add_remain": add_remain,
    # two writers of one name become one curve; add_remain names the curves
    "visualdl.reader.reader.LogReader.update_meta_data": lambda *_: None,
    # each request for each tag walks all directories
    "visualdl.reader.reader.LogReader.load_new_data": load_new_data,
    # a download repeats the first one, and fails on a torn file
    "visualdl.reader.reader.LogReader.get_log_data": get_log_data,
    # all readers of a process share their points: one view shows another's runs
    "visualdl.reader.reader.LogReader.__init__": init_log_reader,
    # beyond 1,000 points of a tag, chance decides whether the last one is shown
    "visualdl.server.data_manager._ReservoirBucket": EvenBucket,
    # a missing tag sleeps 4 s, for everyone
    "visualdl.server.lib.retry": call_once,
    # runs have their absolute paths for names
    "visualdl.server.lib.get_hparam_list": get_hparam_list,
    # all readers of a process share one list of paths; a path is also the key of a cache, which returns
    # labels for vectors
    "visualdl.server.lib.get_embeddings_list": get_embeddings_list,
    # they look names up in that list
    "visualdl.server.lib.get_embedding_labels": get_embedding_labels,
    "visualdl.server.lib.get_embedding_tensors": get_embedding_tensors,
    # the page polls each 15 s, stays blank in a frame without storage, and has one address for all apps
    "visualdl.server.app.Template": partial(PageFiles, _PAGE_EDITS),
    # it starts a thread that never ends, and forks a process that has threads; its tab stays empty
    "visualdl.server.app.create_profiler_api_call": lambda _: _create_profiler_api_call(None),
    # create_app sets a signal handler, as only the main thread may
    "visualdl.server.app.signal": SimpleNamespace(signal=lambda *_: None, SIGINT=signal.SIGINT, SIG_DFL=None),
}
"""The replacement for each name of VisualDL, and above it the reason."""
