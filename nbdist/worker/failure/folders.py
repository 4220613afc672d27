"""What there is where a file is missing: the names in the last folder of its path that is there."""

from __future__ import annotations

import ast
import difflib
import errno
import os
import pathlib
import re

from nbdist.worker.failure.looks import is_a
from nbdist.worker.failure.operands import frames_of, is_library, statement_of, value_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType, TracebackType

    Folder = tuple[str, str, tuple[str, ...], int]
    """The path that is missing, the last folder of it that is there, names in it (the nearest first, folders
    with a slash at the end), and how many there are."""

_QUOTED = re.compile(r"[\"'`]([^\"'`\n]{2,500})[\"'`]")
_BARE = re.compile(r"(?<![\w/.\"'`])/(?:[\w.@=+~-]+/)+[\w.@=+~-]+")
_PATH = re.compile(r"^(?:[\w.~-]+)?(?:/[\w.@=+~ -]+)+/?$|^[\w.-]+\.(?:\w{2,12})$")
_OF_FILES = re.compile(
    r"no such file|not (?:be )?(?:found|exist)|does ?n.t exist|could not find|no file|missing|load",
    re.IGNORECASE,
)
_FILENAME = vars(OSError)["filename"]
_MISSES, _RUNS = (errno.ENOENT, errno.ENOTDIR), ("/subprocess.py", "/multiprocessing/util.py")
_MANY, _MOST_FOLDERS, _MOST_NAMES, _MOST_LISTED, _ALIKE, _MUCH_ALIKE = 30, 2, 6, 2_000, 0.5, 0.8


def folders(error: BaseException, trace: TracebackType | None) -> list[Folder]:
    """Of the paths that an error names, or that the program gave in the line that raised it."""
    found: dict[str, Folder] = {}
    for path in _paths(error, trace):
        if path and not os.path.exists(path) and (folder := _folder(path)) is not None:
            found.setdefault(folder[1], folder)
    return list(found.values())[:_MOST_FOLDERS]


def _paths(error: BaseException, trace: TracebackType | None) -> Iterator[str]:
    if isinstance(error, OSError):
        name = _FILENAME.__get__(error)
        if name is not None:
            if error.errno in _MISSES and not _is_command(trace):
                yield from (str(one) for one in [name] if type(one) is str or is_a(one, pathlib.PurePath))
            return
    said = str(error)[:2_000]
    if isinstance(error, (KeyError, NameError, AttributeError, ImportError)) or not _OF_FILES.search(said):
        return
    yield from (one for one in _QUOTED.findall(said) if _PATH.match(one))
    yield from (one.rstrip(".") for one in _BARE.findall(said))
    own = [(frame, line) for frame, line in frames_of(trace) if not is_library(frame.f_code.co_filename)]
    statement = statement_of(*own[-1]) if own else None
    if statement is not None:
        yield from _texts(statement, own[-1][0])


def _is_command(trace: TracebackType | None) -> bool:
    """Whether it is a program that was to run, which is looked for in other folders."""
    frames = frames_of(trace)
    return bool(frames) and frames[-1][0].f_code.co_filename.endswith(_RUNS)


def _texts(statement: ast.stmt, frame: FrameType) -> Iterator[str]:
    for node in ast.walk(statement):
        if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript, ast.Constant)):
            value = value_of(node, frame)
            if type(value) is str and len(value) < 500 and _PATH.match(value):
                yield value


def _folder(path: str) -> Folder | None:
    base = os.path.basename(path.rstrip("/"))
    try:
        folder = os.path.dirname(os.path.abspath(path.rstrip("/")))
    except OSError:  # this folder is gone itself
        return None
    while not os.path.isdir(folder):
        folder, base = os.path.dirname(folder), os.path.basename(folder)
        if folder == os.path.dirname(folder):
            return None
    try:
        with os.scandir(folder) as entries:
            names = [
                one.name + "/" * one.is_dir() for one, _ in zip(entries, range(_MOST_LISTED), strict=False)
            ]
    except OSError:
        return None
    # files of a run's own folder and what is hidden say nothing
    names = sorted(one for one in names if not one.startswith("."))
    stem = base.partition(".")[0]
    near = [one for one in names if stem and one.startswith(stem)]
    alike = _ALIKE if len(names) <= _MANY else _MUCH_ALIKE
    near += difflib.get_close_matches(base, names, n=_MOST_NAMES, cutoff=alike)
    # of a large folder, what is like it
    shown = tuple(dict.fromkeys([*near, *(names if len(names) <= _MANY else ())]))[:_MOST_NAMES]
    if names and not shown:
        return None
    return path, folder, shown, len(names)
