"""The collectives that a rank has called."""

from __future__ import annotations

from typing import Any

import pytest

from nbdist.worker import history


def entry(number: int, name: str = "all_reduce", line: int = 3, **other: Any) -> dict[str, Any]:
    """Return an entry of torch's Flight Recorder, with the innermost frame first."""
    frames = [
        {"filename": "/site-packages/torch/distributed/distributed_c10d.py", "line": 99, "name": name},
        {"filename": "/home/ada/train.py", "line": line, "name": "average"},
        {"filename": f"{history._WORKER}/bootstrap.py", "line": 1, "name": "run"},
    ]
    return {
        "process_group": ("0", "default_pg"),
        "is_p2p": False,
        "collective_seq_id": number,
        "profiling_name": f"gloo:{name}",
        "input_sizes": [[4, 2]],
        "input_dtypes": ["Float"],
        "frames": frames,
    } | other


def test_a_call_has_its_number_its_sizes_and_the_lines_that_led_to_it() -> None:
    written = history._by_group(
        [entry(1), entry(2, line=5), entry(3, input_sizes=[[]], input_dtypes=["Long"])]
    )

    assert written["groups"] == {
        "0": [
            [1, "gloo:all_reduce", "float32 (4, 2)", 0],
            [2, "gloo:all_reduce", "float32 (4, 2)", 1],
            [3, "gloo:all_reduce", "int64 ()", 0],
        ]
    }
    assert [[call[:2] for call in way] for way in written["ways"]] == [
        [("/home/ada/train.py", line), ("/site-packages/torch/distributed/distributed_c10d.py", 99)]
        for line in (3, 5)
    ]


def test_a_barrier_is_given_nothing_and_messages_have_no_number_that_all_ranks_share() -> None:
    barrier = entry(1, "barrier", input_sizes=[], input_dtypes=[])

    written = history._by_group([barrier, entry(1, "send", is_p2p=True)])

    assert written["groups"] == {"0": [[1, "gloo:barrier", "", 0]]}


@pytest.mark.parametrize(
    "entries",
    [
        pytest.param([entry(number) for number in (1, 2, 3, 1, 2)], id="by its numbers"),
        # it may have called more than the one before
        pytest.param([entry(1, pg_id=0), entry(1, pg_id=3), entry(2, pg_id=3)], id="by its place"),
    ],
)
def test_a_group_that_was_made_anew_begins_anew(entries: list[dict[str, Any]]) -> None:
    assert [call[::4] for call in history._by_group(entries)["groups"]["0"]] == [[1, 2], [2, 2]]


def test_of_many_calls_the_last_are_told() -> None:
    written = history._by_group(entry(number) for number in range(1, 1000))

    numbers = [number for number, *_ in written["groups"]["0"]]
    assert (numbers[0], numbers[-1], len(numbers)) == (700, 999, 300)
