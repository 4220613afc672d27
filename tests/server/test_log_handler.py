"""A rank's log by byte ranges."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nbdist.server.log_handler import read_range
from tests.fakes.directories import WrittenRun
from tests.fakes.runs import RUN_ID, STARTED, attempt_started, exited

Ask = Callable[..., Any]
LOG = f"api/runs/{RUN_ID}/ranks/0/log"
TEXT = b"".join(b"line %d \xe4\xb8\xad\r\xff\n" % number for number in range(1000))


@pytest.fixture
def run(home: Path) -> WrittenRun:
    return WrittenRun(home).happened(*STARTED).printed(0, TEXT)


@pytest.mark.parametrize(
    ("wanted", "low", "high"),
    [
        ("bytes=0-9", 0, 10),
        ("bytes=-50", len(TEXT) - 50, len(TEXT)),
        (f"bytes={len(TEXT) - 5}-{len(TEXT) + 5000}", len(TEXT) - 5, len(TEXT)),
        ("bytes=100-", 100, len(TEXT)),
    ],
    ids=["the begin", "the end", "beyond the end", "from somewhere on"],
)
async def test_a_part_is_its_bytes(ask: Ask, run: WrittenRun, wanted: str, low: int, high: int) -> None:
    answer = await ask(LOG, headers={"Range": wanted, "Accept-Encoding": "gzip"})

    assert answer.code == 206
    assert answer.headers["Content-Range"] == f"bytes {low}-{high - 1}/{len(TEXT)}"
    assert answer.body == TEXT[low:high]


async def test_of_a_log_that_was_too_long_what_is_kept_comes_and_nothing_else(ask: Ask, home: Path) -> None:
    lines = b"".join(b"line %06d\n" % number for number in range(500_000))
    run = WrittenRun(home).happened(*STARTED).printed(0, lines).shortened(0, 1_000_000)

    answer = await ask(LOG)
    end = await ask(LOG, headers={"Range": "bytes=-12"})

    assert len(answer.body) == int(answer.headers["Content-Length"]) < 1_100_000
    assert b"\0" not in answer.body
    assert answer.body.startswith(b"line 000000\n")
    assert answer.body.endswith(end.body)
    assert end.body == b"line 499999\n"
    assert answer.body.count(b"[nbdist: 5.2 MB of output left out here: NBDIST_LOG_GB=0.001]") == 1
    # as more is left out it becomes another text
    run.printed(0, lines).shortened(0, 1_000_000)
    assert (await ask(LOG)).headers["Etag"] != answer.headers["Etag"]


async def test_what_is_not_there_is_said_with_the_length(ask: Ask, run: WrittenRun) -> None:
    answer = await ask(LOG, headers={"Range": f"bytes={len(TEXT)}-"})

    assert answer.code == 416
    assert answer.headers["Content-Range"] == f"bytes */{len(TEXT)}"


async def test_a_log_that_grows_is_read_on(ask: Ask, run: WrittenRun) -> None:
    whole = await ask(LOG)
    run.printed(0, b"and more\n")

    rest = await ask(LOG, headers={"Range": f"bytes={len(whole.body)}-", "If-Range": whole.headers["ETag"]})
    again = await ask(LOG, headers={"If-None-Match": whole.headers["ETag"]})
    other = await ask(LOG, headers={"Range": "bytes=5-", "If-Range": '"of another file"'})

    assert whole.body == TEXT
    assert (rest.code, rest.body) == (206, b"and more\n")
    assert (again.code, again.body) == (other.code, other.body) == (200, TEXT + b"and more\n")


async def test_head_tells_the_length(ask: Ask, run: WrittenRun) -> None:
    answer = await ask(LOG, "HEAD")

    assert (answer.code, answer.body) == (200, b"")
    assert answer.headers["Content-Length"] == str(len(TEXT))


async def test_it_is_text_that_a_browser_does_not_run(ask: Ask, run: WrittenRun) -> None:
    run.printed(1, b"<script>alert(1)</script>")

    shown = await ask(f"api/runs/{RUN_ID}/ranks/1/log")
    saved = await ask(LOG, params={"download": "1"})

    assert shown.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert shown.headers["X-Content-Type-Options"] == "nosniff"
    assert "default-src 'none'" in shown.headers["Content-Security-Policy"]
    assert saved.headers["Content-Disposition"] == 'attachment; filename="lenet-k3f9-rank0.log"'


async def test_each_attempt_has_its_log(ask: Ask, run: WrittenRun) -> None:
    run.happened(exited(0, 1), exited(1, 1, ended=True), attempt_started(2))
    second = run.directory.rank(0, 2)
    second.path.mkdir(parents=True)
    second.log.write_text("second\n")

    answers = [await ask(LOG, params=params) for params in ({}, {"attempt": "1"}, {"attempt": "3"})]

    assert [answer.code for answer in answers] == [200, 200, 404]
    assert answers[0].body == b"second\n"
    assert answers[1].body == TEXT


async def test_a_rank_that_has_not_written_yet_has_an_empty_log(ask: Ask, run: WrittenRun) -> None:
    answer = await ask(f"api/runs/{RUN_ID}/ranks/1/log")

    assert (answer.code, answer.body) == (200, b"")


@pytest.mark.parametrize("rank", ["2", "-1", "x", "1e3", "99999999999", "٠"])
async def test_there_is_no_other_rank(ask: Ask, run: WrittenRun, rank: str) -> None:
    assert (await ask(f"api/runs/{RUN_ID}/ranks/{rank}/log")).code == 404


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (None, None),
        ("bytes=0-99", (0, 100)),
        ("bytes=500-", (500, 1000)),
        ("bytes=-200", (800, 1000)),
        ("bytes=-5000", (0, 1000)),
        ("bytes=990-5000", (990, 1000)),
        ("Bytes = 0-0 ", (0, 1)),
        ("bytes=0-1,5-6", None),
        ("bytes=5-1", None),
        ("bytes=", None),
        ("bytes=-", None),
        ("bytes=a-b", None),
        ("lines=0-1", None),
        ("bytes=0-1;2-3", None),
        ("bytes=٣-٤", None),
    ],
)
def test_a_range_is_read_as_http_wants_it(header: str | None, expected: object) -> None:
    assert read_range(header, 1000) == expected


@pytest.mark.parametrize(("header", "size"), [("bytes=1000-", 1000), ("bytes=-0", 1000), ("bytes=0-", 0)])
def test_what_is_not_there_is_an_empty_range(header: str, size: int) -> None:
    part = read_range(header, size)

    assert part[0] >= part[1]
