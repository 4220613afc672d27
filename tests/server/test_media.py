"""Media of ranks, sent to a page as bytes that are no page of this server."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.directories import WrittenRun
from tests.fakes.runs import RUN_ID, STARTED

NAME = f"{'0a' * 16}.html"
Ask = Callable[..., Any]


@pytest.fixture
def run(home: Path) -> WrittenRun:
    run = WrittenRun(home).happened(*STARTED)
    media = run.directory.rank(0).media
    media.mkdir(parents=True)
    (media / NAME).write_bytes(b"<script>alert(1)</script>")
    return run


async def test_a_file_comes_without_a_type_that_could_be_opened(ask: Ask, run: WrittenRun) -> None:
    answer = await ask(f"api/runs/{RUN_ID}/ranks/0/media/{NAME}")

    assert (answer.code, answer.body) == (200, b"<script>alert(1)</script>")
    assert answer.headers["Content-Type"] == "application/octet-stream"
    assert answer.headers["Content-Disposition"] == "attachment"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(f"ranks/7/media/{NAME}", id="another rank"),
        pytest.param(f"ranks/0/media/{'0b' * 16}.html", id="another file"),
        pytest.param("ranks/0/media/..%2F..%2F..%2Fspec.json", id="a path"),
        pytest.param("ranks/x/media/a.png", id="no rank"),
    ],
)
async def test_there_is_nothing_else(ask: Ask, run: WrittenRun, path: str) -> None:
    assert (await ask(f"api/runs/{RUN_ID}/{path}")).code == 404
