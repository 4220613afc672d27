"""Outputs of ranks in a notebook: pictures as they are, HTML that does nothing, not too much."""

from __future__ import annotations

import base64
import json
from html.parser import HTMLParser
from pathlib import Path

import pytest

from nbdist.model import Run
from nbdist.panel.outputs import ROOM, output_bundles, plain_html
from nbdist.store import RunDirectory
from nbdist.store.results import read_media, read_outputs
from tests.fakes.runs import CREATED, STARTED, a_spec

TABLE = '<div><style scoped>.dataframe th { top: 0 }</style><table border="1" class="dataframe">'
TABLE += '<tr style="text-align: right;"><th>a</th></tr></table></div>'
PLAIN = (
    '<div><table border="1" class="dataframe"><tr style="text-align: right;"><th>a</th></tr></table></div>'
)


LEAVING = (
    "mark</div></section></body></html>",
    "mark</textarea></title></p></td></table>",
    "<div><table><tr><td>mark",
    "<div><b><i><h1>mark",
    "<p>mark</div></div><p></b>",
    "<b><p>mark</b></p>",
    "<table><div>mark</table></div></div>",
    "<li>mark</ul></li><td></tr><dd>",
    "mark<!-- ",
    "mark<!-- --!><!--><div>",
    "mark<plaintext>",
    "mark<script><!--<script>",
    "mark<style>p {",
    "mark<style scoped>p {} </style></div>",
    "mark<template><div>",
    "mark<select><option>",
    "mark<textarea><title>",
    "mark<svg><foreignObject></svg></div>",
    "mark<![CDATA[ <div>",
    "mark<? <div>",
    "mark</ div></div",
    "mark<iframe><noscript><noembed>",
    "mark" + "<div>" * 600,
)
"""HTML that would leave its place in a page, or swallow what follows."""


class Shown:
    """A run of two ranks with the outputs of a test."""

    def __init__(self, path: Path) -> None:
        self.directory = RunDirectory(path)
        self.run = Run.of(a_spec(ranks=2), STARTED)

    def show(
        self, rank: int, content: bytes, *, at: float = 1.0, ending: str = "png", display_id: str = ""
    ) -> str:
        files = self.directory.rank(rank)
        files.media.mkdir(parents=True, exist_ok=True)
        name = f"{abs(hash(content)):032x}.{ending}"
        (files.media / name).write_bytes(content)
        mime = {"png": "image/png", "html": "text/html", "svg": "image/svg+xml"}[ending]
        record = {"t": CREATED + at, "at": 0, "file": name, "mime": mime, "id": display_id, "text": "<it>"}
        with files.display.open("a") as file:
            file.write(json.dumps(record) + "\n")
        return name

    def bundles(self, language: str = "en") -> list[dict[str, str]]:
        return output_bundles(self.run, self.directory, language)


@pytest.fixture
def shown(tmp_path: Path) -> Shown:
    return Shown(tmp_path / "r1")


def test_what_all_ranks_show_is_one_output(shown: Shown) -> None:
    shown.show(0, b"same")
    shown.show(1, b"same", at=1.2)

    assert shown.bundles() == [{"text/plain": "<it>", "image/png": base64.b64encode(b"same").decode()}]


def test_what_one_rank_shows_is_named_after_it_in_the_order_of_ranks(shown: Shown) -> None:
    shown.show(1, b"first", at=1.0)
    shown.show(0, b"second", at=2.0)
    for rank in (0, 1):
        shown.show(rank, b"of both", at=3.0)

    texts = [bundle["text/plain"] for bundle in shown.bundles("zh")]

    assert [text.partition(" · ")[0] for text in texts] == ["<it>", "进程 0", "<it>", "进程 1", "<it>"]


def test_of_what_was_shown_anew_the_last_is_kept(shown: Shown) -> None:
    for content in (b"one", b"two", b"three"):
        shown.show(0, content, display_id="curve")
    shown.show(1, b"three")

    (bundle,) = shown.bundles()

    assert bundle["image/png"] == base64.b64encode(b"three").decode()


def test_a_notebook_stays_small_and_the_latest_of_rank_0_come_first(shown: Shown) -> None:
    for number in range(40):
        shown.show(1, bytes([1, number]) * 30_000, at=100.0 + number)
        shown.show(0, bytes([0, number]) * 30_000, at=float(number))

    *bundles, last = shown.bundles()

    pictures = [bundle["image/png"] for bundle in bundles if "image/png" in bundle]
    assert sum(map(len, pictures)) < ROOM
    assert base64.b64decode(pictures[-1])[:2] == bytes([0, 39])
    assert all(base64.b64decode(picture)[0] == 0 for picture in pictures)
    assert last["text/plain"].startswith(f"{80 - len(pictures)} more in the run: %dist_attach ")


def test_a_notebook_keeps_no_more_outputs_than_a_reader_takes_in(shown: Shown) -> None:
    for number in range(100):
        shown.show(0, bytes([number]), at=float(number))
        shown.show(1, bytes([number]), at=float(number))

    *bundles, last = shown.bundles("zh")

    assert [base64.b64decode(bundle["image/png"])[0] for bundle in bundles] == list(range(76, 100))
    assert last["text/plain"].startswith("运行中还有 76 个输出")


def test_a_plain_table_is_a_table_everywhere(shown: Shown) -> None:
    shown.show(0, TABLE.encode(), ending="html")
    shown.show(1, TABLE.encode(), ending="html")

    assert [bundle["text/html"] for bundle in shown.bundles()] == [PLAIN]


@pytest.mark.parametrize(
    "page",
    [
        pytest.param("<script>alert(1)</script>", id="script"),
        pytest.param('<p onclick="alert(1)">a</p>', id="attribute that is a script"),
        pytest.param('<form action="https://example.org"><input></form>', id="form"),
        pytest.param('<a href="https://example.org" target="_top">a</a>', id="link"),
        pytest.param("<style>@import url(https://example.org)</style>", id="import of a style"),
        pytest.param("<style>body { display: none }</style>", id="style of the page"),
        pytest.param('<p style="position: fixed">a</p>', id="style of an element"),
        pytest.param('<meta http-equiv="refresh" content="0;url=https://example.org">', id="refresh"),
        pytest.param('<img src="https://example.org/i.png">', id="picture from elsewhere"),
        pytest.param("<svg><script>alert(1)</script></svg>", id="script in a drawing"),
        pytest.param("<!doctype html><p>a", id="a whole page"),
        pytest.param("<style scoped>p {", id="style without end"),
        pytest.param("<math><mtext></table><mglyph><style><img src=x onerror=alert(1)>", id="nested"),
    ],
)
def test_html_that_could_do_anything_is_in_a_sandbox(shown: Shown, page: str) -> None:
    shown.show(0, page.encode(), ending="html")
    shown.show(1, page.encode(), ending="html")

    (bundle,) = shown.bundles()

    assert plain_html(page) == ""
    assert bundle["text/html"].startswith('<iframe sandbox="" ')
    assert page not in bundle["text/html"].partition("srcdoc=")[2].partition('"')[0]
    assert "default-src" in bundle["text/html"]
    assert bundle["text/html"].endswith("&lt;it&gt;</iframe>")


class _Tags(HTMLParser):
    """Tags of HTML without a partner."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.alone: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.open += [tag] if tag not in ("br", "hr", "col") else []

    def handle_endtag(self, tag: str) -> None:
        if self.open and self.open[-1] == tag:
            self.open.pop()
        else:
            self.alone.append(tag)


@pytest.mark.parametrize("page", LEAVING)
def test_html_begins_and_ends_in_its_place(shown: Shown, page: str) -> None:
    shown.show(0, page.encode(), ending="html")
    shown.show(1, page.encode(), ending="html")

    (bundle,) = shown.bundles()

    tags = _Tags(bundle["text/html"])
    assert (tags.open, tags.alone) == ([], [])
    assert "mark" in bundle["text/html"]


def test_a_drawing_is_a_picture(shown: Shown) -> None:
    shown.show(0, b"<svg><script>alert(1)</script></svg>", ending="svg")

    drawn = next(bundle["text/html"] for bundle in shown.bundles() if "<img" in bundle.get("text/html", ""))

    assert "<script" not in drawn


def test_records_that_are_none_are_passed_over(shown: Shown) -> None:
    name = shown.show(0, b"one")
    with shown.directory.rank(0).display.open("a") as file:
        file.write('{"t": 1}\n[]\n{"t": 1, "at": 0, "file": "../../spec.json", "mime": "image/png"}\nhalf')

    assert [output.file for output in read_outputs(shown.directory, shown.run)] == [name]


@pytest.mark.parametrize("name", ["../display.jsonl", "..", "", f"{'0' * 32}.exe", f"{'0' * 32}.png/.."])
def test_nothing_else_is_read_than_what_was_shown(shown: Shown, name: str) -> None:
    shown.show(0, b"one")

    assert read_media(shown.directory, 0, name, 1) == b""


def test_a_link_is_not_followed(shown: Shown, tmp_path: Path) -> None:
    name = shown.show(0, b"one")
    path = shown.directory.rank(0).media / name
    path.unlink()
    (tmp_path / "other").write_bytes(b"other")
    path.symlink_to(tmp_path / "other")

    assert read_media(shown.directory, 0, name, 1) == b""


def test_an_output_of_an_earlier_attempt_is_found(shown: Shown) -> None:
    name = shown.show(0, b"one")

    assert read_media(shown.directory, 0, name, 3) == b"one"
