from __future__ import annotations

import pytest

from nbdist.server.log_handler import read_range


@pytest.mark.parametrize(
    ("header", "found"),
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
def test_a_range_is_read_as_http_wants_it(header: str | None, found: object) -> None:
    assert read_range(header, 1000) == found


@pytest.mark.parametrize(("header", "size"), [("bytes=1000-", 1000), ("bytes=-0", 1000), ("bytes=0-", 0)])
def test_what_is_not_there_is_an_empty_range(header: str, size: int) -> None:
    found = read_range(header, size)

    assert found is not None
    assert found[0] >= found[1]
