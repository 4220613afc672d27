"""The outputs of ranks that stay in the notebook when the run has ended.

HTML of a rank runs no script in any front end: plain elements stay, all else becomes a frame in a sandbox.
"""

from __future__ import annotations

import base64
import html
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from html.parser import HTMLParser

from nbdist.diagnosis.exits import rank_ranges
from nbdist.feed.view import duration
from nbdist.model import Run
from nbdist.store import RunDirectory
from nbdist.store.results import MIMES, Output, named_in, read_media, read_outputs
from nbdist.text import say

ROOM = 1_000_000
"""Characters of all outputs of a run in the notebook."""
_MOST = 24
_PICTURES = ("image/png", "image/jpeg")

Bundle = dict[str, str]
Clean = Callable[[str], str]


def output_bundles(run: Run, directory: RunDirectory, language: str, clean: Clean = str) -> list[Bundle]:
    """Return the outputs of the run by MIME type: those of all ranks, then by rank, each by time; the last
    counts those without room. Rank 0's outputs, then the latest, have precedence. ``clean`` masks texts."""
    shown = _alike(read_outputs(directory, run))
    room = ROOM
    kept: dict[int, Bundle] = {}
    for number in sorted(range(len(shown)), key=lambda number: _weight(shown[number])):
        if len(kept) == _MOST:
            break  # a longer notebook is not easier to read
        output = shown[number][0]
        content = read_clean(run, directory, output.rank, output.file, clean)
        bundle = _bundle(output.mime, content, clean(output.text)) if content else None
        if bundle is not None and (size := sum(map(len, bundle.values()))) <= room:
            room -= size
            kept[number] = bundle
    bundles: list[Bundle] = []
    above = ""
    for number in sorted(kept, key=lambda number: _place(shown[number], run)):
        if (caption := _caption(shown[number], run, language)) != above:
            bundles.append(_line(caption))
        above = caption
        bundles.append(kept[number])
    if left := len(shown) - len(kept):
        bundles.append(_line(say("panel.more-outputs", language, count=left, label=run.label)))
    return bundles


def bundles_in(line: str, directory: RunDirectory, rank: int) -> list[Bundle]:
    """Return the outputs by MIME type that a line of a rank's log names; the run has one attempt."""
    bundles = []
    for file in named_in(line.encode("utf-8", "replace")):
        content = read_media(directory, rank, file, 1)
        text = line.rpartition("\x07")[2].strip()
        if content and (bundle := _bundle(MIMES[file.rpartition(".")[2]], content, text)) is not None:
            bundles.append(bundle)
    return bundles


def read_clean(run: Run, directory: RunDirectory, rank: int, file: str, clean: Clean) -> bytes:
    """Return a rank's output file, its text cleaned; empty where it is gone."""
    content = read_media(directory, rank, file, run.attempt)
    if file.endswith((".html", ".svg")):
        return clean(content.decode("utf-8", "replace")).encode("utf-8", "replace")
    return content


def bundle_html(bundle: Bundle) -> str:
    text = html.escape(bundle["text/plain"])
    for mime in _PICTURES:
        if mime in bundle:
            return f'<img alt="{text}" src="data:{mime};base64,{bundle[mime]}">'
    return bundle.get("text/html", text)


def _alike(outputs: Sequence[Output]) -> list[list[Output]]:
    """Group the outputs that several ranks showed alike: the n-th of a file in each rank."""
    groups: dict[tuple[str, int], list[Output]] = {}
    counts: Counter[tuple[int, str]] = Counter()
    for output in outputs:
        counts[output.rank, output.file] += 1
        groups.setdefault((output.file, counts[output.rank, output.file]), []).append(output)
    return list(groups.values())


def _weight(group: Sequence[Output]) -> tuple[bool, float]:
    return all(output.rank for output in group), -group[0].time


def _place(group: Sequence[Output], run: Run) -> tuple[int, float]:
    alone = len(group) < len(run.ranks)
    return min(output.rank for output in group) if alone else -1, group[0].time


def _caption(group: Sequence[Output], run: Run, language: str) -> str:
    """Return ``rank 1 · 0:12``; empty for an output of all ranks."""
    if len(group) == len(run.ranks):
        return ""
    ranks = say("panel.of-ranks", language, ranks=rank_ranges(sorted(output.rank for output in group)))
    time = group[0].time
    return f"{ranks} · {duration(max(0.0, time - (run.started or time)))}"


def _line(text: str) -> Bundle:
    return {"text/plain": text} | ({"text/html": f"<div>{html.escape(text)}</div>"} if text else {})


def _bundle(mime: str, content: bytes, text: str) -> Bundle | None:
    """Return the output; None for an unknown type."""
    plain, data = {"text/plain": text}, base64.b64encode(content).decode()
    if mime in _PICTURES:
        return plain | {mime: data}
    if mime == "image/svg+xml":
        # inline, a page would run its scripts
        return plain | {"text/html": f'<img alt="" src="data:image/svg+xml;base64,{data}">'}
    if mime == "text/html":
        page = content.decode("utf-8", "replace")
        return plain | {"text/html": plain_html(page) or _framed(page, text)}
    return None


_POLICY = (
    '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; img-src data:; '
    'font-src data:; style-src \'unsafe-inline\'"><meta name="color-scheme" content="light">'
    # a link is to a new tab, which the sandbox forbids, and does not open in the frame
    '<base target="_blank">'
)


def _framed(page: str, text: str) -> str:
    """Return a page in a frame that runs no script, sends no form, and loads nothing from elsewhere. ``text``
    is for readers without frames."""
    return (
        '<iframe sandbox="" referrerpolicy="no-referrer" '
        'style="width:100%;height:240px;border:0;background:#fff" '
        f'srcdoc="{html.escape(_POLICY + page)}">{html.escape(text)}</iframe>'
    )


_PLAIN = frozenset(
    {"table", "thead", "tbody", "tfoot", "tr", "th", "td", "caption", "colgroup", "col", "div", "span", "p"}
    | {"br", "hr", "b", "i", "em", "strong", "u", "s", "sub", "sup", "small", "code", "pre", "ul", "ol", "li"}
    | {"dl", "dt", "dd", "h1", "h2", "h3", "h4", "h5", "h6", "blockquote"}
)
_EMPTY = frozenset({"br", "hr", "col"})
_DEEPEST = 64  # nested elements; a browser draws no more than some hundred
_KEPT = {"colspan", "rowspan", "scope", "border"}
_DROPPED = re.compile(r"id|class|title|halign|valign|data-[\w-]+")
_ALIGNED = re.compile(r"\s*text-align:\s*(?:left|right|center);?\s*")


class _PlainHtml(HTMLParser):
    """A copy of the harmless parts of HTML, with balanced tags: nothing in it affects the rest of a page."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self.plain = True
        self.in_style = False
        self._begun: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        # of pandas' tables, which are readable without
        if tag == "style" and [name for name, _ in attrs] == ["scoped"]:
            self.in_style = True
            return
        self.plain &= tag in _PLAIN and len(self._begun) < _DEEPEST
        if tag not in _EMPTY:
            self._begun.append(tag)
        self.parts.append(f"<{tag}{''.join(self._attributes(attrs))}>")

    def _attributes(self, attrs: Sequence[tuple[str, str | None]]) -> Iterator[str]:
        for name, value in attrs:
            aligned = name == "style" and _ALIGNED.fullmatch(value or "")
            if name in _KEPT or aligned or (name, value) == ("class", "dataframe"):
                yield f' {name}="{html.escape(value or "")}"'
            else:
                self.plain &= _DROPPED.fullmatch(name) is not None

    def handle_endtag(self, tag: str) -> None:
        if tag == "style":
            self.in_style = False
        elif tag in self._begun:
            ended = ""
            while ended != tag:
                ended = self._begun.pop()
                self.parts.append(f"</{ended}>")

    def close(self) -> None:
        super().close()
        self.parts += [f"</{tag}>" for tag in reversed(self._begun)]

    def handle_data(self, data: str) -> None:
        if not self.in_style:
            self.parts.append(html.escape(data, quote=False))

    def handle_decl(self, decl: str) -> None:
        self.plain = False

    def handle_pi(self, data: str) -> None:
        self.plain = False

    def unknown_decl(self, data: str) -> None:
        self.plain = False


def plain_html(page: str) -> str:
    """Return a page of only text, lists and tables; empty for any other."""
    parser = _PlainHtml()
    parser.feed(page)
    parser.close()
    return "".join(parser.parts) if parser.plain and not parser.in_style else ""
