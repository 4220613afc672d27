"""``%%ranks`` in a real kernel: cells that share what their ranks hold."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from nbdist.model import Reason
from nbdist.store import RunStore
from nbdist.store.control import request_stop
from tests.magics.conftest import Kernel, Reply, by_rank, session_of, submitted
from tests.programs import until


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    kernel = Kernel(tmp_path_factory.mktemp("kernel") / "home")
    yield kernel
    kernel.close()
    # they outlive their kernel
    live = [run for run in RunStore(kernel.home).directories() if run.socket.exists()]
    for run in live:
        request_stop(run, Reason("stopped-from-python"))
    until(lambda: not any(run.socket.exists() for run in live))


@pytest.fixture(scope="module", autouse=True)
def first(kernel: Kernel) -> Reply:
    """Start the session that all tests use; return the reply to its first cell."""
    return kernel.run(
        "%%ranks -n 2 --framework none --name live\nimport os\nrank = int(os.environ['RANK'])\nx = 42\n'made'"
    )


def test_a_cell_has_what_the_ones_before_have_made(kernel: Kernel, first: Reply) -> None:
    shown = kernel.run("%%ranks\nprint('rank', rank)\nx")
    alone = kernel.run("%%rank 1\nx + rank")
    waited = kernel.run("%%ranks\nimport asyncio\nawait asyncio.sleep(0.01, 'awaited')")
    magic = kernel.run("%%ranks 0\n%time y = 5\ny")
    page = kernel.run(
        "%%ranks\nclass Page(str):\n    def _repr_html_(self): return '<b>of a rank</b>'\nPage('page')"
    )

    assert "live-" in first.stdout
    assert by_rank(first.stdout) == {0: ["'made'"], 1: ["'made'"]}
    assert by_rank(shown.stdout) == {0: ["rank 0", "42"], 1: ["rank 1", "42"]}
    assert alone.stdout == "[1] 43\n"
    assert by_rank(waited.stdout) == {0: ["'awaited'"], 1: ["'awaited'"]}
    assert "Wall time" in magic.stdout
    assert magic.stdout.endswith("[0] 5\n")
    assert {data["text/html"] for data in page.data} == {"<b>of a rank</b>"}


def test_values_go_in_and_out(kernel: Kernel) -> None:
    kernel.run("batch = {'a': [1, 2]}\nclass Sent: pass")

    given = kernel.run("%%ranks --push batch,Sent --pull total\ntotal = sum(batch['a']) + rank\nclass Own: 1")
    sources = kernel.run("%%rank 1\nimport inspect as i\nprint(i.getsource(Sent), i.getsource(Own))")
    pulled = kernel.run("print(total)")
    absent = kernel.run("%%ranks 1 --pull nothing\npass")

    assert given.status == "ok", given.error
    assert pulled.stdout == "3\n"
    assert sources.stdout == "[1] class Sent: pass\n[1]  class Own: 1\n[1] \n"
    assert "rank 1: NameError: --pull: there is no nothing" in absent.error
    assert not [*session_of(kernel).cells.glob("*.box")]


def test_an_error_leaves_the_session_as_it_was(kernel: Kernel) -> None:
    raised = kernel.run("%%ranks\nprint('before')\nif rank == 1:\n    1 / 0\nkept = rank")
    left = kernel.run("%%ranks\nimport sys\nsys.exit(3)")
    refused = kernel.run("%%ranks -n 3\nx")
    no_python = kernel.run("%%ranks\nx = 1\n if x")
    after = kernel.run("%%ranks\nx")

    assert by_rank(raised.stdout) == {0: ["before"], 1: ["before"]}
    assert raised.error.startswith("RunFailed: rank 1: ZeroDivisionError: division by zero (line 4)")
    assert "nbdist/" not in raised.traceback
    assert "ranks 0, 1: SystemExit: 3" in left.error
    assert "runs with 2 ranks" in refused.stderr
    assert "quotes of line 3" in no_python.traceback
    assert by_rank(after.stdout) == {0: ["42"], 1: ["42"]}


def test_a_cell_that_lasts_has_a_line_and_says_which_ranks_lack_it(kernel: Kernel) -> None:
    wait = (
        "import torch.distributed as dist\ndist.init_process_group('gloo')\nt = __import__('torch').ones(1)"
    )
    kernel.run(f"%%ranks\n{wait}")
    alone = submitted(kernel, "%%ranks 0\ndist.all_reduce(t)")

    told = kernel.collect(alone, until=lambda reply: "run this cell" in reply.stdout, limit=20)
    kernel.interrupt()
    kernel.collect(alone)

    assert "rank 0 waits in all_reduce at line 2, rank 1 is idle: run this cell on all ranks" in told.stdout
    lines = [data["text/plain"] for data in told.data]
    assert any("rank 0 waits in all_reduce" in line and "rank 1 is idle" in line for line in lines)


def test_an_interrupt_ends_the_cell_alone(kernel: Kernel) -> None:
    long = submitted(kernel, "%%ranks\nimport time\nprint('begun')\nwhile True: time.sleep(1)")
    kernel.collect(long, until=lambda reply: len(by_rank(reply.stdout)) == 2)

    kernel.interrupt()
    reply = kernel.collect(long)

    assert reply.error.startswith("KeyboardInterrupt: cell ")
    assert "keep their variables" in reply.error
    assert by_rank(kernel.run("%%ranks\nx").stdout) == {0: ["42"], 1: ["42"]}
    assert "idle · 2 ranks" in kernel.run("%dist_session").stdout


def test_the_next_kernel_has_the_session_and_a_rank_that_dies_is_named(
    kernel: Kernel, tmp_path: Path
) -> None:
    kernel.run("%%rank 1\nx + rank")
    submitted(kernel, "%%ranks\nimport time\ntime.sleep(1)\nx += 1")

    kernel.manager.restart_kernel(now=True)
    kernel.client.wait_for_ready(timeout=60)
    kernel.run("%load_ext nbdist")
    shown = kernel.run("%%ranks\nx")
    died = kernel.run("%%ranks\nimport os, signal\nif rank == 1: os.kill(os.getpid(), signal.SIGKILL)")
    alone = kernel.run("%%ranks\nx")
    exported = kernel.run(f"%dist_export --to {tmp_path / 'exported'}")
    ended = kernel.run("%dist_session end")
    anew = kernel.run("%%ranks -n 1 --framework none\n'anew'")

    assert "continues" in shown.stdout
    assert by_rank(shown.stdout) == {0: ["43"], 1: ["43"]}
    assert "rank 1 ended, SIGKILL" in died.error
    assert "rank 1 of live-" in alone.stdout
    assert alone.stdout.endswith("[0] 43\n")
    assert "left out" in exported.stdout
    script = (tmp_path / "exported" / "live.py").read_text()
    compile(script, "live.py", "exec")
    assert script.index("x = 42") < script.index("x += 1")
    assert 'if int(os.environ["RANK"]) in (1,):\n    x + rank' in script
    assert "has ended" in ended.stdout
    assert anew.stdout.endswith("[0] 'anew'\n")
