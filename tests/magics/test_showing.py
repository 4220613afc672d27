"""A run that has ended, shown again in a notebook: an interactive panel that stays."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from nbdist.panel.protocol import Update, decode
from tests.magics.conftest import Kernel

WIDGET = "application/vnd.jupyter.widget-view+json"
TRAINING = """%%distributed -n 2 --name shown
import nbdist
for step in range(3000):
    print("line", step)
nbdist.log(step=1, loss=0.25)
"""
NOTEBOOK = {"cellId": "a1"}


def updates(kernel: Kernel, *, until: Callable[[list[Update]], bool], limit: float = 20.0) -> list[Update]:
    """What the panel sends from now on, until ``until`` says enough."""
    found: list[Update] = []
    deadline = time.monotonic() + limit
    while not until(found):
        message = kernel.client.get_iopub_msg(timeout=max(0.1, deadline - time.monotonic()))
        data: dict[str, Any] = message["content"].get("data", {})
        if message["msg_type"] == "comm_msg" and data.get("method") == "custom":
            update = decode(data["content"], [bytes(buffer) for buffer in message["buffers"]])
            assert isinstance(update, Update)
            found.append(update)
    return found


def lines(found: list[Update], rank: int) -> dict[int, str]:
    return {
        chunk.first + at: line
        for update in found
        for chunk in update.chunks
        if chunk.rank == rank
        for at, line in enumerate(chunk.lines)
    }


def has_all(found: list[Update], count: int = 3000) -> bool:
    return all(len(lines(found, rank)) == count for rank in (0, 1))


def open_panel(kernel: Kernel) -> dict[str, Any]:
    """What the cell puts out."""
    message = kernel.submit("%dist_attach", NOTEBOOK)
    return kernel.collect(message, until=lambda reply: bool(reply.data)).data[0]


def test_a_run_that_has_ended_is_shown_in_a_panel_that_stays(kernel) -> None:
    kernel.run(TRAINING)

    opened = open_panel(kernel)
    found = updates(kernel, until=lambda found: has_all(found) and found[-1].cell is not None)

    assert WIDGET not in opened, "a saved notebook has the summary alone"
    assert "data-nbdist-panel=" in opened["text/html"]
    assert "Finished" in opened["text/html"]
    assert "<script" not in opened["text/html"]
    assert "shown-" in opened["text/plain"]
    assert lines(found, 1)[2999] == "line 2999"
    assert found[-1].complete_until is None
    assert {chart.tag for chart in found[-1].charts} >= {"loss"}
    assert "for step in range(3000)" in (found[-1].cell or "")
    assert {update.view.state for update in found if update.view} == {"succeeded"}


def test_a_page_that_was_loaded_again_gets_every_line_from_disk(kernel) -> None:
    # more than is sent again by itself
    kernel.run(TRAINING.replace("3000", "40_000").replace('"line"', '"x" * 100'))
    open_panel(kernel)
    updates(kernel, until=lambda found: has_all(found, 40_000) and found[-1].complete_until is None)
    known = kernel.run("from comm import get_comm_manager\nprint(*get_comm_manager().comms)").stdout
    data = {"method": "custom", "content": {"kind": "pull"}}
    for comm in known.split():  # the panel's, and that of its layout, which does not listen
        message = kernel.client.session.msg("comm_msg", {"comm_id": comm, "data": data})
        kernel.client.shell_channel.send(message)

    updates(kernel, until=lambda found: has_all(found, 40_000))
