"""What nbdist changes in VisualDL, and the files of its page.

What we change in VisualDL's server (2.5.3, frozen upstream), and why. Nothing else changes it.

Only the board's own process imports this. Each change is a row of ``PATCHES``, each edit of its page one
of ``_PAGE_EDITS``. A change of a few lines stands here, too; a larger one is a module of its own.

Two things need no patch because ``create_app`` takes them as arguments, see ``board_arguments``:
telemetry, which is on by default, and a cache of 20 s.
"""

from __future__ import annotations

import importlib
import logging
import mimetypes
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
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

from nbdist.board import curves
from nbdist.board.curves import Boards, EvenBucket, curve_name, natural
from nbdist.board.records import FrameReader
from nbdist.errors import LaunchError


class VisualDLChangedError(LaunchError):
    """The installed VisualDL lacks something that we change; nbdist knows 2.5.3."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patch:
    """``module``.``name`` becomes ``replacement``, because of ``reason``."""

    module: str
    name: str
    replacement: object
    reason: str


def apply(patches: Sequence[Patch]) -> None:
    """Change VisualDL in this process.

    :raises VisualDLChangedError: when one of the names is not there; then nothing was changed.
    """
    found = [(_owner(patch), patch) for patch in patches]
    for owner, patch in found:
        setattr(owner, patch.name.rpartition(".")[2], patch.replacement)
    logging.getLogger("vdl_logger").setLevel(logging.CRITICAL)  # it logs every refresh of a cache


def _owner(patch: Patch) -> object:
    path, _, name = patch.name.rpartition(".")
    try:
        owner: object = importlib.import_module(patch.module)
        for part in filter(None, path.split(".")):
            owner = getattr(owner, part)
        getattr(owner, name)
    except (ImportError, AttributeError) as error:
        raise VisualDLChangedError(f"{patch.module} has no {patch.name} here: {error}") from error
    return owner


class PageFiles:
    """Stands for ``Template``: the files of the page, for one address.

    ``edits``: by file, what is replaced in it, and by what.
    """

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


POLL_SECONDS = 2
"""How often an open page asks for new points."""

LOAD_SECONDS = 0.2
"""How long one look at the files serves all the requests of a page."""

READ_SECONDS = 1.0
"""How long a request may wait while records are read. The rest is read while the page shows the first."""

_ROOM = 1 << 16  # bytes of records that are taken from one file before the next has its turn

log = logging.getLogger("nbdist.board")


def board_arguments(logdirs: list[str], public_path: str) -> Any:
    """What ``visualdl.server.app.create_app`` gets: no telemetry, hardly any cache."""
    return ParseArgs(
        logdir=logdirs,
        public_path=public_path,
        host="127.0.0.1",
        telemetry=False,
        cache_timeout=LOAD_SECONDS,
    )


# Reading records.


_init_log_reader = vdl_reader.LogReader.__init__


def init_log_reader(reader: Any, *args: Any, **kwargs: Any) -> None:
    """Stands for ``LogReader.__init__``, with points of its own. One thread at a time may call it."""
    vdl_reader.default_data_manager = data_manager.DataManager()
    reader.nbdist_added = {}
    _init_log_reader(reader, *args, **kwargs)
    if isinstance(reader.dir, Boards):
        reader.dir.reader = reader


def add_remain(reader: Any, seconds: float = READ_SECONDS) -> None:
    """Stands for ``LogReader.add_remain``: a record that cannot be shown is left out, and what is not read
    in so many ``seconds`` is left for the next time."""
    end = time.monotonic() + seconds
    sources = sorted(reader.readers.values(), key=lambda source: natural(source.dir))
    for source in sources:
        name = curve_name(source.dir, getattr(reader.dir, "named", reader.dir))
        reader.name2tags[name], reader.tags2name[source.dir] = source.dir, name
        _add(reader, source)
    # a piece of each in turn: all curves of a page grow together
    while (behind := [source for source in sources if source.behind]) and time.monotonic() < end:
        for source in behind:
            _add(reader, source)
    if isinstance(reader.dir, Boards):
        reader.dir.behind = bool(behind)


def _add(reader: Any, source: FrameReader) -> None:
    """Take the next records of a file."""
    reader.reader = source
    # by which the points of a tag are added, once it is known to be a scalar's
    added: dict[str, Callable[[Any, float], None]] = reader.nbdist_added.setdefault(source.dir, {})
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
    """Let VisualDL read what its files hold for about so long; whether it is at their ends."""
    boards.reader.register_readers(update=True)
    add_remain(boards.reader, seconds)
    return not boards.behind


def keep_name(_reader: object, _record: object) -> None:
    """Stands for ``LogReader.update_meta_data``; ``add_remain`` names the curves."""


_load_new_data = vdl_reader.LogReader.load_new_data


def load_new_data(reader: Any, update: bool = True) -> None:
    """Stands for ``LogReader.load_new_data``, which every request for every tag calls."""
    if getattr(reader.dir, "behind", False):
        return  # what a page asks for is answered with what there is: the view reads on
    now = time.monotonic()
    changed = getattr(reader.dir, "changed", False)
    if changed or now - getattr(reader, "nbdist_loaded", -LOAD_SECONDS) >= LOAD_SECONDS:
        _load_new_data(reader, update)
        reader.nbdist_loaded = now
        if changed:
            reader.dir.changed = False


def get_log_data(reader: Any, component: str, run: str, tag: str) -> list[Any]:
    """Stands for ``LogReader.get_log_data``: all points of a tag, for a download, as they are now."""
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
    """Stands for ``lib.get_hparam_list``: runs by the names of their curves, not by their directories."""
    items: list[dict[str, Any]] = _get_hparam_list(reader)
    return [item | {"name": reader.tags2name.get(item["name"], item["name"])} for item in items]


# Answering.

# A browser may deny storage to a frame of another site (JupyterLab is often at localhost, the board
# at 127.0.0.1), and the page stays blank when the mere name of it raises.
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
    # for a moment it takes all curves for chosen, and asks for each of them
    "_dist_/hooks/useTagFilter.js": (
        "M(e,s.globalRuns)",
        "M(e,s.globalRuns.length?s.globalRuns:"
        '(new URLSearchParams(location.search).get("runs")||"").split(","))',
    ),
    # it goes to where it is already, and on the way forgets which curves it was asked for
    "_dist_/components/Navbar.js": ("a.push(r)", "a.location.pathname===r||a.push(r)"),
}


def call_once(_times: int, function: Callable[..., Any], _pause: float, *args: Any, **kwargs: Any) -> Any:
    """Stands for ``lib.retry``: no pause, and an empty list where there is nothing."""
    try:
        return function(*args, **kwargs)
    except (KeyError, IndexError) as error:
        log.info("asked for what is not there: %s", error)
        return []


_create_profiler_api_call = vdl_app.create_profiler_api_call


def without_profiler(_logdir: list[str]) -> Any:
    """Stands for ``create_profiler_api_call``: the tab of paddle's profiler stays empty."""
    return _create_profiler_api_call(None)


def no_update(_updater: object) -> None:
    """Stands for ``PbUpdater.start``."""


PATCHES = (
    Patch(
        module="visualdl.utils.update_util",
        name="PbUpdater.start",
        replacement=no_update,
        reason="telemetry, whose reply can overwrite VisualDL's own code",
    ),
    Patch(
        module="visualdl.reader.reader",
        name="RecordReader",
        replacement=partial(FrameReader, room=_ROOM),
        reason="a torn last record shifts everything that comes after it, and a file is read to its end "
        "before a page is answered",
    ),
    Patch(
        module="visualdl.reader.reader",
        name="LogReader.add_remain",
        replacement=add_remain,
        reason="a record of another kind, or one that is none, keeps the server from starting",
    ),
    Patch(
        module="visualdl.reader.reader",
        name="LogReader.update_meta_data",
        replacement=keep_name,
        reason="two writers that call themselves the same become one curve",
    ),
    Patch(
        module="visualdl.reader.reader",
        name="LogReader.load_new_data",
        replacement=load_new_data,
        reason="each request for each tag walks all directories",
    ),
    Patch(
        module="visualdl.reader.reader",
        name="LogReader.get_log_data",
        replacement=get_log_data,
        reason="a download is the file as it was at the first download, and fails on a torn one",
    ),
    Patch(
        module="visualdl.reader.reader",
        name="LogReader.__init__",
        replacement=init_log_reader,
        reason="all readers of a process share their points, so one view shows another's runs",
    ),
    Patch(
        module="visualdl.server.data_manager",
        name="_ReservoirBucket",
        replacement=EvenBucket,
        reason="beyond 1,000 points of a tag, chance decides whether the last one is shown",
    ),
    Patch(
        module="visualdl.server.lib",
        name="retry",
        replacement=call_once,
        reason="a tag that is not there sleeps 4 s, for everyone",
    ),
    Patch(
        module="visualdl.server.lib",
        name="get_hparam_list",
        replacement=get_hparam_list,
        reason="runs are called by their absolute paths",
    ),
    Patch(
        module="visualdl.server.lib",
        name="get_embeddings_list",
        replacement=curves.get_embeddings_list,
        reason="one list for all readers of a process, in which paths are names; an absolute path is also "
        "the whole key of a cache, so that labels are answered for vectors",
    ),
    Patch(
        module="visualdl.server.lib",
        name="get_embedding_labels",
        replacement=curves.get_embedding_labels,
        reason="it looks names up in that list",
    ),
    Patch(
        module="visualdl.server.lib",
        name="get_embedding_tensors",
        replacement=curves.get_embedding_tensors,
        reason="it looks names up in that list",
    ),
    Patch(
        module="visualdl.server.app",
        name="Template",
        replacement=partial(PageFiles, _PAGE_EDITS),
        reason="the page polls each 15 s, and stays blank in a frame without storage; "
        "and all apps of a process share one address",
    ),
    Patch(
        module="visualdl.server.app",
        name="create_profiler_api_call",
        replacement=without_profiler,
        reason="it starts a thread that never ends, and forks a process that has threads",
    ),
    Patch(
        module="visualdl.server.app",
        name="signal",
        replacement=SimpleNamespace(signal=lambda *_: None, SIGINT=signal.SIGINT, SIG_DFL=None),
        reason="create_app sets a signal handler, which only the main thread may do",
    ),
)
