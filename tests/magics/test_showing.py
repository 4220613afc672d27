"""A run that has ended, shown again in a notebook: an interactive panel that stays."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from nbdist.feed.protocol import Update
from nbdist.magics.showing import EndedPanels
from tests.fakes.wires import decode
from tests.fakes.wires import lines_of as lines
from tests.magics.conftest import Kernel

WIDGET = "application/vnd.jupyter.widget-view+json"
TRAINING = """%%distributed -n 2 --name shown
import nbdist
for step in range(3000):
    print("line", step)
nbdist.log(step=1, loss=0.25)
"""
NOTEBOOK = {"cellId": "a1"}


def updates(kernel: Kernel, *, until: Callable[[list[Update]], bool], limit: float = 90.0) -> list[Update]:
    """Return the panel's messages from now on, until ``until`` returns True."""
    messages: list[Update] = []
    deadline = time.monotonic() + limit
    while not until(messages):
        message = kernel.client.get_iopub_msg(timeout=max(0.1, deadline - time.monotonic()))
        data: dict[str, Any] = message["content"].get("data", {})
        if message["msg_type"] == "comm_msg" and data.get("method") == "custom":
            update = decode(data["content"], [bytes(buffer) for buffer in message["buffers"]])
            assert isinstance(update, Update)
            messages.append(update)
    return messages


def has_all(messages: list[Update], count: int = 3000) -> bool:
    return all(len(lines(messages, rank)) == count for rank in (0, 1))


def open_panel(kernel: Kernel) -> dict[str, Any]:
    """Run a cell, and return its outputs."""
    message = kernel.submit("%dist_attach", NOTEBOOK)
    return kernel.collect(message, until=lambda reply: bool(reply.data)).data[0]


def test_a_run_that_has_ended_is_shown_in_a_panel_that_stays(kernel) -> None:
    kernel.run(TRAINING)

    opened = open_panel(kernel)
    sent = updates(kernel, until=lambda sent: has_all(sent) and sent[-1].cell is not None)

    assert WIDGET not in opened, "a saved notebook has the summary alone"
    assert "data-nbdist-panel=" in opened["text/html"]
    assert "Finished" in opened["text/html"]
    assert "<script" not in opened["text/html"]
    assert "shown-" in opened["text/plain"]
    assert max(lines(sent, 1).items())[1] == "line 2999"
    assert sent[-1].complete_until is None
    assert {chart.tag for chart in sent[-1].charts} >= {"loss"}
    assert "for step in range(3000)" in (sent[-1].cell or "")
    assert {update.view.state for update in sent if update.view} == {"finished"}


def pull(kernel: Kernel) -> None:
    """Ask for all of the run again, as a page does."""
    known = kernel.run("from comm import get_comm_manager\nprint(*get_comm_manager().comms)").stdout
    data = {"method": "custom", "content": {"kind": "pull", "placed": True}}
    for comm in known.split():  # the panel's, and that of its layout, which does not listen
        message = kernel.client.session.msg("comm_msg", {"comm_id": comm, "data": data})
        kernel.client.shell_channel.send(message)


def test_a_page_that_was_loaded_again_gets_every_line_from_disk(kernel) -> None:
    # more than is sent again by itself
    kernel.run(TRAINING.replace("3000", "40_000").replace('"line"', '"x" * 100'))
    open_panel(kernel)
    updates(kernel, until=lambda sent: has_all(sent, 40_000) and sent[-1].complete_until is None)
    pull(kernel)

    updates(kernel, until=lambda sent: has_all(sent, 40_000))


def panels(kernel: Kernel) -> list[str]:
    """Return the models of the panels that the kernel keeps."""
    code = "from ipywidgets import Widget, widget\nfor w in list(widget._instances.values()):\n"
    return kernel.run(f"{code}    if hasattr(w, 'panel_id'): print(w.model_id)").stdout.split()


def test_the_panel_of_a_cell_stays_when_its_run_has_ended(kernel) -> None:
    message = kernel.submit(TRAINING, NOTEBOOK)
    reply = kernel.collect(message)
    pull(kernel)  # what came before the cell's end is not kept
    sent = updates(kernel, until=lambda sent: any(update.charts for update in sent))

    live, ended = reply.data
    assert WIDGET in live
    assert "%dist_status" in live["text/html"]
    assert set(ended) == {"text/html", "text/plain"}, "a saved notebook has the summary alone"
    assert "data-nbdist-panel=" in ended["text/html"]
    assert "line 1" not in reply.stdout
    assert "loss" in [chart.tag for chart in sent[-1].charts]
    notes = [note for update in sent if update.view for note in update.view.notes]
    assert not any("loss" in note for note in notes), "the line of its head has the values"
    assert len(panels(kernel)) == 1

    kernel.run(TRAINING, metadata=NOTEBOOK)

    assert len(panels(kernel)) == 1, "the cell has another panel now"


def test_what_was_passed_over_while_the_run_went_on_comes_from_disk_when_it_has_ended(kernel) -> None:
    # much more, at once, than a page gets of a run that is about to end
    cell = '%%distributed -n 2\nprint("\\n".join(f"{i} {0:02000}" for i in range(10_000)))'
    kernel.submit(cell, NOTEBOOK)

    def whole(messages: list[Update]) -> bool:
        # a fast page has every line already, and hears a moment later that no more will come
        return has_all(messages, 10_000) and messages[-1].complete_until is None

    updates(kernel, until=whole)


def test_where_no_widget_reaches_the_outputs_the_summary_takes_the_place_of_the_panel(kernel) -> None:
    reply = kernel.run(TRAINING, metadata={"cellId": "vscode-notebook-cell:/x.ipynb#W1"})

    assert "data-nbdist-panel=" not in reply.data[-1]["text/html"]
    assert panels(kernel) == []


def test_of_panels_whose_runs_have_ended_the_latest_stay_as_far_as_a_page_has_room() -> None:
    class Panel:
        closed = False

        def close(self) -> None:
            self.closed = True

    small = [Panel() for _ in range(12)]
    ended: Any = EndedPanels()
    for number, panel in enumerate(small):
        ended.add(f"cell {number}", 1000, panel)
    assert [panel.closed for panel in small] == [True] * 2 + [False] * 10

    large = [Panel(), Panel()]
    for panel in large:
        ended.add("", 300_000_000, panel)
    assert all(panel.closed for panel in small)
    assert [panel.closed for panel in large] == [True, False]


def test_what_the_ranks_of_a_run_in_the_background_showed_is_left_when_it_is_attached_to(kernel) -> None:
    kernel.run(
        "%%distributed -n 2 -d\ndisplay({'text/html': '<b>shown</b>', 'text/plain': 'shown'}, raw=True)",
        metadata=NOTEBOOK,
    )
    kernel.run("import nbdist\nnbdist.attach().wait()")

    reply = kernel.run("%dist_attach", metadata=NOTEBOOK)

    # the panel of the cell before may say its last word only now, and says it as a part of this cell
    assert reply.data.count({"text/plain": "shown", "text/html": "<b>shown</b>"}) == 1
