"""Held ranks at the prompt of a cell, and by magics."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

from nbdist.panel.debug_prompt import DebugPrompt
from nbdist.store import RunDirectory, RunStore, snapshot
from nbdist.store.held_ranks import ask, held_ranks
from tests.magics.conftest import Kernel, by_rank
from tests.programs import until

_LIMIT = 20.0
_HELD = "import os\nx = int(os.environ['RANK'])\nbreakpoint()\nprint('went on', x)"


def answer(kernel: Kernel, line: str) -> str:
    """Type a line into the next ``input()``; return its prompt."""
    prompt: str = kernel.client.get_stdin_msg(timeout=_LIMIT)["content"]["prompt"]
    kernel.client.input(line)
    return prompt


def held_run(kernel: Kernel) -> RunDirectory:
    """Wait until both ranks of the latest run are held; return it."""
    until(lambda: RunStore(kernel.home).directories())
    directory = RunStore(kernel.home).directories()[0]
    until(lambda: (run := snapshot(directory)) and [*held_ranks(directory, run)] == [0, 1])
    return directory


def test_a_cell_asks_for_commands_until_its_ranks_go_on(used_kernel: Kernel) -> None:
    later = used_kernel.home / "later"
    waits = f"import os, time\nwhile os.environ['RANK'] == '0' and not os.path.exists({str(later)!r}):\n"
    cell = used_kernel.submit(f"%%distributed -n 2\n{waits}    time.sleep(0.01)\n{_HELD}", stdin=True)

    first = used_kernel.client.get_stdin_msg(timeout=_LIMIT)["content"]["prompt"]
    later.touch()
    held_run(used_kernel)
    used_kernel.client.input("all p x + 1")  # of the rank that came later, too
    prompts = [
        answer(used_kernel, text) for text in ("rank 0", "p x", "for i in [7]:", " print(i)", "", "all c")
    ]
    reply = used_kernel.collect(cell)

    assert [first, *prompts] == [
        "(rank 1) ",
        "(rank 1) ",
        "(rank 0) ",
        "(rank 0) ",
        "...   ",
        "...   ",
        "(rank 0) ",
    ]
    assert reply.status == "ok", reply.error
    for text in ("rank 1: held at line 7: breakpoint()", "rank 0: 1\nrank 1: 2", "\n0\n7\n", "went on 0"):
        assert text in reply.stdout


def test_a_prompt_waits_for_the_stop_that_follows_a_step() -> None:
    prompt: Any = DebugPrompt(Mock())
    prompt.step = Mock(side_effect=[True, None, True, *[None] * 10])

    prompt.run()

    assert prompt.step.call_count == 13


def test_a_prompt_goes_with_what_it_asks_about(used_kernel: Kernel) -> None:
    cell = used_kernel.submit(f"%%distributed -n 2\n{_HELD}", stdin=True)
    used_kernel.client.get_stdin_msg(timeout=_LIMIT)
    directory = held_run(used_kernel)

    ask(held_ranks(directory, snapshot(directory)), "c")

    assert used_kernel.collect(cell).status == "ok"
    # and takes no line of another cell
    cell = used_kernel.submit("print(input('name: '))", stdin=True)
    assert answer(used_kernel, "Ada") == "name: "
    assert used_kernel.collect(cell).stdout == "Ada\n"


def test_ranks_go_on_where_no_front_end_reads_input(used_kernel: Kernel) -> None:
    reply = used_kernel.run(f"%%distributed -n 2\n{_HELD}")

    assert "held at line 4: breakpoint()" in reply.stdout
    assert "went on 1" in reply.stdout


def test_a_detached_run_is_looked_at_by_a_magic_and_goes_on_without_debug(used_kernel: Kernel) -> None:
    raises = "import os\nx = int(os.environ['RANK'])\n1 / 0"
    assert used_kernel.run(f"%%distributed -n 2 -d --debug\n{raises}").status == "ok"
    held_run(used_kernel)

    assert "rank 1: 1" in used_kernel.run("%dist_eval x").stdout
    cell = used_kernel.submit("%dist_debug --rank 1", stdin=True)
    answer(used_kernel, "all c")

    assert "rank 1: held at line 4: ZeroDivisionError" in used_kernel.collect(cell).stdout
    reply = used_kernel.run("%%distributed -n 1 -d --name refused\nbreakpoint()")
    until(lambda: "add  --debug" in used_kernel.run("%dist_logs refused").stdout)
    assert reply.status == "ok"


def test_live_ranks_are_held_and_quit_ends_their_cell(used_kernel: Kernel) -> None:
    assert used_kernel.run("%%ranks -n 2\nx = 1").status == "ok"
    cell = used_kernel.submit("%%ranks\nbreakpoint()\nx = 2", stdin=True)

    held_run(used_kernel)
    answer(used_kernel, "rank 0")
    answer(used_kernel, "x = 5")
    answer(used_kernel, "q")
    reply = used_kernel.collect(cell)

    assert (reply.status, reply.error.split(":")[0]) == ("error", "KeyboardInterrupt")
    assert by_rank(used_kernel.run("%%ranks\nprint(x)").stdout) == {0: ["5"], 1: ["1"]}
    assert used_kernel.run("%dist_session end").status == "ok"


def test_a_killed_kernel_leaves_no_held_rank(kernel: Kernel) -> None:
    kernel.submit(f"%%distributed -n 2\n{_HELD}", stdin=True)
    directory = held_run(kernel)

    kernel.manager.shutdown_kernel(now=True)

    until(lambda: snapshot(directory).state.terminal)
