"""What ranks showed besides numbers: settings, pictures, texts, distributions, sounds."""

from __future__ import annotations

import base64
import html
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nbdist.board.records import Shown, shown_values
from nbdist.feed.curves import picked
from nbdist.feed.view import number_text
from nbdist.model import Run
from nbdist.privacy import Privacy
from nbdist.store import RunDirectory
from nbdist.text import say

_FILE_ROOM = 256 << 20  # bytes of a record file
_EACH = 12  # of one tag: some from all along, the first and the last among them
_ATTEMPT = re.compile(r"\.attempt-(\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Gallery:
    """Everything of one kind under one tag of one writer, in the order of its steps; ``count`` is how many
    there were."""

    kind: str
    tag: str
    writer: str
    items: tuple[Shown, ...]
    count: int


@dataclass(slots=True)
class _Found:
    """Every n-th item and the last."""

    items: list[tuple[int, Shown]] = field(default_factory=list)
    count: int = 0
    stride: int = 1

    def add(self, item: Shown) -> None:
        if self.items and self.items[-1][0] % self.stride:
            self.items.pop()
        self.items.append((self.count, item))
        self.count += 1
        if len(self.items) > 2 * _EACH:
            self.stride *= 2
            last = self.items[-1]
            self.items = [one for one in self.items if one is last or one[0] % self.stride == 0]

    def thinned(self) -> tuple[Shown, ...]:
        return tuple(self.items[place][1] for place in picked(len(self.items), _EACH))


def galleries(run: Run, directory: RunDirectory) -> list[Gallery]:
    """What the ranks showed in the last attempt, rank 0 first."""
    found: dict[tuple[str, str, str], _Found] = {}
    for path in _record_files(directory.board):
        writer = os.path.relpath(path.parent, directory.board)
        match = _ATTEMPT.search(writer)
        if (int(match[1]) if match else 1) != run.attempt:
            continue
        for shown in _values(path):
            key = shown.kind, shown.tag, writer.partition(".")[0]
            found.setdefault(key, _Found()).add(shown)
    return [
        Gallery(kind=kind, tag=tag, writer=writer, items=one.thinned(), count=one.count)
        for (kind, tag, writer), one in found.items()
    ]


def too_large(directory: RunDirectory) -> int:
    """How many files of records are too large to be read for a report."""
    return sum(_size(path) > _FILE_ROOM for path in _record_files(directory.board))


def _record_files(board: Path) -> list[Path]:
    files = [path for path in board.rglob("*vdlrecords*") if path.is_file()]
    return sorted(
        files, key=lambda path: [int(p) if p.isdigit() else -1 for p in re.split(r"(\d+)", str(path))]
    )


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _values(path: Path) -> Iterator[Shown]:
    if _size(path) > _FILE_ROOM:
        return
    try:
        content = path.read_bytes()
    except OSError:
        return
    yield from shown_values(content)


MEDIA_ROOM = 48 << 20  # bytes of pictures and sounds

_ITEM_ROOM = 8 << 20
_TEXT_ROOM = 20_000  # characters
_PICTURES = ((b"\x89PNG", "image/png"), (b"\xff\xd8", "image/jpeg"), (b"GIF8", "image/gif"))
_SMALL = 64  # pixels: drawn larger, one must see them
_KINDS = (
    ("image", "images"),
    ("text", "texts"),
    ("histogram", "histograms"),
    ("pr_curve", "curves"),
    ("roc_curve", "curves"),
    ("audio", "audio"),
)


class Room:
    """How many bytes of pictures and sounds there is room for."""

    def __init__(self, left: int) -> None:
        self._left = left

    def take(self, size: int) -> bool:
        if size > min(self._left, _ITEM_ROOM):
            return False
        self._left -= size
        return True


def media_html(galleries: Sequence[Gallery], language: str, privacy: Privacy, room: Room) -> Iterable[str]:
    titled = ""
    for kind, title in _KINDS:
        for gallery in (one for one in galleries if one.kind == kind):
            if title != titled:
                yield f"<h2>{html.escape(say('report.' + title, language))}</h2>"
                titled = title
            count = gallery.count - len(gallery.items)
            more = (
                f" · {say('report.left-out', language, count=count)}" if count and kind != "histogram" else ""
            )
            name = html.escape(privacy.clean(gallery.tag))
            yield f'<h3>{name} <span class="n-muted">{html.escape(gallery.writer + more)}</span></h3>'
            yield f'<div class="r-media">{"".join(_items(gallery, language, privacy, room))}</div>'


def _items(gallery: Gallery, language: str, privacy: Privacy, room: Room) -> Iterable[str]:
    # of distributions and curves, what came last says how things stand; the first how they were
    few = gallery.items if gallery.kind in ("image", "audio", "text") else _ends(gallery.items)
    for item in few:
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
    """A histogram."""
    begin, width, most = edges[0], edges[-1] - edges[0] or 1.0, max(counts, default=0.0) or 1.0
    bars = "".join(
        f'<rect x="{(left - begin) / width:.4f}" y="{1 - count / most:.4f}" '
        f'width="{max(0.0, right - left) / width:.4f}" height="{count / most:.4f}"/>'
        for count, left, right in zip(counts, edges, edges[1:], strict=False)
    )
    return _drawing(title, bars, begin, edges[-1], most)


def _drawing(title: str, drawn: str, left: float, right: float, top: float) -> str:
    """What is drawn in a square of 1, stretched, with the numbers at its corners; its lower edge is 0."""
    return (
        f'<figure class="r-drawing"><figcaption>{html.escape(title)}</figcaption>'
        f"<small>{number_text(top)}</small>"
        f'<svg role="img" aria-label="{html.escape(title)}" viewBox="0 0 1 1" preserveAspectRatio="none">'
        f"{drawn}</svg><small>{number_text(left)}</small><small>{number_text(right)}</small></figure>"
    )


def _ends(items: Sequence[Shown]) -> Sequence[Shown]:
    return items if len(items) < 2 else (items[0], items[-1])


def _blob(item: Shown, language: str, room: Room) -> str:
    if not room.take(len(item.data)):
        said = say("report.too-large", language, size=f"{len(item.data) / 1e6:.1f}")
        return f'<p class="n-muted">{html.escape(said)}</p>'
    data = base64.b64encode(item.data).decode()
    if item.kind == "audio":
        return f'<audio controls preload="none" src="data:audio/wav;base64,{data}"></audio>'
    kind = next((kind for begin, kind in _PICTURES if item.data.startswith(begin)), "image/png")
    # a PNG says its width in the bytes 16 to 20
    width = int.from_bytes(item.data[16:20], "big") if kind == "image/png" else 0
    small = f' class="r-small" width="{max(_SMALL, width * 2)}"' if 0 < width < _SMALL else ""
    return f'<img{small} alt="{html.escape(item.tag)}, {item.step}" src="data:{kind};base64,{data}">'
