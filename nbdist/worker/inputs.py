"""The names that the notebook gives a program (``--push``), before its first line and in the children that it
spawns."""

from __future__ import annotations

from nbdist.values import box

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def load(path: str, namespace: dict[str, Any]) -> None:
    """Put the values of the names in the box into ``namespace``, the program's.

    The functions among them see it as their globals. Raises what ``box.read`` raises.
    """
    if sources := box.contents(path).sources:
        import linecache

        for title, text in sources.items():
            # without a time: linecache does not look for a file of this name
            linecache.cache[title] = (len(text), None, text.splitlines(keepends=True), title)
    namespace.update(box.read(path, namespace))
