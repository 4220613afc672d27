"""The user's own modules that a program imports: those beside it, not what is installed."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence

from nbdist.preflight.program import Program

_BIG = 100_000
_MOST = 60
"""Files that are read of what the modules import themselves."""

_IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+(?P<module>[\w.]+)[ \t]+import[ \t]*(?:\((?P<several>[^)]*)\)|(?P<names>[^\n#]*))"
    r"|import[ \t]+(?P<modules>[^\n#]*))",
    re.MULTILINE,
)


def own_modules(program: Program, path: Sequence[str]) -> Iterator[str]:
    """The texts of the modules that the program imports."""
    for file in _imported(program, _places(path)):
        yield from _text_of(file)


def modules_of_own_modules(program: Program, path: Sequence[str]) -> Iterator[str]:
    """The texts of what those import in turn, as far as it is the user's, too."""
    places = _places(path)
    queue = list(_imported(program, places))
    seen = set(queue)
    direct = len(queue)
    for number, file in enumerate(queue):
        for text in _text_of(file):
            if number >= direct:
                yield text
            for found in _imported_by(text, file, places):
                if found not in seen and len(queue) < direct + _MOST and os.path.isfile(found):
                    seen.add(found)
                    queue.append(found)


def _places(path: Sequence[str]) -> list[str]:
    return [place for place in path if "site-packages" not in place and not place.startswith(sys.base_prefix)]


def _imported(program: Program, places: Sequence[str]) -> Iterator[str]:
    for name in sorted({name for name, _ in program.imports()}):
        for place in places:
            yield from _files(place, name)


def _imported_by(text: str, file: str, places: Sequence[str]) -> Iterator[str]:
    for match in _IMPORT.finditer(text):
        if match["modules"]:
            named = [part.split()[0] for part in match["modules"].split(",") if part.split()]
        else:
            given = re.findall(r"(\w+)(?:[ \t]+as[ \t]+\w+)?", match["several"] or match["names"] or "")
            dot = "" if match["module"].endswith(".") else "."
            named = [match["module"], *(f"{match['module']}{dot}{name}" for name in given)]
        for name in named:
            inside = name.lstrip(".")
            folder = os.path.dirname(file)
            for _ in range(len(name) - len(inside) - 1):
                folder = os.path.dirname(folder)
            for place in [folder] if name.startswith(".") else places:
                yield from _files(place, inside)


def _files(place: str, name: str) -> Iterator[str]:
    """Where the files of a dotted name and of the packages around it would be."""
    parts = [part for part in name.split(".") if part]
    for end in range(1, len(parts) + 1):
        base = os.path.join(place, *parts[:end])
        yield f"{base}.py"
        yield os.path.join(base, "__init__.py")


def _text_of(file: str) -> Iterator[str]:
    try:
        if os.path.getsize(file) <= _BIG:
            with open(file, encoding="utf-8", errors="replace") as handle:
                yield handle.read()
    except OSError:
        return
