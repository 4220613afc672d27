"""The files in stacks and tracebacks: the run's program, the user's modules, libraries; and a rank's place: a
line of the user's code and the call there.

This module alone decides which files are the user's: every file that no installer put there. These are
modules beside the program, on PYTHONPATH, and editable installs; not files below ``site-packages``, Python's
own modules, nbdist, or a folder that ``pip install --target`` filled.

Stacks hold only Python's frames. For a call into native code (``time.sleep``, ``lock.acquire``) the program's
line names it.
"""

from __future__ import annotations

import ast
import builtins
import os
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from nbdist.model import Run
from nbdist.store import RunDirectory
from nbdist.store.reports import Call

_SEP = os.sep
# installed, Python's own, or written by torch.compile, triton and the caches of hubs
_INSTALLED = re.compile(
    r"/(?:site|dist)-packages/|/lib(?:64)?/python3(?:\.\d+t?)?/|/torchinductor_[^/]+/|/\.(?:cache|triton)/"
)
_OURS = str(Path(__file__).parent.parent) + _SEP
_LIMIT = 1 << 21
_CELL = re.compile(r"In \[\d+\]")  # the name of code that another cell gave to the ranks (``--push``)


class Sources:
    """The files of a run. ``program`` is the path that every rank runs, as in its frames; ``cwd`` the ranks'
    folder; ``begun`` the start, if known."""

    def __init__(
        self, program: str, directory: RunDirectory, cwd: str = "", begun: float | None = None
    ) -> None:
        self._program = program
        self._path = directory.program(program)
        self._cwd = cwd
        self.begun = begun
        self.script = "" if directory.is_cell(program) else os.path.basename(program)
        """The program's name where it is a file and no cell."""

    @classmethod
    def of(cls, run: Run, directory: RunDirectory) -> Sources:
        return cls(run.spec.program, directory, run.spec.cwd, run.started)

    def is_program(self, file: str) -> bool:
        return file == self._program

    def is_own(self, file: str) -> bool:
        """Return whether a file is the program or one of the user's modules."""
        return file == self._program or bool(_CELL.fullmatch(file)) or _is_users(file, self._cwd)

    def name(self, file: str) -> str:
        """Return a file's name for people: "" for a cell, else its path from the ranks' folder."""
        if file == self._program:
            return self.script
        if _CELL.fullmatch(file):
            return file
        inside = os.path.relpath(file, self._cwd) if self._cwd else file
        return _SEP.join(file.split(_SEP)[-2:]) if inside.startswith((_SEP, "..")) else inside

    def at(self, file: str, line: int) -> str:
        """Return a line as a text names it: ``12``, ``12 of model.py``."""
        return str(line) if self.is_program(file) else f"{line} of {self.name(file)}"

    def short(self, file: str, line: int) -> str:
        """Return a line as a hint names it: ``12``, ``model.py:12``."""
        return str(line) if self.is_program(file) else f"{self.name(file)}:{line}"

    def line(self, file: str, number: int) -> str:
        """Return the source of a line without its indent; empty if unreadable."""
        lines = self.lines(file)
        return lines[number - 1].strip() if 0 < number <= len(lines) else ""

    def lines(self, file: str) -> tuple[str, ...]:
        """Return the present lines of a file; none if unreadable."""
        path = str(self._path) if file == self._program else file
        try:
            return _read(path, os.stat(path).st_mtime_ns)
        except OSError:
            return ()

    def text(self, file: str) -> str:
        return "\n".join(self.lines(file))

    def tree(self, file: str) -> ast.Module:
        """Return the tree of a file, an empty one if unreadable."""
        return parsed(self.text(file))


@lru_cache(maxsize=64)
def _read(path: str, _written: int) -> tuple[str, ...]:
    """Return the lines of a file as last written. Raises OSError."""
    with open(path, encoding="utf-8", errors="replace") as file:
        return tuple(file.read(_LIMIT).split("\n"))


@lru_cache(maxsize=1024)
def _is_users(file: str, cwd: str) -> bool:
    if not file.startswith(_SEP) or file.startswith(_OURS) or _INSTALLED.search(file):
        return False
    # pip install --target puts records beside the files
    around = {cwd, *map(str, Path(cwd).parents)}
    return not any(str(f) not in around and _has_records(str(f)) for f in Path(file).parents)


@lru_cache(maxsize=256)
def _has_records(folder: str) -> bool:
    try:
        return any(name.endswith(".dist-info") for name in os.listdir(folder))
    except OSError:
        return False


# a rank whose innermost call is in one of these waits for other ranks
_COLLECTIVES = (
    f"{_SEP}torch{_SEP}distributed{_SEP}",
    f"{_SEP}paddle{_SEP}distributed{_SEP}",
    f"{_SEP}torch{_SEP}nn{_SEP}parallel{_SEP}distributed.py",
)
# SyncBatchNorm's exchange between ranks
_BATCH_NORM = f"{_SEP}torch{_SEP}nn{_SEP}modules{_SEP}_functions.py"
_LOADERS = (f"{_SEP}torch{_SEP}utils{_SEP}data{_SEP}", f"{_SEP}paddle{_SEP}io{_SEP}dataloader{_SEP}")
# files in which Python waits for the other side of a connection
_NETWORK = (f"{_SEP}socket.py", f"{_SEP}ssl.py", f"{_SEP}http{_SEP}client.py")
# files that pass calls on to native code
_DISPATCHERS = (f"{_SEP}torch{_SEP}_ops.py", f"{_SEP}torch{_SEP}_library{_SEP}")
# native code exchanges gradients there while it computes them
_BACKWARD = frozenset({"_engine_run_backward"})
_PADDLE_BACKWARD = (f"{_SEP}paddle{_SEP}base{_SEP}dygraph{_SEP}", f"{_SEP}paddle{_SEP}autograd{_SEP}")
# decorators and dispatchers, which no program calls by name
WRAPPERS = frozenset({"wrapper", "_wrapper", "inner", "__impl__", "_fn", "decorate_context", "__call__"}) | {
    "_wrapped_call_impl",
    "_call_impl",
    "inner_func",
}
_BUILT_IN = frozenset(vars(builtins))
_WAITS = frozenset({"wait", "barrier", "all_reduce", "allreduce", "all_gather", "broadcast", "reduce"})
_PENDING = frozenset({"dist", "distributed", "pg", "work", "works", "task", "handle", "req", "request"})
# of several calls on one line, those most likely to block
_BLOCKING = frozenset(
    {"sleep", "acquire", "wait", "join", "get", "put", "recv", "accept", "select", "poll", "read", "readline"}
) | {"readlines", "result", "communicate", "pause", "item", "synchronize"}


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeLocation:
    """A rank's position: ``line`` of the user's ``file`` ("": the program) that it left last, and the call
    ``what`` there ("": unknown). ``waits``: for other ranks; ``loads``: for its own DataLoader; ``built_in``:
    in native code, without a frame; ``on_device``: for its device, which waits for the others';
    ``on_network``: for a connection. ``within`` is the library's file: ``queue.py``; ``through`` the call by
    which a library on top of a framework reached a collective: ``metrics.compute``."""

    line: int | None = None
    file: str = ""
    what: str = ""
    waits: bool = False
    loads: bool = False
    built_in: bool = False
    on_device: bool = False
    on_network: bool = False
    within: str = ""
    through: str = ""


def place_of(calls: Sequence[Call], sources: Sources) -> CodeLocation:
    """Return a thread's place, from its calls, innermost first."""
    if not calls:
        return CodeLocation()
    at = next((number for number, call in enumerate(calls) if sources.is_own(call.file)), None)
    inside = calls[:at]
    if at is None:
        return _within(inside, "", None)
    own = calls[at]
    file = "" if sources.is_program(own.file) else sources.name(own.file)
    if inside:
        return replace(_within(inside, sources.text(own.file), own.line), file=file)
    text = sources.text(own.file)
    what = call_on_line(text, own.line) or _with_on_line(text, own.line)
    return CodeLocation(line=own.line, file=file, what=what, waits=_is_wait(what), built_in=bool(what))


def _within(inside: Sequence[Call], text: str, line: int | None) -> CodeLocation:
    """Return the place of a thread inside libraries, from this line of a file with this ``text``."""
    entry = entry_of(inside)
    while len(inside) > 1 and any(part in inside[0].file for part in _DISPATCHERS):
        inside = inside[1:]
    if any(loader in call.file for loader in _LOADERS for call in inside):
        return CodeLocation(line=line, what="DataLoader", loads=True)
    if inside[0].file.endswith(_BATCH_NORM):
        return CodeLocation(line=line, what="SyncBatchNorm", waits=True)
    if _in_package(inside[0]):
        named = (call for call in reversed(inside) if _in_package(call) and call.function not in WRAPPERS)
        function = next(named, entry).function
        if function == "__init__" and line is not None:
            function = next(iter(_calls_on(text, line)), function)  # the outermost: the class
        elif function.startswith("_") and line is not None:
            # a wrapper's own function, called after the wrapped one raised
            function = call_on_line(text, line).rpartition(".")[2] or _public(inside, line, text) or function
        through = _entered(entry.function, line, text) if _is_built_on(entry) else ""
        return CodeLocation(line=line, what=function, waits=True, through=through)
    in_paddle = any(part in inside[0].file for part in _PADDLE_BACKWARD)
    if inside[0].function in _BACKWARD or (in_paddle and "backward" in inside[0].function):
        return CodeLocation(line=line, what="backward", waits=True)
    what, network = as_written(entry.function, line, text), inside[0].file.endswith(_NETWORK)
    if what == "__del__" and line is not None:
        # the line frees its former value
        what = call_on_line(text, line) or what
    return CodeLocation(line=line, what=what, on_network=network, within=os.path.basename(entry.file))


def entry_of(calls: Sequence[Call]) -> Call:
    """Return the user's call into these library calls, innermost first."""
    named = (call for call in reversed(calls) if call.function not in WRAPPERS)
    return next(named, calls[-1])


def _public(calls: Sequence[Call], line: int, text: str) -> str:
    """Return the outermost of these calls that the line names, or that is public; empty for none."""
    written = {name.rpartition(".")[2] for name in _calls_on(text, line)}
    names = [call.function for call in reversed(calls) if call.function not in WRAPPERS]
    own = (name.strip("_") for name in names if name.strip("_") in written)
    return next(own, "") or next((name for name in names if not name.startswith(("_", "<"))), "")


def package_of(file: str) -> str:
    """Return ``torch/distributed`` of a file in site-packages, else its name."""
    _, installed, inside = file.rpartition(f"{_SEP}site-packages{_SEP}")
    if not installed:
        return os.path.basename(file)
    folders = inside.split(_SEP)[:-1]
    return "/".join(folders[:2]) or inside


def short_path(path: str) -> str:
    """Return the end of a path that shows the package: torch/nn/functional.py."""
    _, installed, inside = path.rpartition(f"{_SEP}site-packages{_SEP}")
    if installed:
        return inside
    return _SEP.join(path.split(_SEP)[-2:])


def _is_wait(what: str) -> bool:
    """Return whether a call without a frame waits for a collective, by the usual names: ``work.wait``."""
    owner, _, function = what.rpartition(".")
    return function in _WAITS and owner.rpartition(".")[2].lower() in _PENDING


def _in_package(call: Call) -> bool:
    return any(package in call.file for package in _COLLECTIVES)


def _is_built_on(call: Call) -> bool:
    """Return whether a call is in a library that is no framework itself."""
    return package_of(call.file).partition("/")[0] not in ("torch", "paddle") and "site-packages" in call.file


def as_written(function: str, line: int | None, text: str) -> str:
    """Return a library function's name as the user writes it: ``thread.join`` for ``join``."""
    if line is None:
        return function
    written = [name for name in _calls_on(text, line) if name.rpartition(".")[2] == function]
    return written[0] if len(set(written)) == 1 else function


def _entered(function: str, line: int | None, text: str) -> str:
    """Return the same, or the line's one call where a decorator renamed it: ``metric.compute``."""
    here = text.split("\n")[line - 1 : line] if line else []
    calls = {
        name
        for name in _calls_on(text, line or 0)
        if name not in _BUILT_IN and name.rpartition(".")[2] not in _WAITS
    }
    # the name may also be a property's
    is_renamed = not any(re.search(rf"\b{function}\b", source) for source in here)
    return calls.pop() if is_renamed and len(calls) == 1 else as_written(function, line, text)


@lru_cache(maxsize=256)
def call_on_line(source: str, line: int) -> str:
    """Return the call that a line is in, as written; empty if ambiguous."""
    names = _calls_on(source, line)
    if len(set(names)) == 1:
        return names[0]
    blocking = [name for name in names if name.rpartition(".")[2] in _BLOCKING]
    return blocking[0] if len(set(blocking)) == 1 else ""


def _with_on_line(source: str, line: int) -> str:
    """Return ``with lock``, for a line that enters or leaves it."""
    for node in ast.walk(parsed(source)):
        if isinstance(node, ast.With) and node.lineno == line:
            return f"with {ast.unparse(node.items[0].context_expr)}"
    return ""


def _calls_on(source: str, line: int) -> tuple[str, ...]:
    names = []
    for node in ast.walk(parsed(source)):
        if isinstance(node, ast.Call) and node.lineno <= line <= (node.end_lineno or node.lineno):
            if node.lineno != line and node.func.lineno != line and not _spans(node, line):
                continue
            if name := _dotted(node.func):
                names.append(name)
    return tuple(names)


def _spans(node: ast.Call, line: int) -> bool:
    """Return whether the call itself, and nothing within it, is on the line."""
    return not any(
        child.lineno <= line <= (child.end_lineno or child.lineno)
        for child in ast.walk(node)
        if isinstance(child, ast.Call) and child is not node
    )


@lru_cache(maxsize=4)
def parsed(source: str) -> ast.Module:
    """Return the tree of a text, an empty one for invalid Python."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return ast.Module([], [])


def _dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        owner = _dotted(node.value)
        return f"{owner}.{node.attr}" if owner else node.attr
    return ""
