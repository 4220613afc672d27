"""A user's marks of a run: a pin, tags and a note, which no other part of nbdist writes."""

from __future__ import annotations

import contextlib
import json
from dataclasses import asdict, dataclass

from nbdist.errors import NotPrivate
from nbdist.model.decoding import MALFORMED, build
from nbdist.store.journal import read_object
from nbdist.store.paths import RunDirectory, check_private, write_private


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """The marks of a run. One that is ``pinned`` comes first in lists, and is not removed by itself."""

    pinned: bool = False
    tags: tuple[str, ...] = ()
    note: str = ""


def read_marks(directory: RunDirectory) -> Marks:
    """Return the marks of a run; none where there is no file, a damaged one, or one of another user."""
    with contextlib.suppress(OSError, NotPrivate, *MALFORMED):
        check_private(directory.path)
        return build(Marks, read_object(directory.marks))
    return Marks()


def write_marks(directory: RunDirectory, marks: Marks) -> None:
    """Replace the marks of a run. Raises OSError."""
    write_private(directory.marks, json.dumps(asdict(marks)))
