"""The rich output of a rank: ``display``, figures, the value of a cell's last expression.

A picture or HTML becomes a file in ``media/``, named by its content, a line in ``display.jsonl``, and a line
of the log, in order with the printed lines:

    ESC ]nbdist;<file>;<width>;<height> BEL <the text that stands for it>

Terminals skip such a sequence (an OSC), as do all readers of logs. This module calls IPython's methods of
objects (``_repr_png_``, …) without IPython, whose import takes a quarter of a second. It prints an object
that has neither picture nor HTML.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import time

from nbdist.worker import files
from nbdist.worker.files import say_once
from nbdist.worker.result_files import keep_last, printed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType
    from typing import Any

# bytes of one output; larger ones are printed. A page lays out HTML in one piece, and waits for it
_LARGEST = 8 << 20
_LARGEST_HTML = 1 << 20
_ROOM = 1 << 30  # bytes that a process of a rank writes at most
_ROW, _HIGHEST = 24, 10_000  # pixels of a table
_TEXT = 20_000  # characters
_LINE = 200

# pictures first: a page drops the scripts of HTML
_KINDS = {
    "image/png": ("png", "_repr_png_"),
    "image/jpeg": ("jpg", "_repr_jpeg_"),
    "image/svg+xml": ("svg", "_repr_svg_"),
    "text/html": ("html", "_repr_html_"),
}
# IPython.display.Markdown and Latex, whose repr does not show their text
_SOURCES = {"text/markdown": "_repr_markdown_", "text/latex": "_repr_latex_"}

_written = 0
_ids = itertools.count(1)


def display(
    *values: object,
    raw: bool = False,
    display_id: str | bool | None = None,
    metadata: object = None,
    **_: object,
) -> DisplayHandle | None:
    """Show values as a notebook does: pictures and HTML in the panel, the others as text in the log.

    The arguments are those of ``IPython.display.display``. ``raw``: the values are dicts from MIME types to
    data. With ``display_id`` (True makes one) it returns a handle, whose ``update`` replaces the value: the
    log has both, a saved notebook the last.
    """
    handle = DisplayHandle(None if display_id is True else str(display_id)) if display_id else None
    for value in values:
        data = value if raw and isinstance(value, dict) else _bundle(value)
        _show(data, value, "" if handle is None else handle.display_id)
    return handle


def update_display(value: object, *, display_id: str, **named: Any) -> None:
    """Replace the value that was shown with this id."""
    display(value, display_id=display_id, **named)


def publish_display_data(data: Mapping[str, object], metadata: object = None, **named: Any) -> None:
    """Show data by MIME type, as ``IPython.display.publish_display_data`` does."""
    transient = named.get("transient") or {}
    display(dict(data), raw=True, display_id=transient.get("display_id"))


def show_last(value: object) -> None:
    """Show the value of a cell's last expression, unless it is None; leave text to the notebook itself."""
    if value is None:
        return
    data = _bundle(value)
    if any(data.get(mime) for mime in _KINDS):
        _show(data, value, "")
    else:
        keep_last(value)


def show_picture(png: bytes, text: str) -> None:
    """Show a PNG, or ``text`` where it cannot be drawn."""
    _show({"image/png": png, "text/plain": text}, None, "")


def replace_in_ipython(module: ModuleType) -> None:
    """Let ``IPython.display`` export this module's functions; IPython's own print text without a shell."""
    for name in ("display", "update_display", "publish_display_data", "DisplayHandle"):
        if hasattr(module, name):
            setattr(module, name, globals()[name])


class DisplayHandle:
    """A shown value, which ``update`` replaces: the result of ``display(…, display_id=…)``."""

    def __init__(self, display_id: str | None = None) -> None:
        self.display_id = display_id or f"{os.getpid()}-{next(_ids)}"

    def __repr__(self) -> str:
        return f"<DisplayHandle display_id={self.display_id}>"

    def display(self, value: object, **named: Any) -> None:
        display(value, display_id=self.display_id, **named)

    update = display


def _bundle(value: object) -> dict[str, object]:
    """Return an object's forms by MIME type."""
    if isinstance(value, type):
        return {}
    data: dict[str, object] = {}
    bundle = _form_of(value, "_repr_mimebundle_", include=None, exclude=None)
    if isinstance(bundle, dict):
        data |= bundle
    if any(kind.__module__ == "matplotlib.figure" for kind in type(value).__mro__):
        data["image/png"] = _figure_png(value)
    for mime, (_, method) in _KINDS.items():
        # only the first is shown
        if not any(data.get(known) for known in _KINDS):
            data[mime] = _form_of(value, method)
    if type(value).__module__.startswith("IPython."):
        for mime, method in _SOURCES.items():
            data.setdefault(mime, _form_of(value, method))
    return data


def _form_of(value: object, method: str, **named: object) -> object:
    """Return the result of a method of the object's class, without metadata; None for none or an error."""
    if getattr(type(value), method, None) is None:
        return None
    try:
        shown = getattr(value, method)(**named)
    except NotImplementedError:
        return None
    except Exception as error:  # noqa: BLE001 - whatever a class of the program raises
        say_once(f"{type(value).__name__}.{method} failed: {type(error).__name__}: {error}")
        return None
    return shown[0] if isinstance(shown, tuple) and shown else shown


def _figure_png(figure: Any) -> bytes:
    import io

    buffer = io.BytesIO()
    try:
        figure.savefig(buffer, format="png", bbox_inches="tight", facecolor=figure.get_facecolor())
    except Exception as error:  # noqa: BLE001 - whatever the parts of a figure raise
        say_once(f"a figure cannot be drawn: {type(error).__name__}: {error}")
    return buffer.getvalue()


def _show(data: Mapping[str, object], value: object, display_id: str) -> None:
    directory = os.environ.get("NBDIST_RANK_DIR")
    text = _text(data, value)
    for mime in _KINDS if directory else ():
        if (content := _bytes(data.get(mime), mime)) and _fits(content, mime):
            try:
                _write(str(directory), content, mime, text, value, display_id)
            except OSError as error:
                say_once(f"an output is not written: {error.strerror or error}")
                break
            return
    print(text)


def _text(data: Mapping[str, object], value: object) -> str:
    for mime in (*_SOURCES, "text/plain"):
        if isinstance(text := data.get(mime), str):
            return text
    if type(value) in (dict, list, tuple, set, frozenset):
        from pprint import pformat

        return pformat(value, width=79, compact=True, sort_dicts=False)
    return printed(repr, value)


def _bytes(content: object, mime: str) -> bytes:
    """Return the content of a file, empty for none. Pictures may be base64, as in Jupyter's messages."""
    if isinstance(content, (bytes, bytearray)):
        return bytes(content)
    if not isinstance(content, str):
        return b""
    if mime not in ("image/png", "image/jpeg"):
        return content.encode("utf-8", "replace")
    import binascii

    try:
        return binascii.a2b_base64(content)
    except ValueError:
        return b""


def _fits(content: bytes, mime: str) -> bool:
    limit = _LARGEST_HTML if mime == "text/html" else _LARGEST
    if len(content) > limit:
        size = f"{len(content) / (1 << 20):.0f} MiB"
        say_once(f"{mime} of {size} is printed as text: at most {limit >> 20} MiB can be shown")
        return False
    if _written + len(content) > _ROOM:
        say_once("this rank has shown 1 GiB: from now on text alone")
        return False
    return True


def _write(directory: str, content: bytes, mime: str, text: str, value: object, display_id: str) -> None:
    """Write the file, its record, and last the line of the log, which readers see first. Raises OSError."""
    import hashlib

    global _written
    name = f"{hashlib.sha256(content).hexdigest()[:32]}.{_KINDS[mime][0]}"
    media = os.path.join(directory, "media")
    os.makedirs(media, mode=0o700, exist_ok=True)
    path = os.path.join(media, name)
    if not os.path.exists(path):
        _written += len(content)
        files.put(path, content)
    width, height = _size(content, mime)
    at, begun = _log_end(os.path.join(directory, "log"))
    record = {"t": round(time.time(), 4), "at": at + begun, "file": name, "mime": mime, "width": width}
    record |= {"height": height, "id": display_id, "text": text[:_TEXT]}
    files.append(os.path.join(directory, "display.jsonl"), f"{json.dumps(record)}\n".encode())
    line = f"\x1b]nbdist;{name};{width};{height}\x07{_short(text, value)}\n"
    out = sys.__stdout__
    if out is not None:
        # a progress bar must not share its line
        out.write("\n" + line if begun else line)
        out.flush()


def _log_end(path: str) -> tuple[int, bool]:
    """Return the size of the log in bytes, and whether its last line has no end yet."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return 0, False
    try:
        size = os.fstat(handle).st_size
        return size, size > 0 and os.pread(handle, 1, size - 1) != b"\n"
    finally:
        os.close(handle)


def _short(text: str, value: object) -> str:
    """Return one line that stands for the output."""
    line = text.strip()
    if "\n" in line:
        shape = getattr(value, "shape", None)
        size = f" {' × '.join(map(str, shape))}" if isinstance(shape, tuple) and shape else ""
        line = f"<{type(value).__name__}{size}>"
    return "".join(letter for letter in line if letter.isprintable())[:_LINE]


def _size(content: bytes, mime: str) -> tuple[int, int]:
    """Return width and height in pixels, 0 where unknown; for a table about its height on a page."""
    if mime == "image/png" and content.startswith(b"\x89PNG") and len(content) >= 24:
        return int.from_bytes(content[16:20], "big"), int.from_bytes(content[20:24], "big")
    if mime == "image/jpeg":
        return _jpeg_size(content)
    if mime == "text/html" and (rows := content.count(b"<tr")):
        return 0, min(_HIGHEST, rows * _ROW)
    return 0, 0


def _jpeg_size(content: bytes) -> tuple[int, int]:
    """Read the frame header (ISO 10918-1, B.2.2), after segments of any kind."""
    at = 2
    while at + 9 <= len(content) and content[at] == 0xFF:
        numbers = [int.from_bytes(content[at + n : at + n + 2], "big") for n in (2, 5, 7)]
        if 0xC0 <= content[at + 1] <= 0xCF and content[at + 1] not in (0xC4, 0xC8, 0xCC):
            return numbers[2], numbers[1]
        at += 2 + numbers[0]
    return 0, 0
