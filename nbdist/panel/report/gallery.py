"""The part of a report with what ranks showed besides numbers: pictures, texts, distributions, sounds."""

from __future__ import annotations

import base64
import html
from collections.abc import Iterable, Sequence

from nbdist.board.decoding import Shown
from nbdist.panel.report.media import Gallery
from nbdist.panel.report.plot import bars_html, curve_html
from nbdist.panel.report.privacy import Privacy
from nbdist.text import say

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
                yield bars_html(step, *item.rows)
            case "pr_curve":
                precision, recall = item.rows
                yield curve_html(step, sorted(zip(recall, precision, strict=False)))
            case "roc_curve":
                hits, alarms = item.rows
                yield curve_html(step, sorted(zip(alarms, hits, strict=False)))


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
