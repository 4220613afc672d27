"""A cell in a rank is a program like any other."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from nbdist import processes
from nbdist.store import read_error

pytestmark = pytest.mark.usefixtures("leaves_nothing")

PROBE = '''
import inspect, json, os, pickle, signal, sys, threading

class Thing:
    """A class of the program."""
    def __init__(self, value): self.value = value

def double(x):
    return 2 * x

main = sys.modules["__main__"]
print(json.dumps({
    "name": __name__,
    "file": os.path.basename(__file__),
    "main_file": os.path.basename(main.__file__),
    "main_is_us": main.__dict__ is globals(),
    "spec": repr(__spec__), "package": repr(__package__), "doc": repr(__doc__), "cached": repr(__cached__),
    "loader": type(__loader__).__name__,
    "names": sorted(name for name in globals() if not name.startswith("__")),
    "argv": [os.path.basename(sys.argv[0]), *sys.argv[1:]],
    "source": inspect.getsource(double),
    "class_source": inspect.getsource(Thing),
    "module": Thing.__module__,
    "pickled": pickle.loads(pickle.dumps(Thing(3))).value,
    "by_name": pickle.loads(pickle.dumps(double))(4),
    "threads": threading.active_count(),
    "sigint": signal.getsignal(signal.SIGINT) is signal.default_int_handler,
    "sigterm": str(signal.getsignal(signal.SIGTERM)),
    "blocked": sorted(map(str, signal.pthread_sigmask(signal.SIG_BLOCK, ()))),
    "stdin": sys.stdin.read(),
    "descriptors": len(os.listdir("/proc/self/fd")),
}))
'''


def test_a_cell_cannot_tell_a_rank_from_plain_python(run_cell, tmp_path: Path) -> None:
    script = tmp_path / "cell.py"
    script.write_text(PROBE)
    plain = subprocess.run(
        [sys.executable, "-u", script, "--lr", "0.1"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
    )

    handle = run_cell('-n 1 --args "--lr 0.1"', PROBE)

    expected, seen = json.loads(plain.stdout), json.loads(handle.logs(0))
    # the socket to the supervisor, and the files for the stacks and for a report, are all that is more
    expected["descriptors"] += 3
    assert seen == expected


def test_modules_beside_the_notebook_can_be_imported(run_cell, tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "my_model.py").write_text("NAME = 'mine'")

    handle = run_cell("-n 1", "import my_model, os\nprint(my_model.NAME, os.getcwd())", cwd=folder)

    assert handle.logs(0).split() == ["mine", str(folder)]


def test_a_log_is_utf_8_in_every_locale_which_other_files_keep(run_cell) -> None:
    locale = "--env PYTHONIOENCODING=ascii:ignore --env PYTHONUTF8=0 --env LC_ALL=C"

    handle = run_cell(f"-n 1 {locale}", "print('中文', open(__file__).encoding)")

    assert handle.logs(0).split() == ["中文", "ANSI_X3.4-1968"]


@pytest.mark.parametrize(
    ("statement", "code", "state"),
    [
        pytest.param("pass", 0, "finished", id="the end of the program"),
        pytest.param("import sys; sys.exit()", 0, "finished", id="exit without a code"),
        pytest.param("import sys; sys.exit(7)", 7, "failed", id="exit 7"),
        pytest.param("import atexit, os; atexit.register(os.abort)", -6, "finished", id="abort at exit"),
        pytest.param(
            "import atexit, os; atexit.register(os.kill, os.getpid(), 7)", -7, "finished", id="bus at exit"
        ),
    ],
)
# and those of ranks that fail in other ways, in faults/test_a_rank_dies.py
def test_exit_codes_are_those_of_the_program(run_cell, statement: str, code: int, state: str) -> None:
    handle = run_cell("-n 1", statement)

    assert (handle.run.ranks[0].code, handle.status) == (code, state), handle.logs(0)


def test_a_traceback_names_the_lines_of_the_cell_and_none_of_ours(run_cell) -> None:
    cell = "def train():\n    raise ValueError('no data')\n\ntrain()\n"

    handle = run_cell("-n 1", cell)

    path = handle.directory.cell
    assert handle.logs(0) == (
        "Traceback (most recent call last):\n"
        f'  File "{path}", line 4, in <module>\n    train()\n'
        f"  File \"{path}\", line 2, in train\n    raise ValueError('no data')\n"
        "ValueError: no data\n"
    )


def test_a_hook_of_the_program_gets_the_exception_without_our_frames(run_cell) -> None:
    cell = """
import sys, traceback
def hook(kind, error, trace):
    print("hook:", kind.__name__, [f.name for f in traceback.extract_tb(trace)],
          [f.name for f in traceback.extract_tb(error.__traceback__)])
sys.excepthook = hook
def inner(): {}["missing"]
inner()
"""

    handle = run_cell("-n 1", cell)

    assert handle.logs(0) == "hook: KeyError ['<module>', 'inner'] ['<module>', 'inner']\n"


def test_a_handler_that_raises_does_not_spoil_the_report(run_cell) -> None:
    # torch's handler for a dead DataLoader worker does: here one strikes a hundred times a second
    cell = """
import signal
def handler(number, frame): raise RuntimeError("from the handler")
def late(): raise ValueError("mine")
try:
    late()
finally:
    signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.0001, 0.01)
"""

    handles = [run_cell("-n 1", cell) for _ in range(5)]

    for handle in handles:
        assert handle.run.ranks[0].errored is not None
        report = read_error(handle.directory.rank(0).error)
        assert report.type in ("ValueError", "RuntimeError")


def test_exit_handlers_run_and_open_files_are_flushed(run_cell, tmp_path: Path) -> None:
    cell = f"""
import atexit
class Keeps:
    def __init__(self):
        self.itself = self
        self.file = open({str(tmp_path / "out.txt")!r}, "w")
keeper = Keeps()
keeper.file.write("kept in a cycle")
atexit.register(print, "goodbye")
"""

    handle = run_cell("-n 1", cell)

    assert handle.logs(0) == "goodbye\n"
    assert (tmp_path / "out.txt").read_text() == "kept in a cycle"


SPAWNED = """
import multiprocessing as mp, os
FACTOR = 3
handle = open(os.environ["COUNT"], "a")      # an unguarded side effect of the program ...
print("top level", __name__)
class Multiply:
    def __call__(self, x): return x * FACTOR
def work(queue, multiply): queue.put((multiply(14), __name__, os.path.basename(__file__)))
context = mp.get_context("{method}")
queue = context.Queue()
child = context.Process(target=work, args=(queue, Multiply()))
child.start()
print(queue.get(timeout=60))
child.join()
print("exit code", child.exitcode)
"""


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_children_get_the_definitions_of_an_unguarded_cell_and_not_its_loop(
    run_cell, method: str, tmp_path: Path
) -> None:
    line = f"-n 1 --env COUNT={tmp_path / 'count'}"

    handle = run_cell(line, SPAWNED.replace("{method}", method))

    name = "__main__" if method == "fork" else "__mp_main__"
    expected = f"top level __main__\n(42, '{name}', 'cell.py')\nexit code 0\n"
    assert handle.logs(0) == expected


GUARDED = """
import multiprocessing as mp
print("top level", __name__)
def work(): print("work", __name__)
if __name__ == "__main__":
    context = mp.get_context("spawn")
    child = context.Process(target=work)
    child.start(); child.join()
"""
NESTED = """
import multiprocessing as mp
def leaf(queue): queue.put("leaf")
def branch(queue):
    context = mp.get_context("spawn")
    child = context.Process(target=leaf, args=(queue,))
    child.start(); child.join()
context = mp.get_context("spawn")
queue = context.Queue()
child = context.Process(target=branch, args=(queue,))
child.start()
print(queue.get(timeout=60)); child.join()
"""


@pytest.mark.parametrize(
    ("cell", "printed"),
    [(GUARDED, ["top level __main__", "top level __mp_main__", "work __mp_main__"]), (NESTED, ["leaf"])],
    ids=["a guarded cell runs as any script", "a child spawns a child"],
)
def test_children_are_spawned_as_from_a_script(run_cell, cell: str, printed: list[str]) -> None:
    assert run_cell("-n 1", cell).logs(0).splitlines() == printed


def test_a_rank_imports_nothing_heavy_before_the_program(run_cell) -> None:
    heavy = {"torch", "paddle", "visualdl", "IPython", "numpy", "psutil", "traitlets", "socket", "subprocess"}
    # what values and results need, where none are given or taken
    heavy |= {"typing", "mmap", "ast", "pickle", "cloudpickle", "nbdist.values", "nbdist.worker.result_files"}
    cell = f"import sys\nprint(sorted(sys.modules.keys() & {heavy!r}))"

    handle = run_cell("-n 1", cell)

    assert handle.logs(0).strip() == "[]"
    assert not handle.directory.rank(0).results.exists()


def test_the_supervisor_needs_the_standard_library_alone(start_cell) -> None:
    handle = start_cell("-n 1", "import time\ntime.sleep(60)")
    while handle.run.supervisor is None:
        handle.wait(0.05)

    command = Path(f"/proc/{handle.run.supervisor.pid}/cmdline").read_bytes().split(b"\0")
    assert command[1:3] == [b"-I", b"-S"]
    maps = Path(f"/proc/{handle.run.supervisor.pid}/maps").read_text()
    assert "site-packages" not in maps
    assert processes.alive(handle.run.supervisor)
