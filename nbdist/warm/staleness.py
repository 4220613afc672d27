"""Whether importing again would bring the same modules: what they came from, then and now."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence


class Staleness:
    """Looks once when it is made, and again when it is asked.

    ``files`` are those that modules were imported from, with time (ns) and size, ``path`` is the sys.path
    of the import, and ``cwd`` the directory that an empty entry of it stands for.
    """

    def __init__(self, files: Mapping[str, Sequence[int]], path: Sequence[str], cwd: str) -> None:
        self._files = {file: tuple(stamp) for file, stamp in files.items()}
        places = [entry or cwd for entry in path]
        self._names = {_top(file, places) for file in files}
        self._installed = [place for place in places if _installed(place)]
        self._others = [place for place in places if place not in self._installed]
        self._then = self._seen()

    def changed(self) -> str:
        """What has changed, in words; empty when nothing has."""
        for file, stamp in self._files.items():
            if _stamp(file) != stamp:
                return f"{file} has changed since it was imported"
        for place, then, now in zip((*self._installed, *self._others), self._then, self._seen(), strict=True):
            if then != now:
                what = "packages were installed or removed" if place in self._installed else "new modules"
                return f"{what} in {place}"
        return ""

    def changed_since(self, begun: int) -> str:
        """The same when this was made only after the imports, which began at ``begun`` (Unix time in ns)."""
        for place in self._installed:
            if _time(place) >= begun:
                return f"packages were installed or removed in {place}"
        for place in self._others:
            shadows = self._shadows(place)
            if isinstance(shadows, list) and any(_made(os.path.join(place, one)) >= begun for one in shadows):
                return f"new modules in {place}"
        return self.changed()

    def _seen(self) -> list[object]:
        return [*map(_content, self._installed), *(self._shadows(place) for place in self._others)]

    def _shadows(self, place: str) -> object:
        """What in a directory of the user's has the name of something that was imported."""
        try:
            names = os.listdir(place)
        except NotADirectoryError:
            return _stamp(place)
        except OSError:
            return None
        return sorted(name for name in names if _importable(name) and name.partition(".")[0] in self._names)


def _top(file: str, places: Sequence[str]) -> str:
    """The name by which what is in the file is imported, up to the first dot."""
    inside = [os.path.relpath(file, place) for place in places if file.startswith(os.path.join(place, ""))]
    below = min(inside, key=len, default=os.path.basename(file))
    return below.partition(os.sep)[0].partition(".")[0]


def _importable(name: str) -> bool:
    return name.endswith((".py", ".pyc", ".so")) or "." not in name


def _installed(place: str) -> bool:
    """Whether a directory belongs to the interpreter, and is written to by installers alone."""
    inside = any(
        os.path.abspath(place).startswith(os.path.join(prefix, ""))
        for prefix in (sys.prefix, sys.base_prefix)
    )
    return inside or os.path.basename(place) in ("site-packages", "dist-packages")


def _content(place: str) -> object:
    """When something came or went there, and the files that name further places."""
    try:
        files = sorted(name for name in os.listdir(place) if name.endswith(".pth"))
    except OSError:
        files = []
    return (_stamp(place), [(name, _stamp(os.path.join(place, name))) for name in files])


def _time(path: str) -> int:
    stamp = _stamp(path)
    return 0 if stamp is None else stamp[0]


def _made(module: str) -> int:
    """When a file came or changed at the latest, in ns; of a directory, the file that makes it a package:
    others come and go, and what has none gives way to any other module of its name."""
    try:
        status = os.stat(os.path.join(module, "__init__.py") if os.path.isdir(module) else module)
    except OSError:
        return 0
    # what is moved there keeps its time
    return max(status.st_mtime_ns, status.st_ctime_ns)


def _stamp(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return (status.st_mtime_ns, status.st_size)
