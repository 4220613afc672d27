"""Messages from the kernel to the page."""

from __future__ import annotations

import base64
import json
import math
from array import array
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nbdist.feed.charts import Chart
from nbdist.feed.given import Given, GivenValue
from nbdist.feed.progress import Progress
from nbdist.feed.protocol import BoardAnswer, Message, ReportAnswer, Update, encode, for_the_strip
from nbdist.feed.rank_log import LogDelta
from nbdist.feed.view import FailureView, NoteView, view_of
from nbdist.model import Run
from tests.fakes.runs import CREATED, STARTED, a_spec
from tests.fakes.wires import decode

SAMPLES = sorted((Path(__file__).parent.parent / "fixtures" / "protocol").glob("*.json"))


def a_delta(*lines: str, first: int = 0, skipped: int = 0, partial: str = "") -> LogDelta:
    times = ((len(lines), 3.1),) if lines else ()
    return LogDelta.of(rank=1, first=first, lines=lines, partial=partial, skipped=skipped, times=times)


CHART = Chart(
    tag="loss",
    kind="band",
    group="metric",
    unit="",
    ranks=(),
    columns=tuple(array("f", [float(at), float(at) + 0.5]) for at in range(5)),
    last=(2.5, 3.5, 4.5),
    highest=(4.5, 1),
)
VIEW = view_of(
    Run.of(a_spec(), STARTED),
    now=CREATED + 5,
    progress=Progress(fraction=0.5, remaining=3.0, text="epoch 2/4"),
    failure=FailureView(rank=1, headline="exit 1", message="", line=None),
    results=Given(values=(GivenValue(name="acc", about="float, 0.93", ranks="1–3"),), more=2),
)


@pytest.mark.parametrize(
    "message",
    [
        pytest.param(Update(), id="nothing"),
        pytest.param(Update(view=VIEW, cell="import torch\n"), id="a view and the cell"),
        pytest.param(Update(view=replace(VIEW, notes=("over",))), id="a run that is over"),
        pytest.param(
            Update(view=replace(VIEW, warnings=(NoteView(text="same", text_zh="一样"),))), id="a warning"
        ),
        pytest.param(Update(chunks=(a_delta("损失 0.5", "", "🏖️", first=7),), complete_until=2.5), id="lines"),
        pytest.param(Update(chunks=(a_delta(""),)), id="one empty line"),
        pytest.param(Update(chunks=(a_delta(partial=" 40%"),)), id="a line that grows"),
        pytest.param(Update(chunks=(a_delta("x", skipped=9),), charts=(CHART, CHART)), id="all"),
        pytest.param(Update(charts=(CHART,), left_out=3), id="metrics without a chart"),
        pytest.param(BoardAnswer(url="http://127.0.0.1:1/x"), id="the board"),
        pytest.param(BoardAnswer(problem="no port"), id="no board"),
        pytest.param(ReportAnswer(text="nbdist 报告"), id="a report"),
    ],
)
def test_what_is_sent_is_what_arrives(message: Message) -> None:
    content, buffers = encode(message)

    assert decode(json.loads(json.dumps(content, allow_nan=False)), buffers) == message


def test_charts_are_little_endian_floats_column_after_column() -> None:
    _, buffers = encode(Update(chunks=(a_delta("x"),), charts=(CHART,)))

    assert len(buffers) == 2
    assert buffers[1][:12] == b"\0\0\0\0\0\0\0\x3f\0\0\x80\x3f"
    assert len(buffers[1]) == 5 * 2 * 4


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_both_sides_read_the_same_samples(path: Path) -> None:
    sample = json.loads(path.read_text())
    expected = sample["expect"]

    message = decode(sample["content"], [base64.b64decode(data) for data in sample["buffers"]])

    if isinstance(message, BoardAnswer):
        assert {"kind": "board", "url": message.url, "problem": message.problem} == expected
        return
    if isinstance(message, ReportAnswer):
        assert {"kind": "report", "text": message.text} == expected
        return
    assert (message.view.state if message.view else None) == expected["state"]
    assert {str(chunk.rank): chunk.lines for chunk in message.chunks} == expected["lines"]
    assert message.complete_until == expected["completeUntil"]
    assert [_as_expected(chart) for chart in message.charts] == expected["charts"]


def _as_expected(chart: Chart) -> dict[str, Any]:
    columns = [[None if math.isnan(value) else value for value in column] for column in chart.columns]
    return {"key": f"{chart.group}/{chart.tag}", "columns": columns}


@pytest.mark.parametrize(
    ("content", "buffers"),
    [
        pytest.param({"kind": "noise"}, [], id="another kind"),
        pytest.param(encode(Update(charts=(CHART,)))[0], [b"1234"], id="too few values"),
        pytest.param(encode(Update(charts=(CHART,)))[0], [], id="a buffer is missing"),
        pytest.param(encode(Update(chunks=(a_delta("x"),)))[0], [b"x\ny"], id="too many lines"),
    ],
)
def test_what_is_not_as_agreed_is_refused(content: dict[str, Any], buffers: list[bytes]) -> None:
    with pytest.raises(ValueError, match=r"."):
        decode(content, buffers)


def test_a_line_that_grows_without_end_does_not_fill_every_message() -> None:
    content, _ = encode(Update(chunks=(a_delta(partial="x" * 16_000),)))

    assert len(content["deltas"][0]["partial"]) == 2_000


@pytest.mark.parametrize(("ranks", "line"), [(64, "step 3"), (65, "")], ids=["few ranks", "many ranks"])
def test_a_view_of_very_many_ranks_has_no_last_lines(ranks: int, line: str) -> None:
    view = view_of(Run.of(a_spec(ranks=ranks)), now=CREATED, last_lines={0: "step 3"})

    assert for_the_strip(view).ranks[0].last_line == line
