from __future__ import annotations

import pytest

from nbdist.server.log_handler import MOST, Unsatisfiable, read_ranges


@pytest.mark.parametrize(
    ("header", "found"),
    [
        (None, None),
        ("bytes=0-99", [(0, 100)]),
        ("bytes=500-", [(500, 1000)]),
        ("bytes=-200", [(800, 1000)]),
        ("bytes=-5000", [(0, 1000)]),
        ("bytes=990-5000", [(990, 1000)]),
        ("Bytes = 0-0 , 5-6", [(0, 1), (5, 7)]),
        ("bytes=0-1,2000-", [(0, 2)]),
        ("bytes=5-1", None),
        ("bytes=", None),
        ("bytes=-", None),
        ("bytes=a-b", None),
        ("lines=0-1", None),
        ("bytes=0-1;2-3", None),
        ("bytes=٣-٤", None),
    ],
)
def test_ranges_are_read_as_http_wants_it(header: str | None, found: object) -> None:
    assert read_ranges(header, 1000) == found


@pytest.mark.parametrize("header", ["bytes=1000-", "bytes=-0", "bytes=" + ",".join(["0-1"] * (MOST + 1))])
def test_what_is_not_there_cannot_be_had(header: str) -> None:
    with pytest.raises(Unsatisfiable):
        read_ranges(header, 1000)


def test_an_empty_log_has_no_ranges() -> None:
    with pytest.raises(Unsatisfiable):
        read_ranges("bytes=0-", 0)
