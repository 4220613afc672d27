"""Pictures, texts, distributions, curves and sounds of the ranks, as parts of a report."""

from __future__ import annotations

import base64
import html
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from nbdist.board.record_files import Shown, shown_values
from nbdist.feed.curves import picked
from nbdist.feed.view import number_text
from nbdist.model import Run
from nbdist.privacy import Privacy
from nbdist.store import RunDirectory
from nbdist.text import say

_FILE_ROOM = 256 << 20  # bytes of a record file
_EACH = 12  # of one tag: the first, the last, and some between
_ATTEMPT = re.compile(r"\.attempt-(\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Gallery:
    """Items of one kind, tag and writer in the order of their steps; ``count`` includes those left out."""

    kind: str
    tag: str
    writer: str
    items: tuple[Shown, ...]
    count: int


def read_galleries(run: Run, directory: RunDirectory) -> tuple[list[Gallery], int]:
    """Return the items of the last attempt, rank 0's first, and the number of files too large to read."""
    galleries: dict[tuple[str, str, str], Gallery] = {}
    files = sorted(filter(Path.is_file, directory.board.rglob("*vdlrecords*")), key=_numbers)
    sizes = {path: path.stat().st_size for path in files}
    for path in (path for path, size in sizes.items() if size <= _FILE_ROOM):
        writer = os.path.relpath(path.parent, directory.board)
        match = _ATTEMPT.search(writer)
        if (int(match[1]) if match else 1) == run.attempt:
            _take(galleries, path, writer.partition(".")[0])
    return list(galleries.values()), sum(size > _FILE_ROOM for size in sizes.values())


def _take(galleries: dict[tuple[str, str, str], Gallery], path: Path, writer: str) -> None:
    """Add the items of a file, and thin out each gallery."""
    try:
        content = path.read_bytes()
    except OSError:
        return
    new: dict[tuple[str, str], list[Shown]] = {}
    for shown in shown_values(content):
        new.setdefault((shown.kind, shown.tag), []).append(shown)
    for (kind, tag), items in new.items():
        before = galleries.get((kind, tag, writer))
        count = len(items)
        if before is not None:
            items, count = [*before.items, *items], before.count + count
        kept = tuple(items[place] for place in picked(len(items), _EACH))
        galleries[kind, tag, writer] = Gallery(kind=kind, tag=tag, writer=writer, items=kept, count=count)


def _numbers(path: Path) -> list[int]:
    """Return a key that sorts paths by the numbers in them."""
    return [int(part) if part.isdigit() else -1 for part in re.split(r"(\d+)", str(path))]


MEDIA_ROOM = 48 << 20  # bytes of pictures and sounds

_ITEM_ROOM = 8 << 20
_TEXT_ROOM = 20_000  # characters
_PICTURES = ((b"\x89PNG", "image/png"), (b"\xff\xd8", "image/jpeg"), (b"GIF8", "image/gif"))
_SMALL = 64  # pixels: drawn larger, one must see them
_KINDS = {
    "image": "images",
    "text": "texts",
    "histogram": "histograms",
    "pr_curve": "curves",
    "roc_curve": "curves",
    "audio": "audio",
}


class Room:
    """The bytes left for pictures and sounds."""

    def __init__(self, left: int) -> None:
        self._left = left

    def take(self, size: int) -> bool:
        """Reserve ``size`` bytes; return whether they fit."""
        if size > min(self._left, _ITEM_ROOM):
            return False
        self._left -= size
        return True


def media_html(galleries: Sequence[Gallery], language: str, privacy: Privacy, room: Room) -> Iterator[str]:
    """Yield the galleries by kind, under titles. ``privacy`` cleans texts, not pictures."""
    titled = ""
    for gallery in sorted(galleries, key=lambda gallery: list(_KINDS).index(gallery.kind)):
        if (title := _KINDS[gallery.kind]) != titled:
            yield f"<h2>{html.escape(say('report.' + title, language))}</h2>"
            titled = title
        about, count = gallery.writer, gallery.count - len(gallery.items)
        if count and gallery.kind != "histogram":
            about += f" · {say('report.left-out', language, count=count)}"
        name = html.escape(privacy.clean(gallery.tag))
        yield f'<h3>{name} <span class="n-muted">{html.escape(about)}</span></h3>'
        yield f'<div class="r-media">{"".join(_items(gallery, language, privacy, room))}</div>'


def _items(gallery: Gallery, language: str, privacy: Privacy, room: Room) -> Iterator[str]:
    # of distributions and curves the first and the last suffice
    most = _EACH if gallery.kind in ("image", "audio", "text") else 2
    for item in (gallery.items[place] for place in picked(len(gallery.items), most)):
        step = f"{say('report.step', language)} {item.step}"
        caption = f"<figcaption>{html.escape(step)}</figcaption>"
        match gallery.kind:
            case "text":
                text = privacy.clean(item.data.decode("utf-8", "replace")[:_TEXT_ROOM])
                yield f"<figure>{caption}<pre>{html.escape(text)}</pre></figure>"
            case "image" | "audio":
                yield f"<figure>{_blob(item, language, room)}{caption}</figure>"
            case "histogram" if len(item.rows[1]) > 1:
                yield _bars(step, *item.rows)
            case "pr_curve" | "roc_curve":
                up, across = item.rows
                points = " ".join(f"{x:.4f},{1 - y:.4f}" for x, y in sorted(zip(across, up, strict=False)))
                yield _drawing(step, f'<polyline points="{points}"/>', 0.0, 1.0, 1.0)


def _bars(title: str, counts: Sequence[float], edges: Sequence[float]) -> str:
    begin, width, most = edges[0], edges[-1] - edges[0] or 1.0, max(counts, default=0.0) or 1.0
    bars = "".join(
        f'<rect x="{(left - begin) / width:.4f}" y="{1 - count / most:.4f}" '
        f'width="{max(0.0, right - left) / width:.4f}" height="{count / most:.4f}"/>'
        for count, left, right in zip(counts, edges, edges[1:], strict=False)
    )
    return _drawing(title, bars, begin, edges[-1], most)


def _drawing(title: str, drawn: str, left: float, right: float, top: float) -> str:
    """Return ``drawn``, which fills a unit square, stretched, with the numbers at its corners."""
    return (
        f'<figure class="r-drawing"><figcaption>{html.escape(title)}</figcaption>'
        f"<small>{number_text(top)}</small>"
        f'<svg role="img" aria-label="{html.escape(title)}" viewBox="0 0 1 1" preserveAspectRatio="none">'
        f"{drawn}</svg><small>{number_text(left)}</small><small>{number_text(right)}</small></figure>"
    )


def _blob(item: Shown, language: str, room: Room) -> str:
    if not room.take(len(item.data)):
        too_large = say("report.too-large", language, size=f"{len(item.data) / 1e6:.1f}")
        return f'<p class="n-muted">{html.escape(too_large)}</p>'
    data = base64.b64encode(item.data).decode()
    if item.kind == "audio":
        return f'<audio controls preload="none" src="data:audio/wav;base64,{data}"></audio>'
    kind = next((kind for begin, kind in _PICTURES if item.data.startswith(begin)), "image/png")
    # a PNG says its width in the bytes 16 to 20
    width = int.from_bytes(item.data[16:20], "big") if kind == "image/png" else 0
    small = f' class="r-small" width="{max(_SMALL, width * 2)}"' if 0 < width < _SMALL else ""
    return f'<img{small} alt="{html.escape(item.tag)}, {item.step}" src="data:{kind};base64,{data}">'
