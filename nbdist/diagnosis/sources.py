"""The files that stacks and tracebacks go through: the program of a run, the user's own modules, libraries.

What is the user's is decided here alone. It is every file that no installer has put where it lies: modules
beside the program, on PYTHONPATH, and editable installs, but not what is below ``site-packages``, Python's
own modules, nbdist, or a folder that ``pip install --target`` has filled.
"""

from __future__ import annotations

import os
import re
from functools import lru_cache
from pathlib import Path

from nbdist.model import Run
from nbdist.store import RunDirectory

_SEP = os.sep
# installed, Python's own, or written by torch.compile, triton and the caches of hubs
_INSTALLED = re.compile(
    r"/(?:site|dist)-packages/|/lib(?:64)?/python3(?:\.\d+t?)?/|/torchinductor_[^/]+/|/\.(?:cache|triton)/"
)
_OURS = str(Path(__file__).parent.parent) + _SEP
_LIMIT = 1 << 21


class Sources:
    """``program`` is the path that every rank runs, as its frames name it; ``cwd`` the ranks' folder."""

    def __init__(self, program: str, directory: RunDirectory, cwd: str = "") -> None:
        self._program = program
        self._path = directory.program(program)
        self._cwd = cwd
        self.script = "" if directory.is_cell(program) else os.path.basename(program)
        """The program's name where it is a file and no cell."""

    @classmethod
    def of(cls, run: Run, directory: RunDirectory) -> Sources:
        return cls(run.spec.program, directory, run.spec.cwd)

    def is_program(self, file: str) -> bool:
        return file == self._program

    def is_own(self, file: str) -> bool:
        """Whether a file is the program or one of the user's modules."""
        return file == self._program or _is_users(file, self._cwd)

    def name(self, file: str) -> str:
        """What to call a file: empty for a cell, else its path from the ranks' folder, or the end of it."""
        if file == self._program:
            return self.script
        inside = os.path.relpath(file, self._cwd) if self._cwd else file
        return _SEP.join(file.split(_SEP)[-2:]) if inside.startswith((_SEP, "..")) else inside

    def line(self, file: str, number: int) -> str:
        """The source of a line without its indent; empty where it cannot be read."""
        lines = self.lines(file)
        return lines[number - 1].strip() if 0 < number <= len(lines) else ""

    def lines(self, file: str) -> tuple[str, ...]:
        """The lines of a file as it is now; none where it cannot be read."""
        path = str(self._path) if file == self._program else file
        try:
            return _read(path, os.stat(path).st_mtime_ns)
        except OSError:
            return ()

    def text(self, file: str) -> str:
        return "\n".join(self.lines(file))


@lru_cache(maxsize=64)
def _read(path: str, _written: int) -> tuple[str, ...]:
    """The lines of a file as it was when it was written last. Raises OSError."""
    with open(path, encoding="utf-8", errors="replace") as file:
        return tuple(file.read(_LIMIT).split("\n"))


@lru_cache(maxsize=1024)
def _is_users(file: str, cwd: str) -> bool:
    if not file.startswith(_SEP) or file.startswith(_OURS) or _INSTALLED.search(file):
        return False
    # what pip has installed with --target lies beside its records
    around = {cwd, *map(str, Path(cwd).parents)}
    return not any(str(f) not in around and _has_records(str(f)) for f in Path(file).parents)


@lru_cache(maxsize=256)
def _has_records(folder: str) -> bool:
    try:
        return any(name.endswith(".dist-info") for name in os.listdir(folder))
    except OSError:
        return False
