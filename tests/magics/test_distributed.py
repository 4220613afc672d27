"""``%%distributed`` and the line magics, in a real kernel."""

from __future__ import annotations

import pytest

from tests.magics.conftest import Kernel
from tests.programs import until

TRAINING = """%%distributed -n 2 --name lenet
import os, nbdist
print("hello from", os.environ["RANK"])
nbdist.log(step=1, loss=0.25)
"""


def test_a_cell_shows_its_ranks_live_and_a_summary_and_returns_nothing(used_kernel) -> None:
    used_kernel.run("kept = 41")
    reply = used_kernel.run(TRAINING)

    assert reply.status == "ok"
    assert used_kernel.run("print(kept + 1)").stdout == "42\n", "the kernel keeps its variables"
    assert "[0] hello from 0\n" in reply.stdout
    assert "[1] hello from 1\n" in reply.stdout
    assert "Finished · 2 ranks" in reply.stdout
    assert "loss=0.25" in reply.stdout
    assert reply.data == []


def test_advice_is_given_once_a_kernel_and_a_name_is_kept_with_its_dots(kernel) -> None:
    kernel.run("import nbdist.runner.planning as planning\nplanning.cpu_count = lambda: 8")

    texts = [kernel.run("%%distributed -n 2 --framework torch --name sweep-0.02\npass").stdout for _ in "12"]

    assert ["[nbdist] each rank computes in 1 thread" in text for text in texts] == [True, False]
    label = kernel.run("import nbdist\nprint(nbdist.attach('sweep-0.02').run.label)").stdout
    assert label.startswith("sweep-0.02-")


def test_lines_are_counted_as_the_editor_counts_them(used_kernel) -> None:
    above = "\n%%time\n%%distributed -n 1 --name counted\n"

    refused = used_kernel.run(f"{above}x = 1\nif x\n  y")
    failed = used_kernel.run(f"{above}import inspect\nprint(inspect.currentframe().f_lineno)\n1 / 0")
    called = used_kernel.run("get_ipython().run_cell_magic('distributed', '-n 1', '1 / 0')")
    used_kernel.run("%dist_export counted --to exported")

    assert "line 5 of the cell does not compile" in refused.stderr
    assert "[0] 5\n" in failed.stdout
    assert "at line 6 of the cell" in failed.error
    assert "cell line 6, in <module>" in failed.traceback
    assert "at line 2 of the cell" in called.error
    assert (used_kernel.home.parent / "exported/counted.py").read_text().startswith("import inspect\n")


def test_a_failed_run_fails_its_cell_with_one_clear_error(used_kernel) -> None:
    cell = """%%distributed -n 2
import os, time
def train():
    if os.environ["RANK"] == "1":
        raise ValueError("no data")
    time.sleep(600)
train()
"""

    reply = used_kernel.run(cell)

    assert reply.status == "error"
    assert reply.error.startswith("RunFailed: ")
    assert "rank 1 failed first: ValueError at line 5 of the cell" in reply.error
    assert "cell line 7, in <module>\n    train()" in reply.traceback
    assert "cell line 5, in train\n    raise ValueError('no data')".replace("'", '"') in reply.traceback
    assert "ValueError: no data" in reply.traceback
    assert "nbdist/magics" not in reply.traceback


def test_an_interrupted_cell_stops_its_run_and_fails(used_kernel) -> None:
    cell = "%%distributed -n 2\nimport time\nprint('ready')\ntime.sleep(600)"
    message = used_kernel.submit(cell)
    used_kernel.collect(message, until=lambda reply: reply.stdout.count("ready") == 2)

    used_kernel.interrupt()
    reply = used_kernel.collect(message, limit=20)

    assert reply.status == "error"
    assert reply.error.startswith("RunStopped: ")
    assert "the kernel was interrupted" in reply.error
    assert reply.traceback == ""
    assert " stopped: " not in reply.stdout, "the summary has said it"


def test_below_a_panel_a_failure_is_one_line(used_kernel) -> None:
    reply = used_kernel.run("%%distributed -n 2\nraise ValueError('no data')", metadata={"cellId": "a1"})

    assert reply.error.startswith("RunFailed: ")
    assert "ValueError: no data" in reply.error, "who catches the exception has the whole report"
    assert reply.traceback.endswith("failed first: ValueError at line 2 of the cell")
    assert "\n" not in reply.traceback


def test_below_a_panel_a_stop_that_was_asked_for_adds_no_line_and_fails_the_cell(kernel) -> None:
    kernel.run("1/0")  # whose traceback is not to come back
    message = kernel.submit("%%distributed -n 2\nimport time\ntime.sleep(600)", {"cellId": "a1"})
    kernel.collect(message, until=lambda reply: bool(reply.data))

    kernel.interrupt()
    reply = kernel.collect(message, limit=20)

    assert reply.status == "error"
    assert reply.traceback == ""
    assert (reply.stdout, reply.stderr) == ("", "")


def test_detached_a_handle_comes_back_at_once(used_kernel) -> None:
    used_kernel.run("%%distributed -n 2 -d --name quick\nprint('hello')")

    reply = used_kernel.run("run = _\nprint(run.wait(30), run.status, run.logs(1).strip(), run.stop())")

    assert reply.stdout == "finished finished hello finished\n", reply.traceback


def test_status_shows_device_pid_memory_and_the_last_line(kernel) -> None:
    cell = "%%distributed -n 2 -d --name shown\nimport time\nprint('first\\nlast words')\ntime.sleep(600)"
    kernel.run(cell)
    kernel.run(
        "import nbdist\nrun = nbdist.attach()\nwhile not all('words' in run.logs(r) for r in (0, 1)): pass"
    )

    table = kernel.run("%dist_status").data[0]
    stopped = kernel.run("%dist_stop --all")

    assert "stopped: 2 processes ended" in stopped.stdout
    rows = [line.split() for line in table["text/plain"].splitlines()]
    assert rows[0][:6] == ["run", "rank", "state", "device", "pid", "memory"]
    assert rows[0][-3:] == ["elapsed", "last", "line"]
    assert rows[1][0].startswith("shown-")
    assert rows[2][:3] == ["0", "Running", "CPU"]
    assert rows[2][3].isdigit()
    assert rows[2][5] == "MB"
    assert rows[2][-2:] == ["last", "words"]
    assert ">last words</td>" in table["text/html"]


UP = "import time\nprint('up')\ntime.sleep(600)"
WAIT_UP = "import nbdist\nrun = nbdist.attach()\nwhile not all('up' in run.logs(r) for r in (0, 1)): pass"
STATUS_THREADS = "import threading\nprint([t.name for t in threading.enumerate() if 'status' in t.name])"


def test_in_a_notebook_the_status_is_a_monitor_and_the_notebook_keeps_a_table(kernel) -> None:
    kernel.run(f"%%distributed -n 2 -d --name live\n{UP}")
    kernel.run(WAIT_UP)

    kernel.run("%dist_status", metadata={"cellId": "a1"})
    kernel.run("import time\ntime.sleep(2.5)")
    kernel.run("%dist_stop")
    until(lambda: kernel.run("time.sleep(0.5)") and "Stopped" in str(kernel.displays))
    (shown,) = kernel.displays.values()
    tables = [table for _moment, table in shown]
    assert "Running" in tables[0]["text/plain"]
    assert "data-nbdist-panel" in tables[0]["text/html"]
    assert "Stopped" in tables[-1]["text/plain"]
    assert "As of 2" in tables[-1]["text/html"]
    assert len(tables) <= 3, "it is written when a state has changed"


def test_one_monitor_at_a_time_is_live(kernel) -> None:
    for _ in range(3):
        kernel.run("%dist_status", metadata={"cellId": "a1"})
    kernel.run("watching = [t for t in __import__('threading').enumerate() if t.name == 'nbdist status']")
    kernel.run("for t in watching[:-1]: t.join(10)")

    assert kernel.run(STATUS_THREADS).stdout == "['nbdist status']\n"
    *earlier, latest = (tables[-1][1]["text/html"] for tables in kernel.displays.values())
    assert ["data-nbdist-panel" in table for table in (*earlier, latest)] == [False, False, True]


SEE = "monitor._receive({'kind': 'seen', 'seen': %s, 'language': 'zh'})"
LOOKS = "\ntime.sleep(1.5)\nlast = monitor._overview\ntime.sleep(2)\nprint(last is monitor._overview)"


def test_a_monitor_that_is_not_seen_looks_at_nothing(kernel) -> None:
    kernel.run("%dist_status", metadata={"cellId": "a1"})
    kernel.run("import gc, time\nfrom nbdist.magics.monitor import Monitor")
    kernel.run("monitor = next(item for item in gc.get_objects() if isinstance(item, Monitor))")

    hidden = kernel.run(SEE % False + LOOKS)
    seen = kernel.run(SEE % True + LOOKS)

    assert (hidden.stdout, seen.stdout) == ("True\n", "False\n")


def test_logs_come_from_disk_by_rank_tail_and_pattern(used_kernel) -> None:
    used_kernel.run("%%distributed -n 2 --name many\nfor i in range(5): print('line', i)")

    assert used_kernel.run("%dist_logs many --rank 1 --tail 2").stdout == "[1] line 3\n[1] line 4\n"
    assert used_kernel.run("%dist_logs --grep 'e 0'").stdout == "[0] line 0\n[1] line 0\n"


def test_no_panel_asks_for_text(kernel) -> None:
    reply = kernel.run(TRAINING.replace("-n 2", "-n 2 --no-panel"), metadata={"cellId": "a1"})

    assert "[0] hello from 0" in reply.stdout
    assert reply.data == []
    loaded = kernel.run("import sys\nprint({'torch', 'paddle', 'visualdl', 'flask'} & set(sys.modules))")
    assert loaded.stdout == "set()\n"


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        pytest.param("%%distributed -n 0\npass", "write  -n 1  or more", id="an option"),
        pytest.param("%%distributed --gpus 0,1\npass", "write  -n 2  for 2 CPU ranks", id="no GPU"),
        pytest.param("%%distributed -n 2\n  \n", "the cell is empty", id="blank cell"),
        pytest.param("%distributed -n 2", "the cell is empty", id="line magic"),
        pytest.param("%%distributed -n 2\nx = 1\nif x\n  y", "line 3 of the cell", id="syntax error"),
        pytest.param(
            "%%distributed -n 2\nx = 1\n%time x", "line 3 of the cell is a notebook command", id="magic"
        ),
        pytest.param("%dist_logs nothing", "there are no runs yet", id="no such run"),
    ],
)
def test_bad_input_gets_one_line_and_starts_nothing(same_kernel, cell: str, expected: str) -> None:
    reply = same_kernel.run(cell)

    assert reply.status == "error"
    assert expected in reply.stderr
    assert reply.stderr.startswith("UsageError: ")
    assert len(reply.stderr.strip().splitlines()) == 1
    assert not (same_kernel.home / "runs").exists()


def test_a_missing_framework_is_named_with_what_installs_it(kernel) -> None:
    kernel.run("import sys\nsys.path[:] = [p for p in sys.path if 'site-packages' not in p]")

    reply = kernel.run("%%distributed -n 2\nimport torch")

    assert '%pip install "nbdist[torch]"' in reply.stderr


def test_help_lists_the_options(same_kernel) -> None:
    assert "--timeout TIME" in same_kernel.run("%distributed --help").stdout
    code = "print(get_ipython().find_cell_magic('distributed').__doc__)"
    assert "--timeout TIME" in same_kernel.run(code).stdout, "%%distributed? shows it"


def test_the_magics_can_be_unloaded(kernel) -> None:
    kernel.run("%unload_ext nbdist")

    assert "not found" in kernel.run("%%distributed -n 2\npass").stderr


def test_the_board_shows_the_run_in_a_frame(kernel) -> None:
    kernel.run(TRAINING)

    reply = kernel.run("%dist_board")

    assert "<iframe" in reply.data[0]["text/html"].lower()
    assert "/scalar" in reply.stdout
    kernel.run("from nbdist.board import stop_board\nfrom nbdist.config import home\nstop_board(home())")


def test_several_watchers_see_everything_and_do_not_disturb_the_run(kernel) -> None:
    cell = """%%distributed -n 2 -d --name watched
import time
for i in range(200):
    print('line', i)
    time.sleep(0.01)
display({'text/html': '<b>shown</b>', 'text/plain': 'shown'}, raw=True)
"""
    kernel.run(cell)
    others = [Kernel(kernel.home), Kernel(kernel.home)]
    try:
        messages = [other.submit("%dist_attach watched") for other in others]
        replies = [other.collect(message) for other, message in zip(others, messages, strict=True)]
    finally:
        for other in others:
            other.close()

    for reply in replies:
        for rank in (0, 1):
            lines = [line for line in reply.stdout.splitlines() if line.startswith(f"[{rank}] line")]
            assert lines == [f"[{rank}] line {i}" for i in range(200)]
        assert "Finished · 2 ranks" in reply.stdout
        assert reply.data == [{"text/plain": "shown", "text/html": "<b>shown</b>"}]
    assert kernel.run("import nbdist\nprint(nbdist.attach('watched').status)").stdout == "finished\n"


def test_leaving_the_view_of_a_run_ends_nothing(used_kernel) -> None:
    used_kernel.run("%%distributed -n 1 -d --name kept\nimport time\nprint('hello')\ntime.sleep(600)")
    message = used_kernel.submit("%dist_attach kept")
    used_kernel.collect(message, until=lambda reply: "[0] hello" in reply.stdout)

    used_kernel.interrupt()
    reply = used_kernel.collect(message, limit=20)

    assert reply.status == "ok"
    assert "still runs: see it again with  %dist_attach" in reply.stdout
    assert used_kernel.run("import nbdist\nprint(nbdist.attach('kept').status)").stdout == "running\n"
    used_kernel.run("%dist_stop kept")


def test_a_finished_run_is_shown_with_its_failure(used_kernel) -> None:
    used_kernel.run("%%distributed -n 1 --name broken\nprint('before')\n1/0")

    reply = used_kernel.run("%dist_attach broken")

    assert reply.status == "ok"
    assert "[0] before\n" in reply.stdout
    assert "cell line 3, in <module>" in reply.stdout


def test_old_runs_are_pruned_and_it_is_said(kernel) -> None:
    kernel.run("%env NBDIST_KEEP_RUNS=1")
    kernel.run("%%distributed -n 1 --name first\npass")
    kernel.run("%%distributed -n 1 --name second\npass")

    reply = kernel.run("%%distributed -n 1 --name third\npass")

    assert "removed 1 old run " in reply.stdout
    names = {path.name.split("-")[2] for path in (kernel.home / "runs").iterdir()}
    assert names == {"third"}
