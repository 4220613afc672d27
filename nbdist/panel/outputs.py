"""What ranks showed, as outputs of the notebook: what is left in it when the run has ended.

A picture is a picture. HTML of a rank runs no script in any front end: a table of plain elements becomes just
that, all else a frame in a sandbox.
"""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html.parser import HTMLParser

from nbdist.diagnosis.exits import rank_ranges
from nbdist.feed.view import duration
from nbdist.model import Run
from nbdist.store import RunDirectory
from nbdist.store.results import MIMES, Output, named_in, read_media, read_outputs
from nbdist.text import say

ROOM = 1_000_000
"""Characters of all of them together in the notebook."""
_MOST = 24

Bundle = dict[str, str]
Clean = Callable[[str], str]


def _as_it_is(text: str) -> str:
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shown:
    """An output, and all the ranks that showed the same."""

    output: Output
    ranks: tuple[int, ...]


def output_bundles(
    run: Run, directory: RunDirectory, language: str, clean: Clean = _as_it_is
) -> list[Bundle]:
    """The outputs of the run by MIME type, in the order in which they were shown; those for which there is no
    room are counted in the last. Rank 0's go before the others', and of each the latest. ``clean`` takes what
    is private out of texts."""
    shown = _alike(read_outputs(directory, run))
    wanted = sorted(shown, key=lambda one: (one.ranks[0] != 0, -one.output.time))
    room = ROOM
    kept: dict[int, Bundle] = {}
    for one in wanted:
        if len(kept) == _MOST:
            break  # a longer notebook is not easier to read
        content = read_clean(run, directory, one.output.rank, one.output.file, clean)
        bundle = _bundle(one.output, content, clean(one.output.text)) if content else None
        if bundle is not None and (size := sum(map(len, bundle.values()))) <= room:
            room -= size
            kept[id(one)] = bundle
    bundles: list[Bundle] = []
    said = ""
    for one in shown:
        if id(one) in kept:
            about = _caption(one, run, language)
            if about != said:
                bundles.append(_line(about))
            said = about
            bundles.append(kept[id(one)])
    if left := len(shown) - len(kept):
        bundles.append(_line(say("panel.more-outputs", language, count=left, label=run.label)))
    return bundles


def bundles_in(line: str, directory: RunDirectory, rank: int) -> list[Bundle]:
    """The outputs by MIME type that a line of a rank's log names, in a run of one attempt."""
    bundles = []
    for file in named_in(line.encode("utf-8", "replace")):
        content = read_media(directory, rank, file, 1)
        mime = MIMES[file.rpartition(".")[2]]
        output = Output(rank=rank, time=0.0, at=0, file=file, mime=mime, id="", text="")
        # what stands behind the name
        said = line.rpartition("\x07")[2].strip()
        if content and (bundle := _bundle(output, content, said)) is not None:
            bundles.append(bundle)
    return bundles


def read_clean(run: Run, directory: RunDirectory, rank: int, file: str, clean: Clean) -> bytes:
    """A file that a rank showed, its text cleaned; empty where it is gone."""
    content = read_media(directory, rank, file, run.attempt)
    if file.endswith((".html", ".svg")):
        return clean(content.decode("utf-8", "replace")).encode("utf-8", "replace")
    return content


def bundle_html(bundle: Bundle) -> str:
    """An output as a part of a page."""
    said = html.escape(bundle["text/plain"])
    for mime in _PICTURES:
        if mime in bundle:
            return f'<img alt="{said}" src="data:{mime};base64,{bundle[mime]}">'
    return bundle.get("text/html", said)


def _alike(outputs: Sequence[Output]) -> list[_Shown]:
    """Outputs that several ranks showed as one: the n-th of a file in each rank."""
    groups: dict[tuple[str, int], list[Output]] = {}
    counts: dict[tuple[int, str], int] = {}
    for output in outputs:
        key = output.rank, output.file
        counts[key] = counts.get(key, 0) + 1
        groups.setdefault((output.file, counts[key]), []).append(output)
    return [
        _Shown(output=group[0], ranks=tuple(sorted(one.rank for one in group))) for group in groups.values()
    ]


def _caption(one: _Shown, run: Run, language: str) -> str:
    """``rank 1 · 0:12``; nothing of what all ranks showed."""
    if len(one.ranks) == len(run.ranks):
        return ""
    ranks = say("panel.of-ranks", language, ranks=rank_ranges(one.ranks))
    return f"{ranks} · {duration(max(0.0, one.output.time - (run.started or one.output.time)))}"


def _line(text: str) -> Bundle:
    return (
        {"text/plain": text, "text/html": f"<div>{html.escape(text)}</div>"} if text else {"text/plain": ""}
    )


_PICTURES = ("image/png", "image/jpeg")


def _bundle(output: Output, content: bytes, said: str) -> Bundle | None:
    """None for what is not as its name says."""
    text = {"text/plain": said}
    if output.mime in _PICTURES:
        return {**text, output.mime: base64.b64encode(content).decode()}
    if output.mime == "image/svg+xml":
        # as it is, a page would run its scripts
        data = base64.b64encode(content).decode()
        return {**text, "text/html": f'<img alt="" src="data:image/svg+xml;base64,{data}">'}
    if output.mime == "text/html":
        page = content.decode("utf-8", "replace")
        return {**text, "text/html": plain_html(page) or framed(page, said)}
    return None


_POLICY = (
    '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; img-src data:; '
    'font-src data:; style-src \'unsafe-inline\'"><meta name="color-scheme" content="light">'
)


def framed(page: str, text: str) -> str:
    """A page in a frame that runs no script, sends no form, goes nowhere and loads nothing from elsewhere.
    ``text`` is for readers of HTML that leave frames out."""
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
_DEEPEST = 64  # elements within each other; a browser draws no more than some hundred
_KEPT = {"colspan", "rowspan", "scope", "border"}
_DROPPED = re.compile(r"id|class|title|halign|valign|data-[\w-]+")
_ALIGNED = re.compile(r"\s*text-align:\s*(?:left|right|center);?\s*")


class _PlainHtml(HTMLParser):
    """Writes HTML again, of what is known to be harmless. Each of its end tags ends an element that it has
    begun, and each element is ended: nothing leaves its place in a page, or takes in what stands behind."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self.plain = True
        self.in_style = False
        self._begun: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        # pandas styles its tables so, and they can be read without
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
            self._end(tag)

    def close(self) -> None:
        super().close()
        self.parts += [f"</{tag}>" for tag in reversed(self._begun)]

    def _end(self, tag: str) -> None:
        """End the elements that were begun last, up to the last ``tag``."""
        ended = ""
        while ended != tag:
            ended = self._begun.pop()
            self.parts.append(f"</{ended}>")

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
    """The page where it holds plain text, lists and tables alone; empty for any other."""
    parser = _PlainHtml()
    parser.feed(page)
    parser.close()
    return "".join(parser.parts) if parser.plain and not parser.in_style else ""
